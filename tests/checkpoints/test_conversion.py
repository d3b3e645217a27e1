import dataclasses
import json
import os

import numpy as np
import pytest

from albert_tf.checkpoints import conversion, load, tf1, variable_names
from albert_tf.checkpoints.conversion_config import FORMATS, ConversionConfig
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.modeling.span_models import BeamSpanModel
from tests.checkpoints.weights import PARITY, check_same, starting, weights_of

_LABELLED = Metadata(
    task="custom",
    labels=("bad", "so-so", "good"),
    do_lower_case=False,
    null_threshold=1.5,
)


def _convert(input_path, output_path, output_format, **fields):
    return conversion.convert(
        ConversionConfig(
            input_path=str(input_path),
            output_path=str(output_path),
            output_format=output_format,
            **fields,
        )
    )


@pytest.fixture
def released(source, tmp_path):
    """A folder as Google's releases are."""
    folder = tmp_path / "released"
    folder.mkdir()
    tf1.write_released(str(folder), source)
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
    source = tf1.read_folder(PARITY / name)
    left_out, path = set(), PARITY / name

    for output_format in formats:
        target = tmp_path / output_format
        summary = _convert(path, target, output_format, verify=True)
        assert set(summary.differences.values()) == {0.0}
        left_out |= set(summary.left_out)
        path = target

    found = load.read(path)
    kept = {n: a for n, a in source.arrays.items() if n not in left_out}
    check_same(found.arrays, kept)
    assert found.config == source.config
    lost = {n for n in source.weights if n in left_out}
    assert all(n.startswith("cls/seq_relationship/") for n in lost)
    assert bool(lost) == ("keras_hub" in formats)


def test_slots_and_step_go_to_ours_and_back(tmp_path):
    source = tf1.read_folder(PARITY / "model_base")
    _convert(PARITY / "model_base", tmp_path / "ours", "keras")
    _convert(tmp_path / "ours", tmp_path / "tf1", "tf1")

    found = tf1.read_folder(tmp_path / "tf1")

    check_same(found.arrays, source.arrays)
    assert any(name.endswith("/adam_v") for name in found.arrays)
    assert found.arrays["global_step"] == 125000


@pytest.mark.parametrize("output_format", FORMATS)
def test_the_format_of_the_input_is_reported(released, tmp_path, output_format):
    first = _convert(released, tmp_path / "first", output_format)
    second = _convert(tmp_path / "first", tmp_path / "second", "keras")

    assert (first.input_format, second.input_format) == ("tf1", output_format)


def test_a_run_is_reported_as_our_format(source, tmp_path):
    best = tmp_path / "run" / "best"
    best.mkdir(parents=True)
    tf1.write_ours(str(best), source)

    summary = _convert(tmp_path / "run", tmp_path / "out", "tf1")

    assert summary.input_format == "keras"


def test_the_summary_counts_what_is_written(released, tmp_path, source):
    summary = _convert(released, tmp_path / "out", "huggingface")

    assert summary.num_weights == len(source.arrays)
    sizes = [array.size for array in source.arrays.values()]
    assert summary.num_parameters == sum(sizes)
    assert (summary.left_out, summary.differences) == ((), {})


def test_config_and_vocabulary_may_be_given(
    released, tmp_path, tiny_config, wordpiece
):
    config = dataclasses.replace(tiny_config, initializer_range=0.5)
    config.to_json_file(tmp_path / "other.json")
    (released / "albert_config.json").unlink()

    _convert(
        released,
        tmp_path / "out",
        "huggingface",
        albert_config_file=str(tmp_path / "other.json"),
        vocab_file=str(wordpiece),
        do_lower_case=False,
    )

    found = load.read(tmp_path / "out")
    assert found.config == config
    assert not found.do_lower_case
    assert (tmp_path / "out" / "vocab.txt").exists()


def test_a_config_is_needed_and_a_vocabulary_must_fit(
    released, tmp_path, tiny_spm_model
):
    vocabulary = {"spm_model_file": str(tiny_spm_model)}
    with pytest.raises(ValueError, match="has 300 tokens.*vocab_size=13"):
        _convert(released, tmp_path / "out", "huggingface", **vocabulary)
    (released / "albert_config.json").unlink()

    with pytest.raises(ValueError, match="Pass --albert_config_file"):
        _convert(released, tmp_path / "out", "huggingface")


@pytest.fixture
def labelled(source, tmp_path):
    """A classifier with three labels, as our runs save it."""
    heads = {
        "output_weights": np.ones((3, 8), "float32"),
        "output_bias": np.ones(3, "float32"),
    }
    source = dataclasses.replace(
        source, arrays=source.arrays | heads, metadata=_LABELLED
    )
    folder = tmp_path / "labelled"
    folder.mkdir()
    tf1.write_ours(str(folder), source)
    return folder


