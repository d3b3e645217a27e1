import pytest

from albert_tf.export.export_config import ExportJob


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"task": "poetry"}, "`task` must be one of encoder.*'poetry'"),
        ({"precision": "int8"}, "`precision` must be one of float32, bfloat16"),
        ({"version": 0}, "`version` must be 1 or more. Received: 0"),
        ({"num_choices": 1}, "`num_choices` must be 2 or more. Received: 1"),
        ({"labels": ("a", "b")}, "`labels` are a classifier's.*labels=a,b"),
        (
            {"precision": "bfloat16", "tflite": True},
            "`tflite` needs precision='float32'. Received.*bfloat16",
        ),
        ({"task": "race", "tflite": True}, "`tflite` is for encoder, class"),
    ],
)
def test_impossible_values(values, words):
    with pytest.raises(ValueError, match=words):
        ExportJob(init_checkpoint="a", export_dir="b", **values)


def test_the_length_of_a_task():
    def length(**values):
        job = ExportJob(init_checkpoint="a", export_dir="b", **values)
        return job.known_seq_length

    assert length() == 512
    assert length(task="squad") == 384
    assert length(task="squad", max_seq_length=100) == 100
