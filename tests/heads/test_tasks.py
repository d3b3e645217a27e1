"""Both halves of every task: the model with its loss, and the data."""

import dataclasses
import json
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import record_columns
from albert_tf.data.record_columns import Padding
from albert_tf.inference import record_outputs
from albert_tf.metrics.scores import Scores
from albert_tf.modeling import random_depth
from albert_tf.tasks import error_tables, example_files
from albert_tf.tasks import spec as specs
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.tasks.task_data import ExampleSet
from albert_tf.training import flag_values
from albert_tf.training import plan as plans
from tests import tiny
from tests.heads.rows import CONFIG, TASKS
from tests.tasks.writing import write_predictions

DROPPING = dataclasses.replace(
    CONFIG, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
)
SETTINGS = {
    "max_seq_length": 24,
    "num_train_steps": 1,
    "do_train": True,
    "do_eval": False,
    "output_dir": "unused",
}
SEED = tf.constant([1, 2])
MASKED = tiny.batch() | {
    "masked_lm_ids": np.array([[9, 4, 0], [6, 0, 0]]),
    "masked_lm_weights": np.array([[1, 1, 0], [1, 0, 0]], np.float32),
    "sentence_order_labels": np.array([0, 1]),
}
# Padding of arrays of tokens. No answer may begin at padding, and no tag there
# is a target.
PAD_VALUES = {"input_mask": 0, "segment_ids": 0, "p_mask": 1, "tag_ids": -1}


class Case(NamedTuple):
    """A function that makes the model half, a batch; the plan of a task."""

    make_task: Any
    batch: dict
    plan: Any = None

    @property
    def data(self):
        return self.plan.sets.data

    @property
    def examples(self):
        return self.plan.sets.train.examples[:2]


def _plan(row, base):
    spec = specs.finetuning_spec_of(row.task)
    given = SETTINGS | {"init_checkpoint": base} | row.settings
    for name, value in {"task_name": row.task, "dropout_prob": 0.0}.items():
        if name in plans.defaults(spec):
            given[name] = value
    return plans.finetuning(
        spec,
        flag_values.checked(given, plans.config_classes(spec)),
        {"train": example_files.rows_in_memory("train", row.examples)},
    )


@pytest.fixture(scope="module")
def make_case(base):
    def make(name):
        if name == "pretraining":
            return Case(PretrainingTask, MASKED)
        plan = _plan(TASKS[name], base)
        data = plan.sets.data
        columns = record_columns.collect(
            data.records(plan.sets.train.examples, is_training=True),
            data.array_specs,
            max_seq_length=24,
        )
        batch = columns.padded(range(3), columns.lengths[:3].max())
        make_task = plan.task_spec.make_task(plan.task_config, plan.sets)
        return Case(make_task, batch, plan)

    return make


@pytest.fixture(scope="module", params=[*TASKS, "pretraining"])
def case(request, make_case):
    return make_case(request.param)


@pytest.fixture(scope="module", params=TASKS)
def planned(request, make_case):
    """The case of a fine-tuning."""
    return make_case(request.param)


def loss_of(task, batch, seed=None):
    return task.loss(batch, task.loss_denominators(batch), seed=seed)


def as_floats(totals):
    return {name: float(value) for name, value in totals.items()}


def rows_of(batch, *which):
    return {name: value[slice(*which)] for name, value in batch.items()}


def test_losses_and_totals_have_their_names_and_shapes(case):
    task, batch = case.make_task(DROPPING), case.batch

    loss_denominators = task.loss_denominators(batch)
    loss, totals = task.loss(batch, loss_denominators, seed=SEED)

    assert set(totals) == set(task.total_names)
    assert float(totals["examples"]) == len(batch["input_ids"])
    assert float(totals["tokens"]) == np.sum(batch["input_mask"])
    for value in [loss, *loss_denominators.values(), *totals.values()]:
        assert (value.dtype, value.shape) == (tf.float32, [])
    scores = task.training_scores(as_floats(totals))
    assert scores["loss"] == pytest.approx(float(loss), rel=1e-5)


