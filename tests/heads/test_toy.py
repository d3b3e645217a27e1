"""A head that is defined in this folder alone goes all the way.

From the training to answers, to a SavedModel and to LiteRT. Where its record is
not passed, errors name it: it is never taken for an encoder.
"""

import json
import logging
import pathlib
import pickle
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import tf1
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.data import record_columns
from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig
from albert_tf.tasks import spec as specs
from albert_tf.tasks.pooled.data import PooledExample
from tests.heads import toy
from tests.heads.conftest import CONFIG

TEXTS = ["the cat", "a dog sat on the mat", "snow"]
ROWS = [{"text": "the cat " * (1 + i % 4)} for i in range(24)]
KNOWN = "encoder, pretraining, classifier, multiple_choice, span, beam_span"
UNKNOWN = f"(?s)(?=.*word_count)(?=.*{KNOWN})"


def _run(output_dir, head=toy.SPEC, **given):
    return albert_tf.finetune(
        head,
        train_examples=ROWS,
        eval_examples=ROWS,
        predict_examples=ROWS,
        output_dir=output_dir,
        train_batch_size=8,
        num_train_steps=4,
        save_checkpoints_steps=2,
        deterministic=True,
        max_seq_length=16,
        **given,
    )


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    """The result of a run, and where it was exported."""
    folder = tmp_path_factory.mktemp("run")
    return _run(
        folder / "run",
        init_checkpoint=str(base),
        export_dir=str(folder / "served"),
    )


def test_it_is_trained_evaluated_and_predicted(trained):
    path = pathlib.Path(trained.output_dir, "predictions.jsonl")
    lines = path.read_text().splitlines()

    predictor = albert_tf.load_predictor(trained.output_dir, head=toy.SPEC)

    assert trained.scores.step == 4
    # Half of the texts have 4 or 6 words, one away from the mean.
    assert trained.baselines == {"within_one": 0.5}
    assert {"within_one", "loss"} <= {*trained.scores.flat()}
    found = predictor.predict([row["text"] for row in ROWS])
    expected = [json.loads(line)["num_words"] for line in lines]
    assert [x["num_words"] for x in found] == pytest.approx(expected, rel=1e-5)
    assert predictor.data.max_seq_length == 16
    assert trained.predictor.predict(TEXTS) == predictor.predict(TEXTS)


def test_its_result_can_be_sent_to_another_process(trained):
    answers = trained.predictor.predict(TEXTS)

    copy = pickle.loads(pickle.dumps(trained))

    assert copy.scores == trained.scores
    assert copy.predictor.predict(TEXTS) == answers


def test_a_subclass_without_a_name_is_a_head_with_its_own_outputs():
    class Twice(toy.WordCount):
        num_outputs = 2

    model = Twice.head.make_model(CONFIG, None)

    assert model.output["logits"].shape == (None, 2)
    # A class stands for its instance.
    assert specs.head_spec_of(Twice).num_outputs == 2
    assert specs.finetuning_spec_of(Twice).task_names == ("word_count",)


def test_of_another_loss_no_level_of_chance_is_known(tiny_spm_model):
    class Counts(toy.WordCount):
        loss = "other"

        def losses(self, logits, labels):
            return keras.ops.mean(keras.ops.exp(logits) - labels * logits, -1)

    checkpoint = Checkpoint(vocabulary=str(tiny_spm_model))
    data = Counts().answer_data(checkpoint, None, {"max_seq_length": 16})
    rows = [
        PooledExample(guid="", text_a="a", label=[i / 9]) for i in range(20)
    ]
    records = data.records(rows, is_training=False)
    columns = record_columns.collect(
        records, data.array_specs, max_seq_length=16
    )

    found = data.compare_with_chance(columns, {"logits": np.ones((20, 1))})

    assert found is None
    assert "no known level of chance" in data.why_not_compared(columns)
    assert data.baselines(rows) == {}


