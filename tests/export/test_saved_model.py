"""LiteRT models answer as the SavedModels that they were written beside.

A checkpoint becomes a SavedModel: what it answers, what it weighs.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf.checkpoints import tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.export import allowed_operations, saved_model
from albert_tf.export.export_config import ExportJob
from albert_tf.export.signature import Signature
from albert_tf.modeling.pretraining_model import PretrainingModel


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("task", ["encoder", "classifier", "squad_1"])
def test_ids_give_what_the_saved_model_gives(task, request):
    exported = request.getfixturevalue(f"served_{task}")
    path = pathlib.Path(exported.summary.path) / saved_model.FILE
    interpreter = tf.lite.Interpreter(model_path=str(path))
    run = interpreter.get_signature_runner()
    rng = np.random.default_rng(1)
    for batch, length in ((1, 5), (3, 12)):
        mask = (np.arange(length) < length - np.arange(batch)[:, None]) * 1
        ids = {
            "input_ids": rng.integers(5, 300, (batch, length)),
            "input_mask": mask,
            "segment_ids": mask * (np.arange(length) > 2),
        }
        ids = {name: values.astype(np.int32) for name, values in ids.items()}

        found = run(**ids)

        expected = exported.ask("tokens", **ids)
        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, atol=1e-4)


def test_an_operation_that_litert_does_not_know():
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def call(text):
        return {"x": tf.strings.unicode_decode(text, "UTF-8").values}

    one = Signature(
        name="odd", function=call.get_concrete_function(), warmup=()
    )

    with pytest.raises(ValueError, match="'odd' cannot be converted to LiteRT"):
        saved_model.convert(one, module)


BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"
TEXTS = ["The house stood on a hill.", "", "a" * 300, "Café ½"]
OTHERS = ["It was old.", "x", "b " * 300, ""]
MAX_BYTES = 50_000_000


def job(folder, vocabulary, **values):
    return ExportJob(
        init_checkpoint=str(BASE),
        export_dir=str(folder),
        spm_model_file=str(vocabulary),
        **values,
    )


def ids_of(texts, others, tokenizer, max_seq_length):
    """What the documentation says: `[CLS] a [SEP] b [SEP]`, in Python."""
    special = tokenizer.special_ids
    rows = []
    for text_a, text_b in zip(texts, others, strict=True):
        a, b = tokenizer.encode(text_a), tokenizer.encode(text_b)
        while len(a) + len(b) > max_seq_length - (3 if b else 2):
            (a if len(a) > len(b) else b).pop()
        first = [special.cls, *a, special.sep]
        rows.append((first, [*b, special.sep] if b else []))
    length = max(len(a) + len(b) for a, b in rows)
    batch = {
        name: np.zeros((len(rows), length), np.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    for row, (a, b) in enumerate(rows):
        batch["input_ids"][row, : len(a) + len(b)] = [*a, *b]
        batch["input_mask"][row, : len(a) + len(b)] = 1
        batch["segment_ids"][row, len(a) : len(a) + len(b)] = 1
    return batch


def test_raw_text_gives_what_the_model_gives_for_its_ids(exported_encoder):
    found = exported_encoder.ask(text_a=TEXTS, text_b=OTHERS)

    batch = ids_of(TEXTS, OTHERS, exported_encoder.tokenizer, 48)
    expected = exported_encoder.model.albert(batch)
    assert found["sequence_output"].shape == (4, 48, 16)
    mask = batch["input_mask"][:, :, None]
    np.testing.assert_allclose(
        found["sequence_output"] * mask,
        expected["sequence_output"] * mask,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        found["pooled_output"], expected["pooled_output"], atol=1e-5
    )


def test_ids_and_heads(exported_encoder):
    ids = ids_of(TEXTS, OTHERS, exported_encoder.tokenizer, 20)
    positions = np.array([[1, 3], [0, 1], [2, 19], [1, 2]], np.int32)

    mlm = exported_encoder.ask("mlm", **ids, mlm_positions=positions)
    sop = exported_encoder.ask("sop", **ids)
    tokens = exported_encoder.ask("tokens", **ids)

    expected = exported_encoder.model({**ids, "masked_lm_positions": positions})
    np.testing.assert_allclose(
        mlm["mlm_logits"], expected["masked_lm_logits"], atol=1e-5
    )
    np.testing.assert_allclose(
        np.exp(sop["sop_log_probs"]),
        tf.nn.softmax(expected["sentence_order_logits"]),
        atol=1e-5,
    )
    for outputs in (mlm, sop):
        np.testing.assert_array_equal(
            outputs["pooled_output"], tokens["pooled_output"]
        )


def test_an_empty_batch(exported_encoder):
    none = np.array([], object)

    found = exported_encoder.ask(text_a=none, text_b=none)

    assert found["pooled_output"].shape == (0, 16)


def test_texts_that_do_not_pair_are_an_invalid_argument(exported_encoder):
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many strings"):
        exported_encoder.ask(text_a=["a", "b"], text_b=["c"])


def test_a_sequence_that_is_too_long_is_an_invalid_argument(exported_encoder):
    ids = np.ones((1, 65), np.int32)

    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 64"):
        exported_encoder.ask(
            "tokens", input_ids=ids, input_mask=ids, segment_ids=ids * 0
        )


def test_what_lies_in_the_folder(exported_encoder, tiny_spm_model):
    summary = exported_encoder.summary
    path = pathlib.Path(summary.path)

    config = json.loads((path / "assets" / "albert_config.json").read_text())
    assert config["hidden_size"] == 16
    [vocabulary] = (path / "assets").glob("*.model")
    assert vocabulary.read_bytes() == tiny_spm_model.read_bytes()
    warmup = path / "assets.extra" / "tf_serving_warmup_requests"
    assert len([*tf.data.TFRecordDataset(str(warmup))]) == 10
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


_PLAIN = """
import sys
sys.modules["albert_tf"] = sys.modules["tensorflow_text"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
found = model.signatures["serving_default"](
    text_a=tf.constant(["The house."]), text_b=tf.constant([""]))
print(found["pooled_output"].shape)
"""


@pytest.mark.slow
def test_tensorflow_alone_answers(exported_encoder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _PLAIN, exported_encoder.summary.path],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "(1, 16)\n", done.stderr


def test_a_forbidden_operation_is_named_and_nothing_is_written(
    tiny_spm_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        allowed_operations, "ALLOWED", allowed_operations.ALLOWED - {"Tanh"}
    )

    with pytest.raises(ValueError, match="'serving_default' has Tanh, which"):
        saved_model.run(job(tmp_path / "served", tiny_spm_model))
    assert os.listdir(tmp_path) == []


def test_a_vocabulary_that_is_not_the_models(tiny_spm_model, tmp_path):
    config = config_lib.AlbertConfig.from_dict(
        {
            **json.loads((BASE / "albert_config.json").read_text()),
            "vocab_size": 299,
        }
    )

    with pytest.raises(ValueError, match="has 300 tokens.*vocab_size=299"):
        saved_model.run(job(tmp_path / "x", tiny_spm_model, config=config))


def test_another_vocabulary_than_that_beside_the_checkpoint(
    tiny_spm_model, tiny_chinese_vocabulary, tmp_path
):
    shutil.copytree(BASE, tmp_path / "base")
    beside = tmp_path / "base" / "beside.model"
    shutil.copyfile(tiny_spm_model, beside)

    with pytest.raises(ValueError, match=r"lies beside it: .*/beside\.model"):
        saved_model.run(
            ExportJob(
                init_checkpoint=str(tmp_path / "base"),
                export_dir=str(tmp_path / "x"),
                vocab_file=str(tiny_chinese_vocabulary),
            )
        )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("length", [4, 65])
def test_an_impossible_length(length, tiny_spm_model, tmp_path):
    with pytest.raises(ValueError, match=f"from 5 to.*Received: {length}"):
        saved_model.run(
            job(tmp_path / "x", tiny_spm_model, max_seq_length=length)
        )


@pytest.fixture(scope="module")
def base_checkpoint(tmp_path_factory):
    """A checkpoint of the size of ALBERT base, with new weights."""
    config = config_lib.published_config("base_v2")
    made = PretrainingModel(config)
    arrays = {
        name: variable.numpy()
        for name, variable in variable_names.variables_by_tf1_name(
            made.weights
        ).items()
    }
    folder = tmp_path_factory.mktemp("base")
    tf1.write_ours(str(folder), Checkpoint(arrays=arrays, config=config))
    return folder


@pytest.mark.parametrize(
    ("precision", "max_bytes"),
    [
        ("float32", MAX_BYTES),
        pytest.param(
            "bfloat16", MAX_BYTES // 2 + 2_000_000, marks=pytest.mark.slow
        ),
    ],
)
def test_base_weighs_what_its_weights_weigh(
    precision, max_bytes, base_checkpoint, shared_data, tmp_path
):
    vocabulary = shared_data / "data" / "spm" / "30k-clean.model"
    summary = saved_model.run(
        ExportJob(
            init_checkpoint=str(base_checkpoint),
            export_dir=str(tmp_path),
            spm_model_file=str(vocabulary),
            precision=precision,
        )
    )

    assert summary.num_bytes < max_bytes
