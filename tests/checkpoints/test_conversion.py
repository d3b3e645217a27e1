import dataclasses
import itertools
import json
import os

import numpy as np
import pytest

from albert_tf import registry
from albert_tf.checkpoints import (
    conversion,
    discovery,
    load,
    tf1,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.checkpoints.released import write as write_released
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.span_models import BeamSpanModel
from tests.checkpoints.weights import PARITY, check_same, convert, weights_of

_LABELLED = Metadata(
    task="custom",
    head="classifier",
    labels=("bad", "so-so", "good"),
    do_lower_case=False,
    null_threshold=1.5,
    settings={"max_seq_length": 6, "text_columns": ["text"]},
    evaluation={"scores": {"accuracy": 0.5}, "step": 3},
)


@pytest.fixture
def released(source, tmp_path):
    """A folder as Google's releases are."""
    folder = tmp_path / "released"
    folder.mkdir()
    write_released(str(folder), source)
    return folder


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("model_base", ("keras", "huggingface", "keras_hub", "tf1")),
        # KerasHub has no relu.
        ("model_groups", ("keras", "huggingface", "tf1")),
    ],
)
def test_a_round_trip_keeps_every_bit(tmp_path, name, formats):
    source = discovery.open(PARITY / name)
    left_out, path = set(), PARITY / name

    for output_format in formats:
        target = tmp_path / output_format
        summary = convert(path, target, output_format, verify=True)
        assert set(summary.differences.values()) == {0.0}
        left_out |= set(summary.left_out)
        path = target

    found = discovery.open(path)
    kept = {n: a for n, a in source.arrays.items() if n not in left_out}
    check_same(found.arrays, kept)
    assert found.config == source.config
    lost = {n for n in source.weights if n in left_out}
    assert all(n.startswith("cls/seq_relationship/") for n in lost)
    assert bool(lost) == ("keras_hub" in formats)


def test_slots_and_step_go_to_ours_and_back(tmp_path):
    source = discovery.open(PARITY / "model_base")
    convert(PARITY / "model_base", tmp_path / "ours", "keras")
    convert(tmp_path / "ours", tmp_path / "tf1", "tf1")

    found = discovery.open(tmp_path / "tf1")

    check_same(found.arrays, source.arrays)
    assert any(name.endswith("/adam_v") for name in found.arrays)
    assert found.arrays["global_step"] == 125000


@pytest.fixture
def vocabulary(tmp_path):
    """A WordPiece vocabulary of 13 tokens, as many as the tiny model has."""
    path = tmp_path / "own_vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text("\n".join([*special, *"abcdefgh"]))
    return path


def test_config_and_vocabulary_may_be_given(
    released, tmp_path, tiny_config, vocabulary
):
    config = dataclasses.replace(tiny_config, initializer_range=0.5)
    config.to_json_file(tmp_path / "other.json")
    (released / "albert_config.json").unlink()

    convert(
        released,
        tmp_path / "out",
        "huggingface",
        albert_config_file=str(tmp_path / "other.json"),
        vocab_file=str(vocabulary),
        do_lower_case=False,
        null_from_cls=True,
    )

    found = discovery.open(tmp_path / "out")
    assert found.config == config
    assert found.metadata.do_lower_case is False
    assert found.metadata.null_from_cls
    assert (tmp_path / "out" / "vocab.txt").exists()


@pytest.fixture
def write_classifier(source, tmp_path):
    """Writes a classifier of ones as our runs save it; returns its folder."""

    def write(num_outputs, metadata):
        head = {
            "output_weights": np.ones((num_outputs, 8), "float32"),
            "output_bias": np.ones(num_outputs, "float32"),
        }
        folder = tmp_path / "classifier"
        folder.mkdir()
        classifier = dataclasses.replace(
            source, arrays=source.arrays | head, metadata=metadata
        )
        tf1.write_ours(str(folder), classifier)
        return folder

    return write


