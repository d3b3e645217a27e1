"""A head that albert_tf does not know, whose record is not always passed.

Where it is not, errors name it: it is never taken for an encoder. The table of
`rows.py` has the head too; test_new_head.py follows docs/new_head.md.
"""

import logging
import pathlib
import pickle
import shutil

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
from tests.heads.conftest import STEPS
from tests.heads.rows import CONFIG, ROWS

KNOWN = "encoder, pretraining, classifier, multiple_choice, span, beam_span"
UNKNOWN = f"(?s)(?=.*word_count)(?=.*{KNOWN})"

word_count = pytest.mark.parametrize("trained", ["word_count"], indirect=True)


def _export(path, folder, **settings):
    saved_model.export(
        ExportConfig(
            init_checkpoint=str(path), export_dir=str(folder), settings=settings
        )
    )


@word_count
@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(
    "use",
    [
        lambda path, out: albert_tf.load_predictor(path),
        lambda path, out: albert_tf.load_model(path),
        _export,
        lambda path, out: _export(path, out, labels=("a", "b")),
    ],
    ids=["load_predictor", "load_model", "export", "export with labels"],
)
def test_it_is_never_taken_for_an_encoder(use, is_named, trained, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained.path, folder)
    if not is_named:
        for path in folder.rglob("metadata.json"):
            path.unlink()

    with pytest.raises(ValueError, match=UNKNOWN):
        use(folder, tmp_path / "out")


@word_count
def test_the_card_says_that_it_has_learnt_a_task(trained):
    card = pathlib.Path(trained.path, "README.md").read_text()

    assert "pipeline_tag: other" in card
    assert "It has learnt no task" not in card
    assert "run_pretraining.py" not in card


@word_count
def test_its_result_can_be_sent_to_another_process(trained):
    copy = pickle.loads(pickle.dumps(trained.result))

    assert copy.scores == trained.result.scores
    assert copy.predictor.predict(trained.row.inputs) == trained.answers


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


def test_its_run_resumes_with_the_same_loss(base, tmp_path):
    runs = [tmp_path / name for name in ("whole", "parts")]
    last = pathlib.Path("checkpoints", "step-00000003")

    class Shares(toy.WordCount):
        loss = "binary_cross_entropy"

    def run(folder, head=toy.SPEC):
        albert_tf.finetune(
            head,
            train_examples=[{"text": "the " * i} for i in range(1, 9)],
            init_checkpoint=base,
            output_dir=folder,
            deterministic=True,
            **STEPS | {"save_checkpoints_steps": 2},
        )

    run(runs[0])
    shutil.copytree(*runs)
    shutil.rmtree(runs[1] / last)
    run(runs[1])

    expected, found = (tf1.read(folder / last) for folder in runs)
    assert "heads/word_count_head/output_weights" in found
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    with pytest.raises(ValueError, match="belongs to another run, with .*loss"):
        run(runs[0], Shares)


@word_count
def test_another_task_begins_with_its_encoder_and_says_so(
    trained, base, tmp_path, caplog
):
    row = ROWS["classifier"]

    with caplog.at_level(logging.INFO):
        albert_tf.finetune(
            row.task,
            train_examples=row.examples,
            init_checkpoint=trained.path,
            output_dir=tmp_path / "run",
            learning_rate=1e-9,
            **STEPS | row.settings,
        )

    assert "unused heads: word_count_head" in caplog.text
    name = "bert/pooler/dense/kernel"
    start, end = (
        tf1.read(folder)[name] for folder in (trained.path, tmp_path / "run")
    )
    np.testing.assert_allclose(end, start, atol=1e-6)
