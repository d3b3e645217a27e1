"""Which models are no better than chance, by their outputs."""

import numpy as np
import pytest

from albert_tf.data import bucketed_batches
from albert_tf.features import ArraySpec
from albert_tf.training import chance

N = 1000


def columns(**fields):
    """Records of 100 tokens with these fields, `[N]`."""
    number = len(next(iter(fields.values())))
    specs = [ArraySpec(name="input_ids", dtype="int32", is_sequence=True)]
    for name, values in fields.items():
        kind = "int32" if values.dtype.kind == "i" else "float32"
        shape = values.shape[1:]
        specs.append(ArraySpec(name=name, dtype=kind, shape=shape))
    rows = (
        {"input_ids": np.ones(100)} | {name: v[i] for name, v in fields.items()}
        for i in range(number)
    )
    return bucketed_batches.collect(rows, tuple(specs), max_seq_length=100)


def compare(labels, outputs):
    return chance.compare_with_chance(
        columns(label_ids=labels), {"logits": outputs}
    )


def labels_of(positive, number=N):
    """Labels of which this share is 1."""
    return (np.arange(number) < positive * number).astype(np.int32)


def logits_of(labels, *, signal, shift=0.0):
    """Logits that say 0 for every record if the shift is low enough."""
    noise = np.random.default_rng(0).normal(size=len(labels))
    ones = shift + noise + signal * labels
    return np.stack([np.zeros(len(labels)), ones], axis=-1).astype("float32")


@pytest.mark.parametrize("positive", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("shift", [-9, -4, 0, 6])
def test_a_model_that_ranks_well_is_better_whatever_labels_it_predicts(
    positive, shift
):
    labels = labels_of(positive)

    found = compare(labels, logits_of(labels, signal=2.5, shift=shift))

    assert not found.is_at_chance
    if shift == -9:
        assert found.loss > found.chance_loss


def test_the_loss_below_chance_level_is_enough():
    # One positive of 100: the best ranking of so few may be chance.
    labels = labels_of(0.01, 100)
    assert compare(labels, logits_of(labels, signal=7, shift=-20)).is_at_chance

    found = compare(labels, logits_of(labels, signal=7, shift=-5))

    assert found.loss < 0.7 * found.chance_loss
    assert not found.is_at_chance


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
    logits = np.stack([np.zeros(N), -2.2 + signal * labels], axis=-1)

    assert compare(labels, logits).is_at_chance
    logits[:, 1] += 0.5 * labels
    assert not compare(labels, logits).is_at_chance


def test_one_recognized_label_of_20_is_enough():
    labels = (np.arange(N) % 20).astype(np.int32)
    logits = 3 * np.random.default_rng(0).normal(size=(N, 20))
    assert compare(labels, logits).is_at_chance

    logits[:, 7] += 5 * (labels == 7)

    found = compare(labels, logits)
    assert found.loss > found.chance_loss
    assert not found.is_at_chance


@pytest.mark.parametrize(
    ("mean", "spread"), [(0.00025, 0.0001), (2.5, 1.5), (1e6, 500)]
)
@pytest.mark.parametrize("unit", [1, 100])
def test_numbers_are_compared_by_the_spread_of_the_labels(mean, spread, unit):
    rng = np.random.default_rng(0)
    labels = (mean + spread * rng.normal(size=N)).astype(np.float32)
    errors = spread * rng.normal(size=N)

    good = compare(labels, (labels + errors / 10)[:, None])
    shrunk = compare(labels, (mean + (labels - mean + errors) / 50)[:, None])
    biased = compare(labels, (unit * (labels + errors))[:, None])
    constant = compare(labels, np.full((N, 1), mean))
    unrelated = compare(labels, (mean + errors)[:, None])

    for one in (good, shrunk, biased):
        assert not one.is_at_chance
    assert good.loss < 0.02 * good.chance_loss
    assert constant.is_at_chance
    assert unrelated.is_at_chance
    assert compare(labels, -labels[:, None]).is_at_chance


def test_a_choice_is_compared_as_a_label():
    labels = np.random.default_rng(0).integers(0, 4, N, dtype=np.int32)
    logits = np.random.default_rng(1).normal(size=(N, 4))
    assert compare(labels, logits).is_at_chance

    logits[np.arange(N), labels] += 0.5

    assert not compare(labels, logits).is_at_chance


def test_of_several_labels_one_is_enough():
    labels = np.random.default_rng(0).random((N, 3)) < [0.5, 0.02, 0.1]
    logits = 3 * np.random.default_rng(1).normal(size=(N, 3))
    nothing = compare(labels.astype(np.float32), np.tile([0, -4, -2], (N, 1)))
    assert nothing.is_at_chance
    assert nothing.loss == pytest.approx(nothing.chance_loss, rel=0.01)
    assert compare(labels.astype(np.float32), logits).is_at_chance

    logits[:, 1] += 5 * labels[:, 1]

    assert not compare(labels.astype(np.float32), logits).is_at_chance


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1] * 8, np.log(2)),
        ([0, 0, 0, 1] * 4, -0.75 * np.log(0.75) - 0.25 * np.log(0.25)),
        ([0.0, 2.0, 4.0] * 6, 8 / 3),
    ],
)
def test_the_loss_at_chance_level_is_that_of_the_label_frequencies(
    labels, expected
):
    width = 1 if isinstance(labels[0], float) else 2

    found = compare(np.array(labels), np.zeros((len(labels), width)))

    assert found.chance_loss == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "outputs"),
    [
        (labels_of(0.5, 15), {"logits": np.zeros((15, 2))}),
        (labels_of(0.0), {"logits": np.zeros((N, 2))}),
        (np.zeros(N, np.float32), {"logits": np.zeros((N, 1))}),
        (labels_of(0.5), {"something": np.zeros(N)}),
    ],
)
def test_small_sets_and_sets_of_one_label_are_not_compared(labels, outputs):
    assert (
        chance.compare_with_chance(columns(label_ids=labels), outputs) is None
    )


