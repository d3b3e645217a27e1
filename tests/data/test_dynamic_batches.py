import numpy as np
import pytest

from albert_tf.text.base import SpecialIds
from tests.data.records import (
    CLS,
    SEP,
    assert_slots_are_filled_in_order,
    draw,
    is_masked,
    pair,
    restored,
)


def test_a_pair_is_laid_out_in_order_or_swapped():
    rows = [pair([11, 12, 13, 14, 15], size_a=2)] * 20

    batch = draw(rows, max_seq_length=10, max_predictions_per_seq=3)

    in_order = [CLS, 11, 12, SEP, 13, 14, 15, SEP, 0, 0]
    swapped = [CLS, 13, 14, 15, SEP, 11, 12, SEP, 0, 0]
    segments = {0: [0] * 4 + [1] * 4 + [0] * 2, 1: [0] * 5 + [1] * 3 + [0] * 2}
    labels = batch["sentence_order_labels"]
    assert set(labels.tolist()) == {0, 1}
    for row, label in enumerate(labels):
        expected = swapped if label else in_order
        assert restored(batch)[row].tolist() == expected
        assert batch["segment_ids"][row].tolist() == segments[label]
        assert batch["input_mask"][row].tolist() == [1] * 8 + [0] * 2


_SHORT = {"max_seq_length": 8, "max_predictions_per_seq": 2}


def test_a_single_segment_has_one_separator():
    rows = [pair([11, 12, 13], size_a=3)]

    batch = draw(rows, pair_objective="none", **_SHORT)

    assert restored(batch).tolist() == [[CLS, 11, 12, 13, SEP, 0, 0, 0]]
    assert batch["segment_ids"].tolist() == [[0] * 8]
    assert batch["input_mask"].tolist() == [[1] * 5 + [0] * 3]
    assert batch["sentence_order_labels"].tolist() == [0]


def test_a_vocabulary_may_have_neither_cls_nor_sep():
    special = SpecialIds(pad=0, unk=1, cls=None, sep=None, mask=4)
    # Three words, of which the first is cut.
    rows = [
        pair([11, 12, 13, 14, 15, 16], size_a=6, boundary=[0, 1, 0, 0, 1, 0])
    ]
    rows += [pair([17], size_a=1)]
    settings = _SHORT | {"max_predictions_per_seq": 3, "masked_lm_prob": 0.5}

    batch = draw(
        rows * 50,
        pair_objective="none",
        special_ids=special,
        ngram=1,
        **settings,
    )

    ids = [[11, 12, 13, 14, 15, 16, 0, 0], [17] + [0] * 7]
    assert restored(batch).tolist() == ids * 50
    mask = [[1] * 6 + [0] * 2, [1] + [0] * 7]
    assert batch["input_mask"].tolist() == mask * 50
    assert_slots_are_filled_in_order(batch)
    found = {tuple(np.flatnonzero(row)) for row in is_masked(batch)[::2]}
    # Whole words, as far as three symbols are enough for them.
    assert found <= {(1, 2, 3), (0, 4, 5), (0,), (4, 5)}
    assert len(found) > 1


@pytest.mark.parametrize(
    ("objective", "label"), [("sop", 1), ("nsp", 1), ("nsp", 0)]
)
def test_pairs_without_an_order_keep_their_place_and_label(objective, label):
    rows = [pair([11, 12, 13], size_a=2, label=label)] * 30

    batch = draw(rows, pair_objective=objective, **_SHORT)

    assert set(batch["sentence_order_labels"]) == {label}
    assert restored(batch)[:, 1:3].tolist() == [[11, 12]] * 30
