import dataclasses

import pytest

from albert_tf.tasks import head_flags
from albert_tf.tasks.head_flags import HeadFlags
from tests import tiny


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"exit_patience": -1}, "`exit_patience` must be .*at least 0"),
        ({"dropout_prob": 1.0}, "`dropout_prob` must be"),
    ],
)
def test_a_flag_that_is_impossible_is_named(values, words):
    with pytest.raises(ValueError, match=words):
        HeadFlags(**values)


@pytest.mark.parametrize(
    ("num_layers", "inner_group_num", "patience", "is_possible"),
    [
        (1, 1, 0, True),
        (4, 1, 3, True),
        (4, 1, 4, False),
        (2, 2, 3, True),
        (2, 2, 4, False),
    ],
)
def test_patience_is_smaller_than_the_number_of_layers(
    num_layers, inner_group_num, patience, is_possible
):
    config = dataclasses.replace(
        tiny.config(),
        num_hidden_layers=num_layers,
        inner_group_num=inner_group_num,
    )

    if is_possible:
        head_flags.check_patience(patience, config)
    else:
        with pytest.raises(
            ValueError, match="must be smaller than the number.*4 layers"
        ):
            head_flags.check_patience(patience, config)


def test_a_tpu_cannot_drop_examples():
    config = tiny.config(num_hidden_layers=3)

    with pytest.raises(ValueError, match="which a TPU does not have"):
        head_flags.check_patience(1, config, on_tpu=True)
    head_flags.check_patience(0, config, on_tpu=True)


def test_labels_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="regression and multi-label"):
        head_flags.check_single_label(2, has_one_label=False)
    head_flags.check_single_label(0, has_one_label=False)
