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

    _convert(
        released,
        tmp_path / "out",
        "huggingface",
        albert_config_file=str(tmp_path / "other.json"),
        vocab_file=str(vocabulary),
        do_lower_case=False,
    )

    found = load.read(tmp_path / "out")
    assert found.config == config
    assert not found.do_lower_case
    assert (tmp_path / "out" / "vocab.txt").exists()


def test_a_config_is_needed_and_a_vocabulary_must_fit(
    released, tmp_path, tiny_spm_model, wordpiece
):
    vocabulary = {"spm_model_file": str(tiny_spm_model)}
    with pytest.raises(ValueError, match="has 300 tokens.*vocab_size=13"):
        _convert(released, tmp_path / "out", "huggingface", **vocabulary)
    vocabulary = {"vocab_file": str(wordpiece)}
    with pytest.raises(ValueError, match="has 6 tokens.*vocab_size=13"):
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


def _lines(notes):
    return [str(note) for note in notes]


def test_metadata_go_with_every_format(labelled, tmp_path, vocabulary):
    notes = {}
    for output_format in FORMATS:
        notes[output_format] = _convert(
            labelled,
            tmp_path / output_format,
            output_format,
            vocab_file=str(vocabulary),
        ).notes
        found = load.read(tmp_path / output_format)
        assert found.metadata == _LABELLED

    config = json.loads((tmp_path / "huggingface/config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "so-so", "2": "good"}
    assert config["label2id"] == {"bad": 0, "so-so": 1, "good": 2}
    original = "(google-research/albert does not read metadata.json)"
    hub = "(KerasHub does not read albert_metadata.json)"
    assert _lines(notes["tf1"]) == [
        f"left out  do_lower_case=false {original}",
        f"left out  labels=bad,so-so,good {original}",
        f"left out  null_threshold=1.5 {original}",
    ]
    assert _lines(notes["keras"]) == []
    assert _lines(notes["huggingface"]) == [
        "left out  null_threshold=1.5 (transformers does not read "
        "metadata.json)"
    ]
    assert _lines(notes["keras_hub"]) == [
        f"left out  labels=bad,so-so,good {hub}",
        f"left out  null_threshold=1.5 {hub}",
        f"left out  vocabulary={vocabulary} (its tokenizer of ALBERT is for "
        "SentencePiece only)",
    ]


def test_a_run_is_said_to_have_no_vocabulary(labelled, tmp_path):
    summary = _convert(labelled, tmp_path / "out", "keras")

    assert _lines(summary.notes) == [
        "left out  vocabulary (there is none beside the input: pass "
        "--spm_model_file or --vocab_file)"
    ]


def test_a_released_file_may_be_named_like_ours(source, tmp_path):
    tf1.write(tmp_path / "model.ckpt", source.arrays)
    values = source.config.to_dict()
    del values["parameter_sharing"]
    (tmp_path / "albert_config.json").write_text(json.dumps(values))

    assert _convert(tmp_path, tmp_path / "x", "tf1").input_format == "tf1"


def test_a_config_of_other_outputs_is_refused(released, tmp_path, tiny_config):
    path = tmp_path / "other.json"
    dataclasses.replace(tiny_config, hidden_act="relu").to_json_file(path)

    with pytest.raises(ValueError, match="made with hidden_act='gelu', but"):
        _convert(
            released, tmp_path / "out", "keras", albert_config_file=str(path)
        )


def test_weights_that_are_not_numbers_are_not_converted(
    source, tmp_path, labelled
):
    slot = {"bert/pooler/dense/bias/adam_m": np.full(8, np.nan, "float32")}
    tf1.write_ours(
        str(labelled),
        dataclasses.replace(source, arrays=dict(source.arrays) | slot),
    )

    with pytest.raises(ValueError, match="not finite.*bias/adam_m"):
        _convert(labelled, tmp_path / "out", "tf1")
    assert not (tmp_path / "out").exists()


def test_the_null_score_of_cls_is_a_fact(source, tmp_path, labelled):
    heads = {
        "cls/squad/output_weights": np.ones((2, 8), "float32"),
        "cls/squad/output_bias": np.ones(2, "float32"),
    }
    folder = tmp_path / "spans"
    folder.mkdir()
    tf1.write_ours(str(folder), _with(source, **heads))

    summary = _convert(
        folder, tmp_path / "out", "huggingface", null_from_cls=True
    )

    assert load.read(tmp_path / "out").metadata.null_from_cls
    assert _lines(summary.notes)[1] == (
        "left out  null_from_cls=true (transformers does not read "
        "metadata.json)"
    )
    with pytest.raises(ValueError, match="question answering heads.*task. Lea"):
        _convert(labelled, tmp_path / "x", "keras", null_from_cls=True)


def test_labels_of_another_head_are_refused(labelled, tmp_path):
    (labelled / "metadata.json").write_text('{"labels": ["a", "b"]}')

    with pytest.raises(ValueError, match=r"name 2 labels \(a, b\).*3 outputs"):
        _convert(labelled, tmp_path / "out", "huggingface")


def test_heads_and_metadata_are_merged(labelled, tmp_path, source):
    bare = tmp_path / "bare"
    bare.mkdir()
    encoder = starting(source.arrays, "bert/")
    tf1.write_ours(str(bare), dataclasses.replace(source, arrays=encoder))

    _convert(bare, tmp_path / "out", "keras", merge_from=str(labelled))

    found = load.read(tmp_path / "out")
    check_same(found.arrays, load.read(labelled).arrays)
    # There is no head that the threshold is of.
    assert found.metadata == dataclasses.replace(_LABELLED, null_threshold=None)


def test_heads_for_other_text_or_outputs_are_not_merged(
    labelled, tmp_path, source
):
    bare = tmp_path / "bare"
    bare.mkdir()
    arrays = starting(source.arrays, "bert/")
    for change, words in (
        (
            {"metadata": Metadata(do_lower_case=True)},
            "has do_lower_case=False, but --input_path has True",
        ),
        (
            {
                "config": dataclasses.replace(
                    source.config, num_attention_heads=4
                )
            },
            "'--merge_from' was made with num_attention_heads=2",
        ),
    ):
        other = dataclasses.replace(source, arrays=arrays, **change)
        tf1.write_ours(str(bare), other)
        with pytest.raises(ValueError, match=words):
            _convert(bare, tmp_path / "out", "keras", merge_from=str(labelled))


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
