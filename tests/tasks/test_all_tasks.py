"""What all tasks have in common: both halves, and the sets of examples."""

import dataclasses
import json
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.metrics.scores import Scores
from albert_tf.tasks import error_tables
from albert_tf.tasks.classification import sets as classification
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.tasks.race import sets as race
from albert_tf.tasks.race.data import MultipleChoiceData
from albert_tf.tasks.race.examples import ChoiceLengths, MultipleChoiceExample
from albert_tf.tasks.race.model import MultipleChoiceTask
from albert_tf.tasks.squad import sets as squad
from albert_tf.tasks.squad.data import SquadData
from albert_tf.tasks.squad.examples import Answer, SquadExample
from albert_tf.tasks.squad.model import BeamSpanTask, SpanTask
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.tasks.tagging.model import TaggingTask
from tests import tiny
from tests.tasks.writing import write_predictions

# B = 3, C = 2, S = 6.
CONFIG = tiny.config(
    num_hidden_layers=1,
    max_position_embeddings=8,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    initializer_range=0.02,
)
SEED = tf.constant([1, 2])
ROWS = {
    "input_ids": [[2, 4, 5, 3, 6, 3], [2, 7, 3, 8, 3, 0], [2, 9, 10, 3, 4, 3]],
    "input_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]],
    "segment_ids": [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]],
}
SINGLE = {name: tf.constant(rows) for name, rows in ROWS.items()}
# The choices of a question are two rows of the above.
CHOICES = {
    name: tf.stack([rows, tf.roll(rows, 1, axis=0)], axis=1)
    for name, rows in SINGLE.items()
}
SPANS = SINGLE | {
    "start_positions": tf.constant([4, 3, 0]),
    "end_positions": tf.constant([4, 3, 0]),
    "p_mask": tf.constant(
        [[0.0, 1, 1, 1, 0, 1], [0.0, 1, 1, 0, 1, 1], [0.0, 1, 1, 1, 0, 1]]
    ),
    "is_impossible": tf.constant([0.0, 0.0, 1.0]),
}
MASKED = SINGLE | {
    "masked_lm_positions": tf.constant([[1, 0], [1, 3], [2, 0]]),
    "masked_lm_ids": tf.constant([[9, 0], [6, 8], [4, 0]]),
    "masked_lm_weights": tf.constant([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]),
    "sentence_order_labels": tf.constant([0, 1, 1]),
}
# By name, what makes the model half, and a batch.
FINETUNING = {
    "classification": (
        lambda **more: ClassificationTask(CONFIG, num_labels=3, **more),
        SINGLE | {"label_ids": tf.constant([2, 0, 1])},
    ),
    "regression": (
        lambda **more: ClassificationTask(CONFIG, num_labels=0, **more),
        SINGLE | {"label_ids": tf.constant([0.5, 4.0, 2.5])},
    ),
    "multiple_choice": (
        lambda **more: MultipleChoiceTask(CONFIG, **more),
        CHOICES | {"label_ids": tf.constant([0, 1, 1])},
    ),
    "ner": (
        lambda **more: TaggingTask(
            CONFIG, num_labels=3, words_per_record=2.0, **more
        ),
        SINGLE
        | {
            "tag_ids": tf.constant(
                [
                    [-1, 2, 0, 1, -1, -1],
                    [-1, 1, -1, 2, -1, -1],
                    [-1, 0, -1, -1, -1, -1],
                ]
            )
        },
    ),
    "squad_v1": (lambda **more: SpanTask(CONFIG, **more), SPANS),
    "squad_v2": (
        lambda **more: BeamSpanTask(CONFIG, start_n_top=2, end_n_top=2, **more),
        SPANS,
    ),
}
ALL = FINETUNING | {
    "pretraining": (lambda **more: PretrainingTask(CONFIG, **more), MASKED)
}
PAD_VALUES = {"input_ids": 0, "input_mask": 0, "segment_ids": 0, "p_mask": 1}


@pytest.fixture(params=ALL)
def case(request):
    """What makes the model half, and a batch, of every task."""
    return ALL[request.param]


@pytest.fixture(params=FINETUNING)
def finetuning_case(request):
    """What makes the model half, and a batch, of a task that predicts."""
    return FINETUNING[request.param]


def loss_of(task, batch, seed=None):
    return task.loss(batch, task.loss_denominators(batch), seed=seed)


def as_floats(totals):
    return {name: float(value) for name, value in totals.items()}


def assert_same_outputs(found, wanted, **tolerance):
    assert set(found) == set(wanted)
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], **tolerance)


