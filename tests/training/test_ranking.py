"""Which of two scores is better, by its name."""

import pytest

from albert_tf.training import ranking


@pytest.mark.parametrize(
    ("metric", "is_lower_better"),
    [
        ("loss", True),
        ("masked_lm_loss", True),
        ("mean_squared_error_other", True),
        ("f1_of_loss", False),
        ("average_precision_of_net_loss", False),
        ("f1_of_loss_of_life", False),
    ],
)
def test_a_label_named_loss_is_not_a_loss(metric, is_lower_better):
    best = max((0.1, 0.9), key=lambda score: ranking.rank(metric, score))

    assert best == (0.1 if is_lower_better else 0.9)
    assert ranking.loss_of({"loss": 2.0, "f1_of_loss": 0.5}) == 2.0
