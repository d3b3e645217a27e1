import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest

from albert_tf.checkpoints import conversion, load, tf1, variable_names
from albert_tf.checkpoints.conversion_config import ConversionJob
from albert_tf.config import AlbertConfig
from albert_tf.modeling.span_models import BeamSpanModel

_PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"


def _convert(input_path, output_path, output_format, **fields):
    return conversion.run(
        ConversionJob(
            input_path=str(input_path),
            output_path=str(output_path),
            output_format=output_format,
            **fields,
        )
    )


def _assert_same(arrays, expected):
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


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
    source = tf1.read_folder(_PARITY / name)
    left_out, path = set(), _PARITY / name

    for output_format in formats:
        target = tmp_path / output_format
        summary = _convert(path, target, output_format, verify=True)
        assert set(summary.differences.values()) == {0.0}
        left_out |= set(summary.left_out)
        path = target

    found = load.read(path)
    kept = {n: a for n, a in source.arrays.items() if n not in left_out}
    _assert_same(found.arrays, kept)
    assert found.config == source.config
    lost = {n for n in source.weights if n in left_out}
    assert all(n.startswith("cls/seq_relationship/") for n in lost)
    assert bool(lost) == ("keras_hub" in formats)


def test_slots_and_step_go_to_ours_and_back(tmp_path):
    source = tf1.read_folder(_PARITY / "model_base")
    _convert(_PARITY / "model_base", tmp_path / "ours", "keras")
    _convert(tmp_path / "ours", tmp_path / "tf1", "tf1")

    found = tf1.read_folder(tmp_path / "tf1")

    _assert_same(found.arrays, source.arrays)
    assert any(name.endswith("/adam_v") for name in found.arrays)
    assert found.arrays["global_step"] == 125000


def test_relu_is_refused_by_keras_hub_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="hidden_act='relu'"):
        _convert(_PARITY / "model_groups", tmp_path / "out", "keras_hub")

    assert list(tmp_path.iterdir()) == []


def test_the_summary_counts_what_is_written(released, tmp_path, source):
    summary = _convert(released, tmp_path / "out", "huggingface")

    assert summary.input_format == "tf1"
    assert summary.num_weights == len(source.arrays)
    sizes = [array.size for array in source.arrays.values()]
    assert summary.num_parameters == sum(sizes)
    assert (summary.left_out, summary.differences) == ((), {})


def test_config_and_vocabulary_may_be_given(
    released, tmp_path, tiny_config, tiny_spm_model
):
    config = dataclasses.replace(tiny_config, initializer_range=0.5)
    (released / "albert_config.json").unlink()
    with pytest.raises(ValueError, match="Pass --albert_config_file"):
        _convert(released, tmp_path / "out", "huggingface")
    with pytest.raises(ValueError, match="has 300 tokens.*vocab_size=13"):
        _convert(
            released,
            tmp_path / "out",
            "huggingface",
            config=config,
            vocabulary=str(tiny_spm_model),
        )
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")

    _convert(
        released,
        tmp_path / "out",
        "huggingface",
        config=config,
        vocabulary=str(vocabulary),
        do_lower_case=False,
    )

    found = load.read(tmp_path / "out")
    assert found.config == config
    assert not found.do_lower_case
    assert (tmp_path / "out" / "vocab.txt").exists()


def test_heads_are_merged(released, tmp_path, source):
    encoder = {n: a for n, a in source.arrays.items() if n.startswith("bert/")}
    bare = tmp_path / "bare"
    bare.mkdir()
    tf1.write_ours(str(bare), dataclasses.replace(source, arrays=encoder))

    _convert(bare, tmp_path / "out", "tf1", merge_from=str(released))

    _assert_same(load.read(tmp_path / "out").arrays, source.arrays)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"num_hidden_layers": 4}, {"num_hidden_layers": 4}),
        ({"num_hidden_groups": 2}, {"num_hidden_groups": 2}),
        ({"parameter_sharing": "none"}, {"parameter_sharing": "none"}),
        (
            {"num_hidden_layers": 4, "parameter_sharing": "attention"},
            {"num_hidden_layers": 4, "parameter_sharing": "attention"},
        ),
    ],
)
def test_a_warm_start_verifies(released, tmp_path, fields, expected):
    summary = _convert(
        released, tmp_path / "out", "keras", verify=True, **fields
    )

    assert max(summary.differences.values()) <= 1e-5
    found = AlbertConfig.from_json_file(
        tmp_path / "out" / "albert_config.json"
    ).to_dict()
    assert {key: found[key] for key in expected} == expected


def test_a_difference_fails_and_leaves_nothing(released, tmp_path, monkeypatch):
    monkeypatch.setattr(
        conversion, "differences", lambda *_: {"x": 1.0, "y": float("nan")}
    )

    with pytest.raises(ValueError, match="otherwise.*x by 1, y by nan"):
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


def _truncated(folder):
    path = folder / "model.safetensors"
    os.truncate(path, os.path.getsize(path) // 2)


def _pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _with_another_config(folder):
    path = folder / "config.json"
    values = json.loads(path.read_text()) | {"intermediate_size": 7}
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_truncated, "is damaged or incomplete"),
        (_pickled, "is a pickle .pytorch_model.bin"),
        (_with_another_config, "ffn_1.*the config wants"),
    ],
)
def test_a_damaged_input_is_one_line_and_nothing_is_written(
    released, tmp_path, damage, words
):
    theirs = tmp_path / "theirs"
    _convert(released, theirs, "huggingface")
    damage(theirs)

    with pytest.raises(ValueError, match=words) as caught:
        _convert(theirs, tmp_path / "out", "tf1")

    assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["released", "theirs"]


def test_an_index_without_data_is_one_line_and_nothing_is_written(
    released, tmp_path
):
    (released / "model.ckpt-best.data-00000-of-00001").unlink()

    with pytest.raises(ValueError, match="is damaged or incomplete") as caught:
        _convert(released, tmp_path / "out", "huggingface")

    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["released"]


def _with(source, **arrays):
    return dataclasses.replace(source, arrays=dict(source.arrays) | arrays)


def test_equal_weights_differ_by_nothing(source):
    found = conversion.output_differences(source, source)

    assert found == dict.fromkeys(
        [
            "sequence_output",
            "pooled_output",
            "masked_lm_logits",
            "sentence_order_logits",
        ],
        0.0,
    )


def test_a_difference_is_seen_in_the_output_that_it_touches(source):
    name = "cls/seq_relationship/output_bias"
    changed = _with(source, **{name: source.arrays[name] + 0.5})

    found = conversion.output_differences(source, changed)

    np.testing.assert_allclose(found.pop("sentence_order_logits"), 0.5)
    assert set(found.values()) == {0.0}


def test_task_heads_are_outputs_too(source):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3, 8), "float32")
    heads = {
        "output_weights": weights,
        "output_bias": np.arange(3, dtype="float32"),
        "cls/squad/output_weights": weights[:2],
        "cls/squad/output_bias": np.zeros(2, "float32"),
    }

    spans = BeamSpanModel(source.config)
    named = variable_names.variables_by_tf1_name(spans.weights)
    heads |= {
        name: np.asarray(variable)
        for name, variable in named.items()
        if variable_names.is_head(name)
    }

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
