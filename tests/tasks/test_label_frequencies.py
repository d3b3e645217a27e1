"""Which models are no better than chance, by their outputs."""

import numpy as np
import pytest

from albert_tf.tasks import label_frequencies

N = 1000
LENGTHS = np.full(N, 100)


def compare(labels, outputs, **options):
    return label_frequencies.compare_labels(labels, outputs, **options)


def labels_of(positive, number=N):
    """Labels of which this share is 1."""
    return (np.arange(number) < positive * number).astype(np.int32)


def logits_of(labels, *, signal, shift):
    """Logits of two labels: a logit is `shift`, and `signal` more for a 1."""
    ones = shift + signal * labels
    return np.stack([np.zeros(len(labels)), ones], axis=-1).astype("float32")


@pytest.mark.parametrize("positive", [0.01, 0.1, 0.5])
def test_a_model_that_knows_some_labels_is_better_than_chance(positive):
    labels = labels_of(positive)
    # It calls no record positive, and is right about how rare they are.
    shift = np.log(positive / (1 - positive)) - 1

    assert not compare(
        labels, logits_of(labels, signal=2, shift=shift)
    ).is_at_chance


@pytest.mark.parametrize("positive", [0.01, 0.5])
@pytest.mark.parametrize(
    "logits",
    [
        np.zeros((N, 2)),
        np.tile([0.0, -4.6], (N, 1)),
        np.tile([9.0, -9.0], (N, 1)),
        np.full((N, 2), np.nan),
        np.random.default_rng(1).normal(size=(N, 2)),
        30 * np.random.default_rng(2).normal(size=(N, 2)),
    ],
)
def test_outputs_that_do_not_depend_on_the_labels_are_at_chance(
    positive, logits
):
    assert compare(labels_of(positive), logits).is_at_chance


@pytest.mark.parametrize("signal", [1e-6, 0.02])
def test_a_ranking_by_nearly_the_same_probabilities_is_at_chance(signal):
    labels = labels_of(0.1)

    assert compare(
        labels, logits_of(labels, signal=signal, shift=-2.2)
    ).is_at_chance


def test_class_weights_make_other_frequencies_those_of_chance():
    # Half of the weight is on 5% of the records, so that a model that knows
    # something predicts them too often.
    labels = labels_of(0.05)
    logits = logits_of(labels, signal=2, shift=-1)
    balanced = {"class_weights": (1 / 1.9, 10)}

    assert compare(labels, logits).is_at_chance
    found = compare(labels, logits, **balanced)
    assert not found.is_at_chance
    assert found.chance_loss == pytest.approx(np.log(2))
    # The loss is that of the log.
    assert found.loss == compare(labels, logits).loss
    constant = logits_of(labels, signal=0, shift=0)
    assert compare(labels, constant, **balanced).is_at_chance


@pytest.mark.parametrize(
    ("mean", "spread"), [(0.00025, 0.0001), (2.5, 1.5), (1e6, 500)]
)
def test_numbers_are_compared_by_the_spread_of_the_labels(mean, spread):
    rng = np.random.default_rng(0)
    labels = (mean + spread * rng.normal(size=N)).astype(np.float32)
    errors = spread * rng.normal(size=N)

    good = compare(labels, (labels + errors / 10)[:, None])
    constant = compare(labels, np.full((N, 1), mean))
    unrelated = compare(labels, (mean + errors)[:, None])

    assert good.loss < 0.02 * good.chance_loss
    assert [one.is_at_chance for one in (good, constant, unrelated)] == [
        False,
        True,
        True,
    ]


def test_of_several_labels_one_is_enough():
    labels = np.random.default_rng(0).random((N, 3)) < [0.5, 0.02, 0.1]
    logits = np.tile([0.0, -4, -2], (N, 1))
    nothing = compare(labels.astype(np.float32), logits)
    assert nothing.is_at_chance
    assert nothing.loss == pytest.approx(nothing.chance_loss, rel=0.01)

    logits[:, 2] += 3 * labels[:, 2]

    assert not compare(labels.astype(np.float32), logits).is_at_chance


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1] * 8, np.log(2)),
        ([0, 0, 0, 1] * 4, -0.75 * np.log(0.75) - 0.25 * np.log(0.25)),
        ([0.0, 2.0, 4.0] * 6, 8 / 3),
        ([0] * 20, 0),
        ([0.0] * 20, 0),
    ],
)
def test_the_loss_at_chance_level_is_that_of_the_label_frequencies(
    labels, expected
):
    width = 1 if isinstance(labels[0], float) else 2

    found = compare(np.array(labels), np.zeros((len(labels), width)))

    assert found.chance_loss == pytest.approx(expected)


@pytest.fixture
def starts():
    """Where the answers of half of the windows start; 0 for the others."""
    rng = np.random.default_rng(0)
    found = rng.integers(20, 99, N, dtype=np.int32)
    return np.where(np.arange(N) % 2, found, 0).astype(np.int32)


def span_logits(starts, *, rightness):
    logits = np.random.default_rng(1).normal(size=(len(starts), 100))
    logits[np.arange(len(starts)), starts] += rightness
    return list(logits)


@pytest.mark.parametrize(
    ("position", "rightness", "is_at_chance"),
    [
        ("right", 0, True),
        ("right", 4, False),
        ("right", 30, False),
        # The same everywhere.
        (0, 30, True),
        (25, 30, True),
    ],
)
def test_spans_are_compared_by_where_they_start(
    position, rightness, is_at_chance, starts
):
    wanted = starts if position == "right" else np.full(N, position)

    found = label_frequencies.compare_starts(
        starts,
        LENGTHS,
        {"start_logits": span_logits(wanted, rightness=rightness)},
    )

    assert found.is_at_chance == is_at_chance


@pytest.mark.parametrize("is_right", [False, True])
def test_the_starts_of_a_beam_search_must_be_right(is_right, starts):
    top = np.zeros((N, 2), np.int32)
    top[:, 0] = starts if is_right else 0
    top[:, 1] = 25

    found = label_frequencies.compare_starts(
        starts,
        LENGTHS,
        {
            "start_top_index": top,
            "start_top_log_probs": np.log(np.tile([0.5, 0.2], (N, 1))),
        },
    )

    assert found.is_at_chance != is_right
