import pytest

from albert_tf.checkpoints.conversion_config import ConversionJob


@pytest.mark.parametrize("field", ["output_format", "parameter_sharing"])
def test_an_unknown_choice_is_an_error(field):
    fields = {"output_format": "tf1", field: "odd"}

    with pytest.raises(ValueError, match=f"`{field}` must be one of.*'odd'"):
        ConversionJob(input_path="a", output_path="b", **fields)
