"""KerasHub's presets: ours read back, and both ways with KerasHub itself."""

import dataclasses
import json
import pathlib

import keras_hub as theirs
import numpy as np
import pytest

from albert_tf.checkpoints import conversion, discovery, keras_hub
from tests.checkpoints.weights import PARITY, check_close, check_same, starting

_CLASSIFIER = {
    "output_weights": np.arange(24, dtype="float32").reshape(3, 8),
    "output_bias": np.arange(3, dtype="float32"),
}


@pytest.mark.parametrize(
    ("settings", "multi_label"), [({}, None), ({"activation": "sigmoid"}, True)]
)
def test_what_a_preset_says_of_its_classifier_is_read(
    source, tmp_path, settings, multi_label
):
    arrays = starting(source.arrays, "bert/") | _CLASSIFIER
    keras_hub.write(str(tmp_path), dataclasses.replace(source, arrays=arrays))
    path = tmp_path / "task.json"
    values = json.loads(path.read_text())
    values["config"] |= settings
    path.write_text(json.dumps(values))

    found = discovery.open(tmp_path)

    check_same(found.arrays, arrays)
    assert found.metadata.multi_label is multi_label


def test_a_preset_of_keras_nlp_is_read(source, tmp_path):
    keras_hub.write(str(tmp_path), source)
    for name in ("config.json", "task.json"):
        path = tmp_path / name
        text = path.read_text()
        assert "keras_hub>Albert" in text
        path.write_text(text.replace("keras_hub>", "keras_nlp>"))

    found = discovery.open(tmp_path)

    kept = starting(source.arrays, "bert/", "cls/predictions/")
    check_same(found.arrays, kept)


def test_equal_widths_travel_with_an_identity(tmp_path):
    source = discovery.open(PARITY / "model_groups")
    config = dataclasses.replace(source.config, hidden_act="gelu")
    arrays = starting(source.arrays, "bert/", "cls/predictions/")
    source = dataclasses.replace(source, arrays=arrays, config=config)
    keras_hub.write(str(tmp_path), source)

    found = discovery.open(tmp_path)

    check_same(found.arrays, arrays)
    assert found.config == config


def test_keras_hub_gives_the_recorded_outputs(tmp_path):
    source = discovery.open(PARITY / "model_base")
    keras_hub.write(str(tmp_path), source)
    with np.load(PARITY / "model_base" / "golden.npz") as file:
        golden = dict(file)

    backbone = theirs.models.AlbertBackbone.from_preset(str(tmp_path))
    found = backbone(
        {
            "token_ids": golden["input_ids"],
            "padding_mask": golden["input_mask"],
            "segment_ids": golden["segment_ids"],
        }
    )

    for name in ("sequence_output", "pooled_output"):
        check_close(found[name], golden[name], name)


# KerasHub leaves the vocabulary's file open.
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("has_tokenizer", [False, True])
def test_the_task_and_its_tokenizer_load(
    source, tmp_path, tiny_spm_model, has_tokenizer
):
    if has_tokenizer:
        source = dataclasses.replace(source, vocabulary=str(tiny_spm_model))
    keras_hub.write(str(tmp_path), source)

    model = theirs.models.AlbertMaskedLM.from_preset(
        str(tmp_path), **({} if has_tokenizer else {"preprocessor": None})
    )

    found = discovery.open(tmp_path)
    assert (found.vocabulary is not None) == has_tokenizer
    if has_tokenizer:
        assert model.preprocessor.tokenizer.vocabulary_size() == 300
        written = pathlib.Path(found.vocabulary).read_bytes()
        assert written == tiny_spm_model.read_bytes()


def test_a_preset_that_keras_hub_saved_answers_the_same(tmp_path):
    backbone = theirs.models.AlbertBackbone(
        vocabulary_size=13,
        num_layers=4,
        num_heads=2,
        num_groups=2,
        num_inner_repetitions=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=6,
        max_sequence_length=9,
    )
    rng = np.random.default_rng(0)
    for variable in backbone.weights:
        variable.assign(rng.standard_normal(variable.shape) * 0.5)
    backbone.save_to_preset(str(tmp_path))
    batch = {
        "input_ids": rng.integers(0, 13, (2, 9)),
        "input_mask": np.array([[1] * 9, [1] * 5 + [0] * 4]),
        "segment_ids": rng.integers(0, 2, (2, 9)),
    }
    expected = backbone(
        {
            "token_ids": batch["input_ids"],
            "padding_mask": batch["input_mask"],
            "segment_ids": batch["segment_ids"],
        }
    )

    found = conversion.outputs(discovery.open(tmp_path), batch)

    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(
            found[name], np.asarray(expected[name]), atol=1e-5
        )
