import collections
import functools

import pytest

from albert_tf.tasks import held_out as held_out_lib
from albert_tf.tasks.held_out import FileFlags
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.spec import DataRequest

REQUEST = DataRequest(uses=(), tokenizer=None, max_seq_length=8)


class Flags(FileFlags):
    """The files of a task."""

    name = "rows"


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "tsv.gz", "json.gz"])
def test_the_file_of_a_use_is_found_by_its_name(ending, tmp_path):
    for name in (f"dev.{ending}", "train.tsv"):
        (tmp_path / name).touch()
    config = Flags(data_dir=str(tmp_path))

    found = held_out_lib.find(config, REQUEST, "eval")
    assert found == str(tmp_path / f"dev.{ending}")
    found = held_out_lib.find(config, REQUEST, "predict", is_optional=True)
    assert not found


def test_a_use_with_several_files_is_refused(tmp_path):
    for name in ("train.tsv", "train.json"):
        (tmp_path / name).touch()
    config = Flags(data_dir=str(tmp_path))

    with pytest.raises(ValueError, match=r"several files for train: .*n.json"):
        held_out_lib.find(config, REQUEST, "train")


hold_out = functools.partial(
    held_out_lib.hold_out,
    texts=lambda row: [row.text_a, row.text_b],
    label=lambda row: "" if isinstance(row.label, float) else str(row.label),
)


def rows_of(labels):
    return [
        ClassificationExample(guid=str(i), text_a=f"text {i}", label=label)
        for i, label in enumerate(labels)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_share_of_each_class_is_held_out(seed):
    labels = [0] * 51 + [1] * 10 + [(0, 1)] * 15

    rows = rows_of(labels)
    training, validation, _ = hold_out(rows, share=0.2, seed=seed)

    numbers = collections.Counter(one.label for one in validation)
    assert numbers == {0: 10, 1: 2, (0, 1): 3}
    both = sorted([*training, *validation], key=lambda one: int(one.guid))
    assert both == rows
    # Of labels that are too rare for it, some are; of numbers, any.
    for values in ([*range(40)], [i / 8 for i in range(40)]):
        _, found, _ = hold_out(rows_of(values), share=0.1, seed=seed)
        assert len(found) == 4


def test_equal_texts_are_on_one_side_whatever_their_labels():
    rows = [*rows_of([0] * 40), *rows_of([1] * 40), *rows_of([0] * 40)]

    training, validation, _ = hold_out(rows, share=0.3, seed=0)

    sides = [{row.text_a for row in part} for part in (training, validation)]
    assert sides[0] and sides[1] and not sides[0] & sides[1]


def test_a_row_stays_on_its_side_whatever_happens_to_the_table():
    examples = rows_of([0, 0, 0, 1] * 15)
    training, validation, held_out = hold_out(examples, share=0.2, seed=4)

    # Sorted anew, with more rows, other labels, and another copy of some.
    more = [*reversed(rows_of([1, 0, 1] * 25)), *examples[:20], *rows_of([2])]
    later_training, later_validation, _ = hold_out(
        more, share=0.2, seed=4, held_out=held_out
    )

    trained, held, trained_later, held_later = (
        {row.text_a for row in part}
        for part in (training, validation, later_training, later_validation)
    )
    assert trained < trained_later
    assert held == held_later
    # A file with no other rows.
    alone = hold_out(validation, share=0.2, seed=4, held_out=held_out)
    assert alone[1] == validation
    assert hold_out(examples, share=0.2, seed=5)[1] != validation
