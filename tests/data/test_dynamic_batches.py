import pytest

from tests.data.records import CLS, SEP, draw, pair, restored


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


@pytest.mark.parametrize(
    ("objective", "label"), [("sop", 1), ("nsp", 1), ("nsp", 0)]
)
def test_pairs_without_an_order_keep_their_place_and_label(objective, label):
    rows = [pair([11, 12, 13], size_a=2, label=label)] * 30

    batch = draw(rows, pair_objective=objective, **_SHORT)

    assert set(batch["sentence_order_labels"]) == {label}
    assert restored(batch)[:, 1:3].tolist() == [[11, 12]] * 30