def test_metadata_are_kept_where_the_format_stores_them(
    labelled, tmp_path, wordpiece
):
    _convert(labelled, tmp_path / "ours", "keras")
    vocabulary = {"vocab_file": str(wordpiece)}
    _convert(labelled, tmp_path / "theirs", "huggingface", **vocabulary)
    _convert(labelled, tmp_path / "hub", "keras_hub")

    assert load.read(tmp_path / "ours").metadata == _LABELLED
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "so-so", "2": "good"}
    assert config["label2id"] == {"bad": 0, "so-so": 1, "good": 2}
    assert load.read(tmp_path / "theirs").metadata == Metadata(
        labels=_LABELLED.labels, do_lower_case=False
    )
    assert load.read(tmp_path / "hub").metadata == Metadata()


def test_labels_of_another_head_are_refused(labelled, tmp_path):
    (labelled / "metadata.json").write_text('{"labels": ["a", "b"]}')

    with pytest.raises(ValueError, match=r"name 2 labels \(a, b\).*3 outputs"):
        _convert(labelled, tmp_path / "out", "huggingface")


def test_heads_and_metadata_are_merged(labelled, tmp_path, source):
    bare = tmp_path / "bare"
    bare.mkdir()
    encoder = starting(source.arrays, "bert/")
    metadata = Metadata(do_lower_case=True)
    tf1.write_ours(
        str(bare),
        dataclasses.replace(source, arrays=encoder, metadata=metadata),
    )

    _convert(bare, tmp_path / "out", "keras", merge_from=str(labelled))

    found = load.read(tmp_path / "out")
    check_same(found.arrays, load.read(labelled).arrays)
    assert found.metadata == dataclasses.replace(_LABELLED, do_lower_case=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_hidden_layers": 4},
        {"num_hidden_groups": 2},
        {"parameter_sharing": "none"},
        {"num_hidden_layers": 4, "parameter_sharing": "attention"},
    ],
)
def test_a_warm_start_verifies(released, tmp_path, fields):
    summary = _convert(
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
        _convert(released, tmp_path / "out", "keras", verify=True)

    assert os.listdir(tmp_path) == ["released"]


def test_an_empty_output_folder_is_taken_and_no_other(released, tmp_path):
    empty, full, file = (tmp_path / name for name in ("a", "b", "c"))
    for folder in (empty, full):
        folder.mkdir()
    for path in (full / "x", file):
        path.write_text("mine")

    _convert(released, empty, "keras")
    for path in (full, file):
        with pytest.raises(ValueError, match="exists and is not an empty"):
            _convert(released, path, "keras")

    assert (empty / "model.ckpt.index").exists()
    assert [path.name for path in full.iterdir()] == ["x"]


def _truncate(folder):
    path = folder / "model.safetensors"
    os.truncate(path, os.path.getsize(path) // 2)


def _remove_data(folder):
    (folder / "model.ckpt.data-00000-of-00001").unlink()


@pytest.mark.parametrize(
    ("input_format", "damage", "words"),
    [
        ("huggingface", _truncate, "is damaged or incomplete"),
        ("keras", _remove_data, "is damaged or incomplete"),
    ],
)
def test_a_damaged_input_is_one_line_and_nothing_is_written(
    released, tmp_path, input_format, damage, words
):
    _convert(released, tmp_path / "input", input_format)
    damage(tmp_path / "input")

    with pytest.raises(ValueError, match=words) as caught:
        _convert(tmp_path / "input", tmp_path / "out", "tf1")

    assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["input", "released"]


def _with(source, **arrays):
    return dataclasses.replace(source, arrays=dict(source.arrays) | arrays)


def test_a_difference_is_seen_in_the_output_that_it_touches(source):
    name = "cls/seq_relationship/output_bias"
    changed = _with(source, **{name: source.arrays[name] + 0.5})

    found = conversion.output_differences(source, changed)

    np.testing.assert_allclose(found.pop("sentence_order_logits"), 0.5)
    equal = ["sequence_output", "pooled_output", "masked_lm_logits"]
    assert found == dict.fromkeys(equal, 0.0)


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
    np.testing.assert_allclose(outputs["task_logits"], expected, rtol=1e-6)
    assert outputs["span_logits"].shape == (2, 7, 2)


def test_a_model_without_a_pooler_has_what_does_not_need_it(source):
    kept = {n: a for n, a in source.arrays.items() if "pooler" not in n}

    outputs = conversion.outputs(dataclasses.replace(source, arrays=kept))

    assert set(outputs) == {"sequence_output", "masked_lm_logits"}