def test_losses_and_totals_have_their_names_and_shapes(case):
    make_task, batch = case
    task = make_task()

    loss_denominators = task.loss_denominators(batch)
    loss, totals = task.loss(batch, loss_denominators, seed=SEED)

    assert set(totals) == set(task.total_names)
    assert float(totals["examples"]) == 3
    assert float(totals["tokens"]) == np.sum(batch["input_mask"])
    for value in [loss, *loss_denominators.values(), *totals.values()]:
        assert (value.dtype, value.shape) == (tf.float32, [])
    scores = task.training_scores(as_floats(totals))
    assert scores["loss"] == pytest.approx(float(loss), rel=1e-5)


def test_shares_of_the_loss_add_up_to_that_of_the_whole_batch(case):
    make_task, batch = case
    task = make_task()
    loss_denominators = task.loss_denominators(batch)

    whole, _ = loss_of(task, batch)
    shares = [
        task.loss(
            {name: value[row : row + 1] for name, value in batch.items()},
            loss_denominators,
            seed=None,
        )[0]
        for row in range(3)
    ]

    # Of pretraining, the rows have 1, 2 and 1 targets: a mean of means is
    # another number.
    assert float(sum(shares)) == pytest.approx(float(whole), rel=1e-6)


def test_rows_that_pad_a_batch_count_nowhere(case):
    make_task, batch = case
    task = make_task()
    first = {name: value[:2] for name, value in batch.items()}
    weights = tf.constant([1.0, 1.0, 0.0])
    padded = batch | {"example_weights": weights}
    if "masked_lm_weights" in batch:
        targets = batch["masked_lm_weights"] * weights[:, None]
        padded["masked_lm_weights"] = targets

    loss, totals = loss_of(task, first)
    same_loss, same_totals = loss_of(task, padded)

    assert float(same_loss) == pytest.approx(float(loss), rel=1e-5)
    assert as_floats(same_totals) == pytest.approx(as_floats(totals), rel=1e-5)


def test_dropout_acts_only_with_a_seed_and_follows_it(case):
    make_task, batch = case
    task = make_task()

    first, again, other, none, none_again = (
        float(loss_of(task, batch, seed)[0])
        for seed in (SEED, SEED, SEED + 1, None, None)
    )

    assert first == again
    assert none == none_again
    assert len({first, other, none}) == 3


def test_the_seed_decides_the_weights(case):
    make_task, batch = case

    losses = [
        float(loss_of(make_task(seed=seed), batch)[0]) for seed in (1, 1, 2)
    ]

    assert losses[0] == losses[1] != losses[2]


def test_no_examples_at_all_evaluate_to_zero(case):
    task = case[0]()
    nothing = dict.fromkeys(task.total_names, 0.0)

    scores = task.training_scores(nothing)

    assert scores
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_outputs_have_no_dropout_and_are_never_of_half_precision(
    finetuning_case, dtype
):
    make_task, batch = finetuning_case
    task = make_task(dtype=dtype)

    first, second = task.outputs(batch), task.outputs(batch)

    assert_same_outputs(first, second, rtol=0)
    assert task.sequence_outputs <= set(first)
    for name, value in first.items():
        assert value.dtype in (tf.float32, tf.int32)
        assert value.shape[0] == 3
        if name in task.sequence_outputs:
            assert value.shape[1] == 6


@pytest.mark.parametrize(
    ("sets_lib", "config", "kind", "expected"),
    [
        (
            classification,
            classification.ClassificationConfig(
                task_name="rte", dropout_prob=0.25
            ),
            ClassificationTask,
            {"num_labels": 3, "dropout_prob": 0.25},
        ),
        (
            race,
            race.RaceConfig(dropout_prob=0.25),
            MultipleChoiceTask,
            {"dropout_prob": 0.25},
        ),
        (squad, squad.SquadConfig(), SpanTask, {}),
        (
            squad,
            squad.SquadConfig(
                version_2_with_negative=True,
                start_n_top=2,
                end_n_top=3,
                dropout_prob=0.25,
            ),
            BeamSpanTask,
            {"start_n_top": 2, "end_n_top": 3, "dropout_prob": 0.25},
        ),
    ],
)
def test_flags_and_labels_decide_the_model_half(
    sets_lib, config, kind, expected
):
    data = types.SimpleNamespace(settings={"labels": ["a", "b", "c"]})

    make_task = sets_lib.make_task(config, types.SimpleNamespace(data=data))
    task = make_task(CONFIG, seed=1, dtype="float32")

    assert type(task) is kind
    for name, value in expected.items():
        assert getattr(task.model, name) == value