def test_records_without_labels_are_not_compared():
    # The windows of an evaluation: the answers of its questions are no part.
    windows = columns(start_positions=np.zeros(N, np.int32))

    assert (
        chance.compare_with_chance(windows, {"start_logits": [np.zeros(9)] * N})
        is None
    )
    assert chance.compare_with_chance(columns(other=labels_of(0.5)), {}) is None


def test_a_model_at_chance_is_described():
    assert str(compare(labels_of(0.5), np.zeros((N, 2)))) == (
        "the loss is 0.6931 (0.6931 at chance level), and the ranking of 1000 "
        "records is no better than by chance"
    )


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
    ("rightness", "is_at_chance"), [(0, True), (4, False), (30, False)]
)
def test_spans_are_compared_by_where_they_start(
    rightness, is_at_chance, starts
):
    windows = columns(start_positions=starts)
    logits = span_logits(starts, rightness=rightness)

    found = chance.compare_with_chance(windows, {"start_logits": logits})

    assert found.is_at_chance == is_at_chance


@pytest.mark.parametrize("position", [0, 25, 99])
def test_the_same_span_everywhere_is_at_chance(position, starts):
    constant = span_logits(np.full(N, position), rightness=30)

    found = chance.compare_with_chance(
        columns(start_positions=starts), {"start_logits": constant}
    )

    assert found.is_at_chance


@pytest.mark.parametrize(
    ("found_starts", "null_signal", "is_at_chance"),
    [("none", 0, True), ("none", 1, False), ("right", 0, False)],
)
def test_of_a_beam_search_starts_or_answerability_must_be_right(
    found_starts, null_signal, is_at_chance, starts
):
    top = np.zeros((N, 2), np.int32)
    top[:, 0] = starts if found_starts == "right" else 0
    top[:, 1] = 25
    noise = np.random.default_rng(2).normal(size=N)

    found = chance.compare_with_chance(
        columns(start_positions=starts),
        {
            "start_top_index": top,
            "start_top_log_probs": np.log(np.tile([0.5, 0.2], (N, 1))),
            "cls_logits": noise + null_signal * (starts == 0),
        },
    )

    assert found.is_at_chance == is_at_chance
