"""Which runs count as degenerate."""

import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import collapse, metric_log
from tests.training import runs

STEPS = 100


def lines(losses, flags=(), interval=5):
    """A log: a loss every `interval` steps, evaluations at the same steps."""
    found = []
    for number, loss in enumerate(losses, start=1):
        found.append({"step": number * interval, "loss": loss})
        if number <= len(flags) and flags[number - 1] is not None:
            flag = {"eval_constant_predictions": flags[number - 1]}
            found.append({"step": number * interval, **flag})
    return found


def problem(log, num_train_steps=STEPS, num_warmup_steps=10, chance=0.6931):
    return collapse.problem(
        log,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_warmup_steps,
        chance=chance,
    )


def test_a_loss_at_chance_level_is_a_problem_from_half_way():
    stuck = [1.5, 1.2, *[0.695] * 18]

    assert problem(lines(stuck[:9])) is None
    assert problem(lines(stuck[:10])) == (
        "the loss is 0.695, and that at chance level is 0.6931"
    )


@pytest.mark.parametrize("interval", [50, 93, 100])
def test_the_first_line_alone_does_not_say_where_the_loss_is(interval):
    # It is the mean from the start on: here of a loss that falls to nothing.
    first = lines([2.8], interval=interval)

    assert problem(first, num_train_steps=93, chance=2.7) is None
    more = [*first, {"step": interval + 50, "loss": 2.8}]
    assert problem(more, num_train_steps=93, chance=2.7)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([], id="no_log"),
        pytest.param(lines(np.linspace(0.7, 0.6, 20)), id="falling"),
        pytest.param(
            lines([0.7, 0.7, *[None] * 3, *[0.5] * 10]), id="not_finite"
        ),
        pytest.param(lines([0.6] * 20), id="knows_the_task_already"),
    ],
)
def test_other_runs_have_no_problem(log):
    assert problem(log) is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 0, 1], np.log(2)),
        ([3, 3, 3, 3], 0),
        ([0, 0, 0, 1], -0.75 * np.log(0.75) - 0.25 * np.log(0.25)),
        ([0.0, 2.0, 4.0], 8 / 3),
    ],
)
def test_labels_alone_give_their_entropy_or_their_variance(labels, expected):
    assert collapse.chance_loss(np.array(labels)) == pytest.approx(expected)


def test_three_constant_evaluations_in_a_row_are_a_problem():
    losses = [0.7, 0.7, *[0.68] * 18]
    constant = "3 evaluations in a row predicted the same for all records"

    assert problem(lines(losses[:4], [1] * 4)) is None  # a fifth of the run
    assert problem(lines(losses[:5], [1] * 5)) == constant
    assert problem(lines(losses[:5], [1, 1, 1, 0, 1])) is None
    assert problem(lines(losses[:5], [None, None, None, 1, 1])) is None
    assert problem(lines([0.7, 0.7, 0.6, 0.5, 0.5], [1] * 5)) is None


def test_a_run_is_not_judged_before_its_warm_up_has_ended():
    log = lines([0.7] * 15, [1] * 15)

    assert problem(log, num_warmup_steps=70) is None
    assert problem(log, num_warmup_steps=60)


@pytest.mark.parametrize(("num_steps", "is_judged"), [(49, False), (50, True)])
def test_short_runs_are_not_judged(num_steps, is_judged):
    log = lines([0.7] * 9)

    assert bool(problem(log, num_train_steps=num_steps)) == is_judged


ZEROS = np.zeros((4, 3), np.float32)
VARIED = np.eye(4, 3, dtype=np.float32)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"logits": ZEROS + [0, 1, 0]}, True),
        ({"logits": VARIED}, False),
        ({"logits": np.array([[2.0], [2.001]])}, True),
        ({"logits": np.array([[2.0], [2.01]])}, False),
        ({"cls_logits": np.array([0.1, 0.9])}, False),
        ({"index": np.array([[3, 1], [3, 2]])}, True),
        ({"index": np.array([[3, 1], [2, 1]])}, False),
        ({"start": [np.array([0, 1]), np.array([0, 1, 0])]}, True),
        ({"start": [np.array([0, 1]), np.array([1, 0, 0])]}, False),
        ({"logits": ZEROS, "index": np.array([[3], [2]])}, False),
        ({"none": np.zeros((4, 0))}, True),
    ],
)
def test_outputs_are_constant_if_all_of_them_are(outputs, expected):
    assert collapse.are_constant(outputs) == expected


def predictions(num_records, num_others):
    logits = np.zeros((num_records, 2), np.float32)
    logits[:num_others, 1] = 1
    return {"logits": logits}


@pytest.mark.parametrize(
    ("num_others", "num_labels", "expected"),
    [(6, 131, True), (7, 131, False), (1, 20, True), (1, 19, False)],
)
def test_a_handful_of_other_predictions_is_none(
    num_others, num_labels, expected
):
    labels = np.arange(277) < num_labels
    outputs = predictions(277, num_others)

    assert collapse.are_constant(outputs, labels.astype(int)) == expected
    assert not collapse.are_constant(outputs)


def test_numbers_that_hardly_differ_beside_the_true_ones_are_constant():
    labels = np.linspace(0, 5, 20, dtype=np.float32)
    outputs = {"logits": (2 + 0.04 * labels)[:, None]}

    assert collapse.are_constant(outputs, labels)
    assert not collapse.are_constant(outputs, labels / 2)
    assert not collapse.are_constant(outputs)


def test_labels_say_nothing_of_other_outputs():
    several = predictions(40, 1) | {"start": np.arange(40)[:, None]}
    ragged = {"start": [np.array([1, 0])] * 39 + [np.array([0, 1])]}

    assert not collapse.are_constant(several, np.arange(40) % 2)
    assert not collapse.are_constant(ragged, np.arange(40) % 2)
    assert not collapse.are_constant(predictions(40, 1), np.arange(80) % 2)


@pytest.mark.parametrize(
    ("step", "settings", "is_last_attempt", "is_ended"),
    [
        (50, {}, False, True),
        (50, {}, True, False),
        (100, {}, True, True),
        (50, {"start_warmup_step": 20, "num_warmup_steps": 30}, False, False),
    ],
)
def test_a_degenerate_run_is_ended_but_the_last_attempt_goes_on(
    step, settings, is_last_attempt, is_ended, tmp_path
):
    config = runs.run_config(
        num_train_steps=STEPS, output_dir=str(tmp_path), **settings
    )
    log = lines([0.7] * (step // 5))
    (tmp_path / metric_log.FILE_NAME).write_text(
        "".join(f"{json.dumps(line)}\n" for line in log)
    )
    ended = pytest.raises(collapse.RunCollapsed, match=f"At step {step}, the l")

    with ended if is_ended else contextlib.nullcontext():
        collapse.check(
            step,
            config=config,
            strategy=tf.distribute.get_strategy(),
            chance=0.6931,
            is_last_attempt=is_last_attempt,
        )
