import pytest

from albert_tf.checkpoints.conversion_config import ConversionConfig

_VALID = {"input_path": "a", "output_path": "b", "output_format": "tf1"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"input_path": None}, "`input_path` is missing. Pass --input_path"),
        ({"output_path": ""}, "`output_path` is missing"),
        ({"output_format": None}, "`output_format` is missing"),
        ({"output_format": "odd"}, "`output_format` must be one of.*'odd'"),
        ({"parameter_sharing": "x"}, "`parameter_sharing` must be one of.*'x'"),
        ({"num_hidden_layers": 0}, "`num_hidden_layers` must be .* least 1"),
        ({"num_hidden_groups": -1}, "`num_hidden_groups` must be .* least 1"),
        ({"vocab_file": "v.model"}, r"must end in \.txt.*vocab_file='v.model'"),
    ],
)
def test_invalid_settings_are_named(fields, words):
    with pytest.raises(ValueError, match=words):
        ConversionConfig(**_VALID | fields)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, None),
        ({"spm_model_file": "m.model"}, "m.model"),
        ({"vocab_file": "v.txt"}, "v.txt"),
    ],
)
def test_the_vocabulary_is_whichever_is_given(fields, path):
    assert ConversionConfig(**_VALID | fields).vocabulary == path
