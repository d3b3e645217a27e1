import collections

import pytest

from albert_tf.checkpoints import tf1, variable_names
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests.checkpoints.weights import PARITY

_GROUP_0 = "bert/encoder/transformer/group_0/inner_group_0"


def _names(model):
    return set(variable_names.variables_by_tf1_name(model.weights))


@pytest.mark.parametrize("column", ["ours", "tf1", "huggingface", "keras_hub"])
def test_no_two_rows_share_a_name_in_any_column(column):
    names = [getattr(row, column) for row in variable_names.TABLE]
    counts = collections.Counter(filter(None, names))

    assert set(counts.values()) == {1}


def test_every_variable_of_the_encoder_is_in_every_format():
    for row in variable_names.TABLE:
        if row.tf1.startswith("bert/"):
            assert row.ours and row.huggingface and row.keras_hub


def test_a_model_has_the_names_of_the_original(tiny_config):
    original = tf1.read_weights(PARITY / "model_base")

    assert _names(PretrainingModel(tiny_config)) == set(original)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (
            "albert/encoder/attention_2_1/key/bias",
            "bert/encoder/transformer/group_2/inner_group_1/"
            "attention_1/self/key/bias",
        ),
        # Of a model within another.
        ("classifier/albert/pooler/kernel", "bert/pooler/dense/kernel"),
    ],
)
def test_a_path_has_a_tf1_name(path, name):
    assert variable_names.tf1_name(path) == name


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("bert/pooler/dense/kernel", ""),
        ("cls/seq_relationship/output_bias", "cls/seq_relationship"),
        ("cls/squad/output_bias", "cls/squad"),
        ("output_weights", "task"),
        ("end_logits/dense_0/kernel", "beam"),
    ],
)
def test_heads_are_distinguished_from_the_encoder(name, head):
    assert variable_names.head_of(name) == head


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        (
            f"{_GROUP_0}/ffn_1/intermediate/dense/kernel",
            "huggingface",
            (
                "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight",
                True,
            ),
        ),
        (
            "bert/embeddings/LayerNorm/gamma",
            "huggingface",
            ("albert.embeddings.LayerNorm.weight", False),
        ),
        ("output_weights", "huggingface", ("classifier.weight", False)),
        ("output_weights", "keras_hub", ("logits/kernel", True)),
        (
            "bert/pooler/dense/kernel",
            "keras_hub",
            ("pooled_dense/kernel", False),
        ),
        ("cls/seq_relationship/output_bias", "keras_hub", None),
        ("bert/pooler/dense/kernel/adam_m", "huggingface", None),
        ("start_logits/dense/kernel", "huggingface", None),
    ],
)
def test_names_are_translated_there_and_back(name, target, expected):
    found = variable_names.translate(name, source="tf1", target=target)

    assert found == expected
    if found:
        back = variable_names.translate(found[0], source=target, target="tf1")
        assert back == (name, found[1])


def test_shapes_follow_the_config(tiny_config, arrays):
    for name, array in arrays.items():
        assert variable_names.shape_of(name, tiny_config) == array.shape

    assert variable_names.shape_of("output_weights", tiny_config) == (None, 8)
    assert variable_names.shape_of("x", tiny_config) == ()