def test_a_run_goes_on_as_if_it_had_not_stopped(trained, base, tmp_path):
    whole = pathlib.Path(trained.output_dir)
    parts = tmp_path / "parts"
    shutil.copytree(whole, parts)
    last = pathlib.Path("checkpoints", "step-00000004")
    for lost in (last, "best"):
        shutil.rmtree(parts / lost)

    _run(parts, init_checkpoint=str(base))

    found, expected = tf1.read(parts / last), tf1.read(whole / last)
    assert "heads/word_count_head/output_weights" in found
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_run_does_not_go_on_with_another_loss(trained, base):
    class Shares(toy.WordCount):
        loss = "binary_cross_entropy"

    with pytest.raises(ValueError, match="belongs to another run, with .*loss"):
        _run(trained.output_dir, head=Shares, init_checkpoint=str(base))


_LOAD = """
import json, sys
import tensorflow as tf
import tensorflow_text

sys.modules["albert_tf"] = None  # cannot be imported
path, *texts = sys.argv[1:]
serve = tf.saved_model.load(path).signatures["serving_default"]
texts = tf.constant(texts)
found = serve(text_a=texts, text_b=tf.fill(tf.shape(texts), ""))
print(json.dumps(found["num_words"].numpy().tolist()))
"""


def test_a_plain_tensorflow_serves_it(trained, tmp_path):
    answers = [one["num_words"] for one in trained.predictor.predict(TEXTS)]

    done = subprocess.run(
        [sys.executable, "-c", _LOAD, trained.export.path, *TEXTS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    found = json.loads(done.stdout.splitlines()[-1])
    assert found == pytest.approx(answers, rel=1e-5)


def _export(path, folder, **values):
    return saved_model.export(
        ExportConfig(
            init_checkpoint=str(path), export_dir=str(folder), **values
        )
    )


# Where the record is not passed.

_ROADS = {
    "load_predictor": lambda path, out: albert_tf.load_predictor(path),
    "load_model": lambda path, out: albert_tf.load_model(path),
    "export": lambda path, out: _export(path, out),
    "export with labels": lambda path, out: _export(
        path, out, settings={"labels": ("a", "b")}
    ),
}


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("road", _ROADS)
def test_it_is_never_taken_for_an_encoder(road, is_named, trained, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained.output_dir, folder)
    if not is_named:
        for path in folder.rglob("metadata.json"):
            path.unlink()

    with pytest.raises(ValueError, match=UNKNOWN):
        _ROADS[road](folder, tmp_path / "out")


def test_the_card_says_that_it_has_learnt_a_task(trained):
    card = pathlib.Path(trained.output_dir, "README.md").read_text()

    assert "pipeline_tag: other" in card
    assert "It has learnt no task" not in card
    assert "run_pretraining.py" not in card


def test_another_task_begins_with_its_encoder_and_says_so(
    trained, tmp_path, caplog
):
    rows = [{"text": "a cat", "kind": kind} for kind in "abab"]

    with caplog.at_level(logging.INFO):
        albert_tf.finetune(
            "custom",
            train_examples=rows,
            text_columns=["text"],
            label_column="kind",
            init_checkpoint=trained.output_dir,
            output_dir=tmp_path / "run",
            train_batch_size=2,
            num_train_steps=1,
            learning_rate=1e-9,
        )

    assert "unused heads: word_count_head" in caplog.text
    start, end = (
        tf1.read(folder) for folder in (trained.output_dir, tmp_path / "run")
    )
    name = "bert/pooler/dense/kernel"
    np.testing.assert_allclose(end[name], start[name], atol=1e-6)


def test_it_is_kept_in_a_keras_file(trained, tmp_path):
    model = albert_tf.load_model(trained.output_dir, head=toy.SPEC.head)
    model.save(tmp_path / "model.keras")
    ids = np.array([[2, 5, 3]], "int32")

    found = albert_tf.load_model(tmp_path / "model.keras")

    expected = model({"input_ids": ids})["logits"]
    np.testing.assert_array_equal(found({"input_ids": ids})["logits"], expected)
