import pytest

from albert_tf.export.export_job import ExportJob


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"task": "poetry"}, "`task` must be one of encoder.*'poetry'"),
        ({"precision": "int8"}, "`precision` must be one of float32, bfloat16"),
        ({"version": 0}, "`version` must be 1 or more. Received: 0"),
    ],
)
def test_impossible_values(values, words):
    with pytest.raises(ValueError, match=words):
        ExportJob(init_checkpoint="a", export_dir="b", **values)