def test_metadata_go_with_every_format(write_classifier, tmp_path, vocabulary):
    classifier = write_classifier(3, _LABELLED)
    lacking = {"left out": {}, "unread": {}}
    for output_format in registry.CHECKPOINT_WRITERS:
        summary = convert(
            classifier,
            tmp_path / output_format,
            output_format,
            vocab_file=str(vocabulary),
        )
        found = discovery.open(tmp_path / output_format)
        assert found.metadata == _LABELLED
        for note in summary.notes:
            names = lacking[note.kind].setdefault(output_format, [])
            names.append(note.text.partition("=")[0])

    folder = tmp_path / "huggingface"
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 6
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "so-so", "2": "good"}
    assert lacking["left out"] == {"keras_hub": ["vocabulary"]}
    # What is written, but for us alone.
    assert lacking["unread"] == {
        "tf1": ["do_lower_case", "labels", "null_threshold"],
        "huggingface": ["null_threshold"],
        "keras_hub": ["labels", "null_threshold"],
    }


def test_numbers_are_in_the_units_of_labels_where_others_read_them(
    write_classifier, tmp_path
):
    scale = Metadata(labels=(), target_mean=10.0, target_scale=0.5)
    folder = write_classifier(1, scale)

    for output_format in registry.CHECKPOINT_WRITERS:
        convert(folder, tmp_path / output_format, output_format)

        found = discovery.open(tmp_path / output_format)
        mean = found.metadata.target_mean or 0.0
        scale = found.metadata.target_scale or 1.0
        bias = found.arrays["output_bias"] * scale + mean
        np.testing.assert_allclose(bias, [10.5], rtol=1e-6)
        weights = found.arrays["output_weights"] * scale
        np.testing.assert_allclose(weights, 0.5)


@pytest.mark.parametrize(
    ("layers", "temperature"), [(None, 4.0), (1, None), (3, None)]
)
def test_a_temperature_goes_with_the_layers_that_it_was_measured_on(
    write_classifier, tmp_path, layers, temperature
):
    measured = Metadata(labels=("a", "b"), temperature=4.0)
    classifier = write_classifier(2, measured)

    for output_format in registry.CHECKPOINT_WRITERS:
        folder = tmp_path / output_format
        convert(classifier, folder, output_format, num_hidden_layers=layers)

        found = discovery.open(folder)
        scaled = found.arrays["output_weights"] / (
            found.metadata.temperature or 1.0
        )
        np.testing.assert_allclose(scaled, 1 / (temperature or 1.0))
        assert (found.metadata.temperature is None) == (temperature is None)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_hidden_layers": 4, "parameter_sharing": "attention"},
        {"attention_window": 4, "max_position_embeddings": 20},
    ],
)
def test_a_warm_start_verifies(released, tmp_path, fields):
    summary = convert(
        released, tmp_path / "out", "keras", verify=True, **fields
    )

    assert max(summary.differences.values()) <= 1e-5
    config = AlbertConfig.from_json_file(
        tmp_path / "out" / "albert_config.json"
    )
    assert {key: getattr(config, key) for key in fields} == fields


def test_a_difference_fails_and_leaves_nothing(released, tmp_path, monkeypatch):
    monkeypatch.setattr(
        conversion,
        "output_differences",
        lambda *_: {"x": 1.0, "y": float("nan"), "z": 0.0},
    )

    with pytest.raises(ValueError, match=r"differ.*x by 1, y by nan \("):
        convert(released, tmp_path / "out", "keras", verify=True)

    assert os.listdir(tmp_path) == ["released"]


def _with(source, **arrays):
    return dataclasses.replace(source, arrays=dict(source.arrays) | arrays)


