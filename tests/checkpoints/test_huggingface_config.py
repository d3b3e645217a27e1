"""What the config of a Hugging Face folder means for us, and what ours says."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.checkpoints import huggingface
from albert_tf.checkpoints.metadata import Metadata


def _edit_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def folder(source, tmp_path):
    """A folder of the tiny model."""
    huggingface.write(str(tmp_path), source)
    return tmp_path


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hidden_act": "gelu"}, "hidden_act='gelu'.*gelu_new.*by erf"),
        ({"hidden_act": "silu"}, "hidden_act='silu', but only"),
        ({"model_type": "bert"}, "model_type='bert', but only 'albert'"),
        ({"layer_norm_eps": 1e-5}, "config.json.*layer_norm_eps"),
        ({"hidden_size": 9}, "config.json.*multiple"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type='relative_key', which is not",
        ),
        ({"is_decoder": True}, "is_decoder=True, which is not supported"),
        ({"num_hidden_groups": 2}, "group_1.*is missing"),
        ({"vocab_size": 14}, r"word_embeddings has shape \[13, 4\].*\[14, 4\]"),
        (
            {"architectures": ["AlbertForTokenClassification"]},
            "labels every token",
        ),
        (
            {"num_hidden_layers": 18, "num_hidden_groups": 14},
            "transformers assigns layer .* wrong group",
        ),
    ],
)
def test_an_unsupported_config_is_one_line(folder, values, words):
    _edit_config(folder, **values)

    with pytest.raises(ValueError, match=words) as caught:
        huggingface.read(folder)

    assert "\n" not in str(caught.value)


def test_a_given_config_says_that_gelu_is_the_tanh_form(source, folder, caplog):
    _edit_config(folder, hidden_act="gelu")
    relu = dataclasses.replace(source.config, hidden_act="relu")

    found = huggingface.read(folder, albert_config=source.config)

    assert found.config == source.config
    assert "hidden_act='gelu' is taken as gelu_new" in caplog.text
    with pytest.raises(ValueError, match="pass.*--albert_config_file"):
        huggingface.read(folder, albert_config=relu)


def test_settings_that_only_transformers_has_are_noted(folder):
    _edit_config(folder, classifier_dropout_prob=0.3)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"keep_accents": True, "remove_space": True})
    )

    notes = huggingface.read(folder).notes

    assert [*map(str, notes)] == [
        "left out  keep_accents=true (ALBERT's text normalization is built in)",
        "left out  classifier_dropout_prob=0.3 (it matters in training only: "
        "pass --dropout_prob there)",
    ]


_HEAD = {
    "output_weights": np.ones((1, 8), "float32"),
    "output_bias": np.ones(1, "float32"),
}


@pytest.mark.parametrize(
    ("known", "classes", "problem_type"),
    [
        # Unknown: the weights have the same shapes.
        ({}, ["SequenceClassification", "MultipleChoice"], None),
        ({"labels": ()}, ["SequenceClassification"], "regression"),
        ({"task": "race"}, ["MultipleChoice"], None),
        (
            {"labels": ("spam",), "multi_label": True},
            ["SequenceClassification"],
            "multi_label_classification",
        ),
    ],
)
def test_what_a_single_output_means_is_in_the_config(
    source, tmp_path, known, classes, problem_type
):
    source = dataclasses.replace(
        source, arrays=source.arrays | _HEAD, metadata=Metadata(**known)
    )
    huggingface.write(str(tmp_path), source)

    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == [f"AlbertFor{name}" for name in classes]
    assert config.get("problem_type") == problem_type
    assert huggingface.read(tmp_path).metadata == source.metadata