def test_shares_of_the_loss_add_up_to_the_loss_of_the_batch(case):
    task, batch = case.make_task(DROPPING), case.batch
    if case.plan and not case.data.label_array:
        # Its loss compares the rows of a batch.
        return
    loss_denominators = task.loss_denominators(batch)

    whole, _ = loss_of(task, batch)
    shares = [
        task.loss(rows_of(batch, i, i + 1), loss_denominators, seed=None)[0]
        for i in range(len(batch["input_ids"]))
    ]

    # The rows have different numbers of targets: a mean of means is another
    # number.
    assert float(sum(shares)) == pytest.approx(float(whole), rel=1e-6)


def test_rows_that_pad_a_batch_count_nowhere(case):
    task, batch = case.make_task(DROPPING), case.batch
    weights = np.ones(len(batch["input_ids"]), np.float32)
    weights[-1] = 0
    padded = batch | {"example_weights": weights}
    if "masked_lm_weights" in batch:
        targets = batch["masked_lm_weights"] * weights[:, None]
        padded["masked_lm_weights"] = targets

    loss, totals = loss_of(task, rows_of(batch, -1))
    same_loss, same_totals = loss_of(task, padded)

    assert float(same_loss) == pytest.approx(float(loss), rel=1e-5)
    assert as_floats(same_totals) == pytest.approx(as_floats(totals), rel=1e-5)


def test_dropout_acts_only_with_a_seed_and_follows_it(case):
    task = case.make_task(DROPPING)

    first, again, other, none, none_again = (
        float(loss_of(task, case.batch, seed)[0])
        for seed in (SEED, SEED, SEED + 1, None, None)
    )

    assert first == again
    assert none == none_again
    assert len({first, other, none}) == 3


def test_the_loss_of_a_random_depth_is_the_mean_of_two_depths(case):
    task = case.make_task(dataclasses.replace(CONFIG, num_hidden_layers=3))
    batch = {name: tf.constant(value) for name, value in case.batch.items()}
    denominators = task.loss_denominators(batch)

    def loss(seed, **options):
        seed = tf.constant([seed, 0])
        return task.loss(batch, denominators, seed=seed, **options)

    one, two, whole = (loss(0, depth=depth) for depth in (1, 2, 3))
    means = [float(shallow[0] + whole[0]) / 2 for shallow in (one, two)]
    found = set()
    for seed in range(4):
        value, totals = loss(seed, compute_outputs=random_depth.outputs)
        errors = np.abs(np.array(means) / float(value) - 1)
        assert errors.min() < 1e-5
        found.add(int(errors.argmin()))
        # The log has the other totals of all layers.
        for name in totals.keys() - {"loss"}:
            assert float(totals[name]) == pytest.approx(float(whole[1][name]))
    assert found == {0, 1}


def test_the_seed_decides_the_weights(case):
    losses = [
        float(loss_of(case.make_task(DROPPING, seed=seed), case.batch)[0])
        for seed in (1, 1, 2)
    ]

    assert losses[0] == losses[1] != losses[2]


def test_no_examples_at_all_evaluate_to_zero(case):
    task = case.make_task(DROPPING)
    nothing = dict.fromkeys(task.total_names, 0.0)

    scores = task.training_scores(nothing)

    assert scores
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_outputs_have_no_dropout_and_are_never_of_half_precision(
    planned, dtype
):
    task, batch = planned.make_task(DROPPING, dtype=dtype), planned.batch

    first, second = task.outputs(batch), task.outputs(batch)

    assert task.sequence_outputs <= first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])
        assert value.dtype in (tf.float32, tf.int32)
        assert value.shape[0] == 3
        if name in task.sequence_outputs:
            assert value.shape[1] == batch["input_ids"].shape[-1]


