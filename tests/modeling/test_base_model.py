import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.modeling.span_models import BeamSpanModel
from tests import tiny

_IDS = tiny.batch()["input_ids"]
_SHORT = {"input_ids": _IDS}


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        (AlbertModel, [[1, 2]], "called on a dict with input_ids"),
        (AlbertModel, _IDS, "called on a dict.*`tokenizer.batch`"),
        (AlbertModel, tf.constant(_IDS), "called on a dict"),
        (AlbertModel, {}, "Missing: input_ids"),
        (AlbertModel, {"input_ids": _IDS[0]}, r"rank 2.*shape \(5,\)"),
        (
            AlbertModel,
            {"input_ids": np.zeros((1, 8), int)},
            "at most 7 tokens.*Received: 8",
        ),
        (
            AlbertModel,
            _SHORT | {"segment_ids": _IDS[None]},
            r"`segment_ids` must be.*rank 2.*\(1, 2, 5\)",
        ),
        (
            AlbertModel,
            _SHORT | {"input_mask": _IDS[:1]},
            r"`input_mask` must be .* the shape of `input_ids`.*\(1, 5\)",
        ),
        (
            AlbertModel,
            _SHORT | {"input_mask": _IDS, "attention_mask": _IDS},
            "Unknown inputs: attention_mask",
        ),
        (
            AlbertModel,
            _SHORT | {"mask": _IDS},
            "Unknown inputs: mask. The inputs of the model are input_ids, in",
        ),
        (PretrainingModel, _SHORT, "Missing: masked_lm_positions"),
        (MultipleChoiceModel, _SHORT, r"rank 3.*shape \(2, 5\)"),
        (BeamSpanModel, _SHORT, "Missing: p_mask"),
    ],
)
def test_wrong_inputs_are_errors_that_say_what_to_do(kind, inputs, message):
    with pytest.raises(ValueError, match=message):
        kind(tiny.config())(inputs)


def test_ids_that_are_floats_are_not_rounded():
    ids = tf.zeros((1, 3), "bfloat16")
    with pytest.raises(ValueError, match="dtype int32.*bfloat16"):
        AlbertModel(tiny.config())({"input_ids": ids})
    config = tiny.config(vocab_size=1001)
    model = AlbertModel(config, dtype="bfloat16")
    ids = np.array([[1000, 999, 3]])

    one, other = model({"input_ids": ids}), model({"input_ids": ids * 1.0})

    np.testing.assert_array_equal(one["pooled_output"], other["pooled_output"])


def test_models_are_built_around_one_again_and_again():
    backbone = AlbertModel(tiny.config())
    for _ in range(2):
        pooled = backbone(backbone.input)["pooled_output"]
        keras.Model(backbone.input, keras.layers.Dense(2)(pooled))
    sequence = backbone.output["sequence_output"]
    around = keras.Model(backbone.input, sequence)

    batch = {name: tiny.batch()[name] for name in backbone.input_specs()}
    np.testing.assert_array_equal(
        around(batch), backbone(batch)["sequence_output"]
    )


@keras.saving.register_keras_serializable()
class Around(keras.Model):
    """A user's own model around an encoder, as Keras' guide writes it."""

    def __init__(self, encoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.head = keras.layers.Dense(3)

    def call(self, inputs):
        return self.head(self.encoder(inputs)["pooled_output"])

    def get_config(self):
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {"encoder": encoder}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["encoder"]))


def test_a_model_of_ones_own_is_read_back_with_its_head(tmp_path):
    batch = {"input_ids": tiny.batch()["input_ids"]}
    model = Around(AlbertModel(tiny.config()))
    expected = model(batch)
    model.save(tmp_path / "around.keras")

    read = keras.saving.load_model(tmp_path / "around.keras")

    np.testing.assert_array_equal(read(batch), expected)


def test_names_of_transformers_are_understood():
    model = AlbertModel(tiny.config())
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])

    wanted = model(_SHORT | {"input_mask": mask, "segment_ids": mask})
    found = model(_SHORT | {"attention_mask": mask, "token_type_ids": mask})

    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)
    assert np.any(model(_SHORT)["pooled_output"] != wanted["pooled_output"])


def test_unknown_objectives_are_refused():
    with pytest.raises(ValueError, match="one of mlm, sop.*'nsp'"):
        PretrainingModel(tiny.config(), objectives=("mlm", "nsp"))
