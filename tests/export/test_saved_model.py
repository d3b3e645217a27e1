"""A checkpoint becomes a SavedModel: its files, its size, what is refused."""

import dataclasses
import functools
import json
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, tf1
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.export import saved_model
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.published_configs import load_config
from albert_tf.text import tokenizer
from tests.checkpoints.weights import weights_of
from tests.exported_models import (
    TINY_CONFIG,
    base_config,
    make_config,
    write_checkpoint,
)

MAX_BYTES = 51_000_000


def test_what_lies_in_the_folder(exported, tiny_spm_model):
    summary = exported("pretraining").summary
    path = pathlib.Path(summary.path)

    config = json.loads((path / "assets" / "albert_config.json").read_text())
    assert config["hidden_size"] == 16
    [vocabulary] = (path / "assets").glob("*.model")
    assert vocabulary.read_bytes() == tiny_spm_model.read_bytes()
    assert path.name == "1"
    assert (path.parent / "batching_parameters.txt").exists()
    assert summary.signatures == (
        "serving_default",
        "tokens",
        "mlm",
        "fill_mask",
        "sop",
    )
    assert summary.num_bytes == sum(
        file.stat().st_size for file in path.rglob("*") if file.is_file()
    )
    assert str(summary).startswith(
        "signatures serving_default, tokens, mlm, fill_mask, sop\n"
        f"written    {path} ("
    )


def test_a_pooler_that_was_not_trained_is_not_served(tiny_spm_model, tmp_path):
    arrays = weights_of(PretrainingModel(TINY_CONFIG, objectives=["mlm"]))
    source = Checkpoint(
        arrays={n: a for n, a in arrays.items() if "/pooler/" not in n},
        config=TINY_CONFIG,
        vocabulary=str(tiny_spm_model),
    )
    tf1.write_ours(str(tmp_path), source)

    summary = saved_model.export(make_config(tmp_path / "x", tmp_path))

    signatures = tf.saved_model.load(summary.path).signatures
    for name in ("serving_default", "tokens", "mlm"):
        outputs = {*signatures[name].structured_outputs} - {"mlm_logits"}
        assert outputs == {"sequence_output"}


def test_another_config_file_is_read(tiny_spm_model, tmp_path):
    path = tmp_path / "config.json"
    base_config(max_position_embeddings=9).to_json_file(path)
    config = make_config(
        tmp_path / "x",
        spm_model_file=str(tiny_spm_model),
        albert_config_file=str(path),
        max_seq_length=10,
    )

    with pytest.raises(ValueError, match="at most 9"):
        saved_model.export(config)


@pytest.fixture
def run(tiny_spm_model, tmp_path):
    """A cased classifier of three labels, as a run leaves it."""
    config = dataclasses.replace(TINY_CONFIG, initializer_range=0.5)
    model = ClassifierModel(config, num_labels=3)
    tokens = tokenizer.load_tokenizer(
        spm_model_file=tiny_spm_model, do_lower_case=False
    )
    known = Metadata(
        labels=("bad", "so-so", "good"), tokenizer_hash=tokens.fingerprint
    )
    write_checkpoint(tmp_path / "run", model, metadata=known)
    return tmp_path / "run"


def _export_run(run, vocabulary, **values):
    return saved_model.export(
        make_config(
            run.parent / "x",
            run,
            spm_model_file=str(vocabulary),
            head="classifier",
            max_seq_length=16,
            **values,
        )
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"do_lower_case": True}, "trained with another tokenizer"),
        ({"labels": ("good", "so-so", "bad")}, "names of the model's labels"),
        ({"labels": ("a", "b")}, "--labels names 2 labels"),
    ],
)
def test_what_a_run_was_not_trained_with_is_refused(
    values, words, run, tiny_spm_model
):
    with pytest.raises(ValueError, match=words):
        _export_run(run, tiny_spm_model, **values)
    assert not (run.parent / "x").exists()


def test_a_run_keeps_its_case_and_new_labels_are_noted(run, tiny_spm_model):
    summary = _export_run(run, tiny_spm_model, labels=("a", "b", "c"))

    labels = '["bad", "so-so", "good"]'
    text = f"left out   labels={labels} (--labels replaces them)\n"
    assert text in str(summary)
    texts = {"text_a": ["The Snow fell."] * 2, "text_b": [""] * 2}
    texts["text_a"][1] = texts["text_a"][1].lower()
    serve = tf.saved_model.load(summary.path).signatures["serving_default"]
    found = serve(**{name: tf.constant(t) for name, t in texts.items()})
    cased, lower = found["probabilities"].numpy()
    assert abs(cased - lower).max() > 1e-4
    assert {*found["prediction"].numpy()} <= {b"a", b"b", b"c"}


@pytest.mark.parametrize(
    ("num_labels", "given", "expected"),
    [
        (3, {}, {"bad", "so-so", "good"}),
        (2, {"labels": ("no", "yes")}, {"no", "yes"}),
    ],
)
def test_a_keras_file_is_exported_with_its_labels_or_those_given(
    num_labels, given, expected, run, tiny_spm_model, tmp_path
):
    path = tmp_path / "model.keras"
    load.load_model(run, num_labels=num_labels).save(path)

    summary = _export_run(path, tiny_spm_model, **given)

    serve = tf.saved_model.load(summary.path).signatures["serving_default"]
    found = serve(text_a=tf.constant(["a"]), text_b=tf.constant([""]))
    assert {x.decode() for x in found["labels"].numpy()[0]} == expected
    with pytest.raises(ValueError, match="trained with another tokenizer"):
        _export_run(path, tiny_spm_model, do_lower_case=True)


@pytest.fixture(scope="module")
def large_checkpoint(tmp_path_factory):
    """A checkpoint of the size of ALBERT base, with new weights."""
    model = PretrainingModel(load_config("base_v2"))
    folder = tmp_path_factory.mktemp("base")
    write_checkpoint(folder, model)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "max_bytes"),
    [("float32", MAX_BYTES), ("bfloat16", MAX_BYTES // 2 + 3_000_000)],
)
def test_base_weighs_what_its_weights_weigh(
    precision, max_bytes, large_checkpoint, shared_data, tmp_path
):
    summary = saved_model.export(
        make_config(
            tmp_path,
            large_checkpoint,
            spm_model_file=str(shared_data / "data/spm/30k-clean.model"),
            precision=precision,
        )
    )

    assert summary.num_bytes < max_bytes


def test_without_tensorflow_text_ids_alone_are_served(
    run, tiny_spm_model, tmp_path, monkeypatch
):
    export = functools.partial(
        make_config,
        checkpoint=run,
        spm_model_file=str(tiny_spm_model),
        do_lower_case=False,
    )
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)

    with pytest.raises(ImportError, match="tensorflow_text"):
        saved_model.export(export(tmp_path / "text"))
    done = saved_model.export(export(tmp_path / "ids", format="tokens"))
    litert = saved_model.export(export(tmp_path / "litert", format="litert"))

    assert done.signatures == litert.signatures == ("tokens",)
    ids = tf.constant([[2, 9, 8, 3]])
    batch = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
    }
    served = tf.saved_model.load(done.path).signatures
    expected = load.load_model(str(run))(batch)["logits"]
    found = served["tokens"](**batch)["logits"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