def test_settings_and_labels_decide_the_model(planned):
    model = planned.make_task(DROPPING).model

    arguments = model.get_config()
    for name, value in vars(planned.plan.task_config).items():
        assert arguments.get(name, value) == value
    if "labels" in planned.data.settings:
        assert model.num_labels == len(planned.data.settings["labels"] or "1")


@pytest.mark.parametrize("is_training", [True, False])
def test_records_have_the_arrays_of_the_specs(planned, is_training):
    data = planned.data

    records = list(data.records(planned.examples, is_training=is_training))

    assert len(records) >= 2
    for record in records:
        assert set(record) == {spec.name for spec in data.array_specs}
        length = record["input_ids"].shape[-1]
        for spec in data.array_specs:
            shape = (*spec.shape, length) if spec.is_sequence else spec.shape
            assert record[spec.name].shape == shape
            assert record[spec.name].dtype == spec.dtype


def test_only_ids_are_padded_with_the_padding_token(planned):
    data = planned.data
    special = dataclasses.replace(data.tokenizer.special_ids, pad=7)
    tokenizer = types.SimpleNamespace(special_ids=special)

    specs = dataclasses.replace(data, tokenizer=tokenizer).array_specs

    found = {spec.name: spec.pad_value for spec in specs if spec.is_sequence}
    assert found.pop("input_ids") == 7
    assert found == {name: PAD_VALUES[name] for name in found}
    inputs = planned.make_task(DROPPING).model.input_specs()
    assert inputs.keys() - {"input_ids"} == found.keys() - {"tag_ids"}


def test_settings_are_json_and_name_task_length_and_vocabulary(planned):
    data = planned.data

    settings = json.loads(json.dumps(data.settings))

    assert settings["task"] == data.name
    assert settings["tokenizer"] == data.tokenizer.fingerprint
    assert settings["max_seq_length"] == 24
    if hasattr(data, "lengths"):
        lengths = dataclasses.replace(data.lengths, max_seq_length=99)
        changes = {"lengths": lengths}
    else:
        changes = {"max_seq_length": 99}
    if "labels" in settings:
        changes["labels"] = ("a", "b", "c")
    for name, value in changes.items():
        changed = dataclasses.replace(data, **{name: value})
        assert changed.settings != data.settings


@pytest.fixture(scope="module")
def chunks(planned):
    """Two chunks of one example, and their outputs."""
    computer = record_outputs.OutputComputer(
        planned.make_task(DROPPING, seed=0),
        Padding(max_seq_length=24, bucket_width=None),
    )
    examples = ExampleSet(examples=planned.examples, data=planned.data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_outputs, "CHUNK_SIZE", 1)
        return list(computer.run_chunks(examples, 2))


@pytest.fixture(scope="module")
def outputs(chunks):
    """The outputs of both examples."""
    (_, first), (_, second) = chunks
    return {
        name: [*values, *second[name]]
        if isinstance(values, list)
        else np.concatenate([values, second[name]])
        for name, values in first.items()
    }


def test_predictions_are_files_and_the_report_has_sections(
    planned, outputs, tmp_path
):
    data, examples = planned.data, planned.examples

    own = data.scores(examples, outputs)

    assert data.primary_metric in own
    assert data.primary_metric in data.baselines(examples)
    assert {type(score.value) for score in own.entries} == {float}
    for scores in (Scores(), own):
        assert write_predictions(data, examples, outputs, tmp_path, scores)
        sections = error_tables.sections(data, examples, outputs, scores)
        for section in sections:
            assert section["title"]


def test_chunks_of_predictions_give_the_files_of_all(
    planned, chunks, outputs, tmp_path
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    write_predictions(planned.data, planned.examples, outputs, whole)

    with planned.data.open_predictions(str(parts), Scores()) as write:
        for chunk in chunks:
            write(*chunk)

    for path in whole.iterdir():
        assert (parts / path.name).read_bytes() == path.read_bytes()