@pytest.fixture(params=["classification", "regression", "race", "v1", "v2"])
def data_case(request, words):
    """A data half, two labelled examples, and outputs for their records."""
    kind = request.param
    if kind == "race":
        data = MultipleChoiceData(
            tokenizer=words,
            lengths=ChoiceLengths(max_seq_length=32, max_qa_length=16),
            num_choices=2,
        )
        example = MultipleChoiceExample(
            guid="q1",
            article="Snow is white.",
            question="What is _ ?",
            options=("white", "black"),
            label=0,
        )
        examples = [example, dataclasses.replace(example, guid="q2")]
        return data, examples, {"logits": np.eye(2, dtype=np.float32)}
    if kind in ("v1", "v2"):
        data = SquadData(
            tokenizer=words,
            lengths=WindowLengths(max_seq_length=40, max_query_length=8),
            limits=SpanLimits(),
            version_2_with_negative=kind == "v2",
        )
        example = SquadExample(
            guid="q1",
            question="What?",
            context="Snow is white.",
            answers=(Answer(text="white", start=8),),
        )
        other = dataclasses.replace(example, guid="q2")
        examples = data.questions([example, other])
        zeros = np.zeros([2, 30], np.float32)
        if kind == "v1":
            return data, examples, {"start_logits": zeros, "end_logits": zeros}
        return data, examples, {
            "start_top_log_probs": zeros[:, :2],
            "start_top_index": np.full([2, 2], 9),
            "end_top_log_probs": zeros[:, :2],
            "end_top_index": np.full([2, 2], 9),
            "cls_logits": zeros[:, 0],
        }  # fmt: skip
    labels = ("ham", "spam") if kind == "classification" else ()
    data = ClassificationData(
        name="kind",
        labels=labels,
        score_names=("accuracy",) if labels else ("pearson",),
        tokenizer=words,
        max_seq_length=12,
    )
    examples = [
        ClassificationExample(guid=str(i), text_a="Snow is white.", label=i)
        for i in range(2)
    ]
    logits = np.array([[0.5, 1.0], [3.0, 2.0]], np.float32)
    return data, examples, {"logits": logits[:, : len(labels) or 1]}


@pytest.mark.parametrize("is_training", [True, False])
def test_records_have_the_arrays_of_the_specs(data_case, is_training):
    data, examples, _ = data_case

    records = list(data.records(examples, is_training=is_training))

    assert len(records) == 2
    for record in records:
        assert set(record) == {spec.name for spec in data.array_specs}
        length = record["input_ids"].shape[-1]
        for spec in data.array_specs:
            shape = (*spec.shape, length) if spec.is_sequence else spec.shape
            assert record[spec.name].shape == shape
            assert record[spec.name].dtype == spec.dtype


def test_only_ids_are_padded_with_the_padding_token(data_case):
    data, _, _ = data_case
    special = dataclasses.replace(data.tokenizer.special_ids, pad=7)
    tokenizer = types.SimpleNamespace(special_ids=special)

    specs = dataclasses.replace(data, tokenizer=tokenizer).array_specs

    found = {spec.name: spec.pad_value for spec in specs if spec.is_sequence}
    wanted = PAD_VALUES | {"input_ids": 7}
    # Elsewhere, no answer may begin or end.
    if data.name != "squad_v2":
        del wanted["p_mask"]
    assert found == wanted


def test_settings_are_json_and_name_task_length_and_vocabulary(data_case):
    data, _, _ = data_case

    settings = json.loads(json.dumps(data.settings))

    assert settings["task"] == data.name
    assert settings["tokenizer"] == data.tokenizer.fingerprint
    assert settings["max_seq_length"] > 0
    changes = [{"max_seq_length": 99}, {"labels": ("a", "b")}]
    if hasattr(data, "lengths"):
        lengths = dataclasses.replace(data.lengths, max_seq_length=99)
        changes = [{"lengths": lengths}]
    for change in changes:
        assert dataclasses.replace(data, **change).settings != data.settings


def test_predictions_are_files_and_the_report_has_sections(data_case, tmp_path):
    data, examples, outputs = data_case

    own = data.scores(examples, outputs)
    assert data.primary_metric in own
    assert data.primary_metric in data.baselines(examples)
    assert {type(score.value) for score in own.entries} == {float}
    for scores in (Scores(), own):
        assert write_predictions(data, examples, outputs, tmp_path, scores)
        sections = error_tables.sections(data, examples, outputs, scores)
        for section in sections:
            assert section["title"]


def test_chunks_of_predictions_give_the_files_of_all(data_case, tmp_path):
    data, examples, outputs = data_case
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    write_predictions(data, examples, outputs, whole)

    with data.open_predictions(str(parts), Scores()) as write:
        for own in (slice(0, 1), slice(1, 2)):
            chunk = {name: values[own] for name, values in outputs.items()}
            write(examples[own], chunk)

    for path in whole.iterdir():
        assert (parts / path.name).read_bytes() == path.read_bytes()
