import collections

import pytest

from albert_tf.tasks.classification import validation_split
from albert_tf.tasks.classification.examples import ClassificationExample


def rows(labels):
    return [
        ClassificationExample(guid=str(i), text_a=f"text {i}", label=label)
        for i, label in enumerate(labels)
    ]


def counts(examples):
    return dict(collections.Counter(one.label for one in examples))


@pytest.mark.parametrize("seed", range(5))
def test_each_class_gives_its_share(seed):
    examples = rows([0] * 700 + [1] * 250 + [2] * 49 + [3])

    training, validation = validation_split.split(
        examples, share=0.1, seed=seed
    )

    found = counts(validation)
    # The only row of a class stays with those to train on.
    assert counts(training)[3] == 1
    assert 3 not in found
    for label, wanted in ((0, 70), (1, 25), (2, 4.9)):
        assert abs(found[label] - wanted) <= 1
    assert len(validation) in (100, 101)
    both = sorted([*training, *validation], key=lambda one: int(one.guid))
    assert both == examples


def test_the_parts_follow_from_the_seed_and_keep_the_order():
    examples = rows([0, 1] * 30)

    first, again, other = (
        validation_split.split(examples, share=0.2, seed=seed)
        for seed in (4, 4, 5)
    )

    assert first == again
    assert first != other
    for part in first:
        guids = [int(one.guid) for one in part]
        assert guids == sorted(guids)


def test_numbers_are_held_out_from_all_over_their_range():
    _, validation = validation_split.split(
        rows([float(i * i) for i in range(100)]), share=0.1, seed=1
    )

    roots = sorted(one.label**0.5 for one in validation)
    steps = [b - a for a, b in zip(roots, roots[1:], strict=False)]
    assert len(roots) in (10, 11)
    assert set(steps) <= {9.0, 10.0, 11.0}


def test_rows_of_several_labels_are_divided():
    training, validation = validation_split.split(
        rows([(0,), (0, 2), (), (1, 2)] * 10), share=0.25, seed=1
    )

    assert (len(training), len(validation)) == (30, 10)
    assert all(number in (2, 3) for number in counts(validation).values())


def test_texts_on_both_sides_are_reported(caplog):
    examples = [
        ClassificationExample(guid=str(i), text_a=f"text {i % 5}", label=0)
        for i in range(20)
    ]

    validation_split.warn_of_repetitions(examples[:3], examples[3:])

    # Those of text 0, 1 and 2.
    assert "9 of the 17 rows to evaluate have texts that are" in caplog.text
    caplog.clear()
    validation_split.warn_of_repetitions(examples[:3], examples[3:5])
    assert not caplog.records