def test_task_heads_are_outputs_too(source):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3, 8), "float32")
    heads = {
        "output_weights": weights,
        "output_bias": np.arange(3, dtype="float32"),
        "cls/squad/output_weights": weights[:2],
        "cls/squad/output_bias": np.zeros(2, "float32"),
    }
    spans = weights_of(BeamSpanModel(source.config))
    heads |= {n: a for n, a in spans.items() if variable_names.head_of(n)}

    outputs = conversion.outputs(_with(source, **heads))

    for name in ("start_log_probs", "end_log_probs"):
        np.testing.assert_allclose(
            np.exp(outputs[name]).sum(axis=1), 1, rtol=1e-5
        )
    assert outputs["cls_logits"].shape == (2,)
    expected = outputs["pooled_output"] @ weights.T + np.arange(3)
    np.testing.assert_allclose(outputs["logits"], expected, rtol=1e-6)
    assert outputs["start_logits"].shape == (2, 7)


# Warm starts.

_FRONT = "bert/encoder/transformer/group_{}/inner_group_0/"
_QUERY = _FRONT + "attention_1/self/query/kernel"
_FFN = _FRONT + "ffn_1/intermediate/dense/kernel"


@pytest.fixture
def make(tiny_config):
    def make_checkpoint(**fields):
        config = dataclasses.replace(tiny_config, **fields)
        arrays = weights_of(AlbertModel(config, seed=1))
        return Checkpoint(arrays=arrays, config=config)

    return make_checkpoint


def _assert_same_outputs(first, second):
    differences = conversion.output_differences(first, second)
    assert set(differences.values()) == {0.0}


@pytest.mark.parametrize(
    ("before", "after"),
    [("all", "none"), ("all", "attention"), ("ffn", "none"), ("none", "none")],
)
def test_less_sharing_gives_the_same_outputs(make, before, after):
    source = make(
        num_hidden_layers=4,
        num_hidden_groups=2,
        inner_group_num=2,
        parameter_sharing=before,
    )

    unshared = conversion.warm_start(source, parameter_sharing=after)

    load.check_shapes(unshared)
    assert unshared.config.parameter_sharing == after
    _assert_same_outputs(source, unshared)


def test_new_positions_are_copies(make):
    source = make(max_position_embeddings=5)

    longer = conversion.warm_start(source, max_position_embeddings=12)

    name = "bert/embeddings/position_embeddings"
    rows = [*range(5), *range(5), 0, 1]
    np.testing.assert_array_equal(
        longer.arrays[name], source.arrays[name][rows]
    )
    _assert_same_outputs(source, longer)


def test_every_group_is_a_copy_of_the_first(make):
    source = make(num_hidden_groups=2)

    grouped = conversion.warm_start(
        source, num_hidden_layers=6, num_hidden_groups=3
    )

    load.check_shapes(grouped)
    for group, name in itertools.product(range(3), (_QUERY, _FFN)):
        np.testing.assert_array_equal(
            grouped.arrays[name.format(group)], source.arrays[name.format(0)]
        )
    source = make()
    grouped = conversion.warm_start(source, num_hidden_groups=2)
    _assert_same_outputs(source, grouped)


@pytest.mark.parametrize("sharing", ["all", "attention"])
def test_a_deeper_model_spreads_what_is_not_shared(make, sharing):
    source = make(num_hidden_layers=2, parameter_sharing=sharing)

    deeper = conversion.warm_start(source, num_hidden_layers=4)

    load.check_shapes(deeper)
    assert deeper.config.num_hidden_layers == 4
    assert _QUERY.format(1) not in deeper.arrays
    origins = [0] if sharing == "all" else [0, 0, 1, 1]
    for layer, origin in enumerate(origins):
        np.testing.assert_array_equal(
            deeper.arrays[_FFN.format(layer)],
            source.arrays[_FFN.format(origin)],
        )


def test_slots_and_step_stay_behind(make):
    source = make()
    slot = f"{_QUERY.format(0)}/adam_m"
    source = _with(source, **{"global_step": np.int64(3), slot: np.zeros(1)})

    started = conversion.warm_start(source, num_hidden_layers=3)

    assert started.arrays == started.weights
