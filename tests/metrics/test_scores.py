"""What each number is: labels with any name, seeds, which score is better."""

import json
import math
import pickle

import numpy as np
import pytest

from albert_tf.metrics import scores as scores_lib
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.training import several_runs

# Labels whose scores have the names of other things.
LABELS = ("baseline", "loss", "threshold", "a_baseline", "a", "a_std")


def scores_of(f1, **fields):
    """Scores with this F1, and a loss that is worse the better it is."""
    own = [Score.of_label("f1", label, f1) for label in LABELS]
    return Scores(
        entries=(
            Score("f1", f1),
            *own,
            Score.threshold("a", f1 / 2),
            Score("loss", f1 + 1, Role.LOSS),
            Score.baseline("f1", 0.3),
        ),
        **fields,
    )


def test_of_seeds_labels_of_any_name_have_medians():
    by_seed = {
        seed: scores_of(f1, step=10 * seed)
        for seed, f1 in ((5, 0.9), (6, 0.1), (7, 0.2))
    }

    medians = scores_lib.medians(by_seed, best=5, num_failed=2)

    found = medians.flat()
    for ending in ("", *(f"_of_{label}" for label in LABELS)):
        assert found[f"f1{ending}"] == 0.2
        assert found[f"f1_std{ending}"] == pytest.approx(0.43589, rel=1e-4)
        assert found[f"f1_best{ending}"] == 0.9
    assert found["loss"] == medians.loss == 1.2
    # Of the best weights, of which it is a part.
    assert found["threshold_of_a"] == 0.45
    assert found["f1_baseline"] == 0.3
    names = ("num_seeds", "num_failed_seeds", "best_seed", "global_step")
    assert [found[name] for name in names] == [3, 2, 5, 50]
    assert len(found) == 3 * 8 + 2 + 4


def test_a_score_that_a_seed_lacks_has_no_median():
    by_seed = {5: scores_of(0.9), 6: Scores(entries=(Score("f1", 0.1),))}

    assert "loss" not in scores_lib.medians(by_seed, best=5)


def test_labels_of_any_name_are_neither_losses_nor_baselines_nor_thresholds():
    found = scores_of(0.9)

    assert found.loss == 1.9
    assert found.rank("f1_of_loss") == found.rank("f1_of_a_std") == 0.9
    assert found.rank("loss") == -1.9
    assert found.baselines == {"f1": 0.3}
    assert found.thresholds == {"a": 0.45}
    assert {*found.shown()} == {"f1", "loss"}
    assert found.verdict() is None
    assert Scores().loss == math.inf


def test_of_equal_seeds_that_with_the_lower_loss_is_the_best():
    def one(f1, *losses):
        rows = (Score("loss", loss, Role.LOSS) for loss in losses)
        return Scores(entries=(Score("f1", f1), *rows))

    by_seed = {5: one(0.9), 6: one(0.9, 0.5), 7: one(0.9, 0.4), 8: one(0, 0.1)}

    assert several_runs.best_key(by_seed, "f1") == 7
    assert several_runs.best_key(by_seed, "loss") == 8


@pytest.mark.parametrize(
    ("role", "value", "rank"),
    [
        (Role.SCORE, 0.5, 0.5),
        (Role.OF_LABEL, 0.5, 0.5),
        (Role.ERROR, 0.5, -0.5),
        (Role.LOSS, 0.5, -0.5),
        (Role.LOSS, math.nan, -math.inf),
        (Role.SCORE, math.nan, -math.inf),
    ],
)
def test_what_is_better_depends_on_what_it_is(role, value, rank):
    found = Scores(entries=(Score("x", value, role),))

    assert found.rank("x") == rank
    assert found.rank("y") == -math.inf


def test_an_unknown_score_is_named():
    with pytest.raises(ValueError, match="no score 'auc' .* one of f1"):
        Scores(entries=(Score("f1", 0.5),)).check_known("auc")


def with_baseline(baseline, score, **fields):
    """A score and its baseline."""
    entries = (score, Score.baseline(score.key, baseline))
    return Scores(entries=entries, **fields)


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        (with_baseline(0.4, Score("f1", 0.5)), False),
        (with_baseline(0.4, Score("f1", 0.4)), True),
        (with_baseline(0.4, Score("f1", float("nan"))), True),
        (Scores(entries=(Score("f1", 0.4),)), False),
        (with_baseline(0.4, Score("f1", 0.5), is_degenerate=True), True),
        (with_baseline(2.0, Score("error", 1.5, Role.ERROR)), False),
        (with_baseline(2.0, Score("error", 2.5, Role.ERROR)), True),
    ],
)
def test_a_score_is_compared_with_its_baseline(scores, says):
    assert bool(scores.verdict()) == says


def test_scores_are_a_mapping_of_floats_as_json_has_them():
    scores = Scores(entries=[Score("f1", np.float32(0.5)), Score("n", 2)])

    assert scores == {"f1": 0.5, "n": 2.0} == pickle.loads(pickle.dumps(scores))
    assert json.dumps(dict(scores)) == '{"f1": 0.5, "n": 2.0}'


def test_two_scores_of_one_key_are_an_error():
    scores = Scores(entries=(Score("f1", 0.5),))

    with pytest.raises(ValueError, match="different keys. Received twice: f1"):
        scores.with_entries([Score("f1", 0.9)])
