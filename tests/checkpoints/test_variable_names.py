import pytest

from albert_tf.checkpoints import variable_names

_FFN = "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense"
_THEIR_FFN = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn"
_POOLER = "bert/pooler/dense"


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        (f"{_FFN}/kernel", "huggingface", (f"{_THEIR_FFN}.weight", True)),
        ("output_weights", "huggingface", ("classifier.weight", False)),
        ("output_weights", "keras_hub", ("logits/kernel", True)),
        (f"{_POOLER}/kernel", "keras_hub", ("pooled_dense/kernel", False)),
        ("cls/seq_relationship/output_bias", "keras_hub", None),
        (f"{_POOLER}/kernel/adam_m", "huggingface", None),
        ("start_logits/dense/kernel", "huggingface", None),
    ],
)
def test_names_are_translated_there_and_back(name, target, expected):
    found = variable_names.translate(name, source="tf1", target=target)

    assert found == expected
    if found:
        back = variable_names.translate(found[0], source=target, target="tf1")
        assert back == (name, found[1])
