"""The summary of several seeds; whole runs are in test_finetune."""

import pytest

from albert_tf.training import seeds


def test_each_seed_has_its_own_directory(job):
    config = job(num_seeds=2).config

    found = seeds.configs(config)

    assert [one.random_seed for one in found] == [12345, 12346]
    assert [one.output_dir for one in found] == [
        f"{config.output_dir}/seed-{seed}" for seed in (12345, 12346)
    ]
    assert all(one.num_seeds == 1 for one in found)
    assert seeds.configs(found[0]) == []


def test_a_summary_has_median_spread_and_best_of_each_score():
    scores = {
        5: {"f1": 0.9, "accuracy": 0.5, "global_step": 10},
        6: {"f1": 0.1, "accuracy": 0.7, "global_step": 20},
        7: {"f1": 0.2, "accuracy": 0.6, "global_step": 30},
    }

    assert seeds.summary(scores, best=6, num_failed=2) == {
        "f1": 0.2,
        "f1_std": pytest.approx(0.43589, rel=1e-4),
        "f1_best": 0.1,
        "accuracy": 0.6,
        "accuracy_std": pytest.approx(0.1),
        "accuracy_best": 0.7,
        "num_seeds": 3,
        "num_failed_seeds": 2,
        "best_seed": 6,
        "global_step": 20,
    }


def test_one_seed_has_no_spread():
    assert seeds.summary({5: {"f1": 0.9, "global_step": 1}}, 5)["f1_std"] == 0


def test_a_seed_without_weights_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="Seed 5 in .* has no weights"):
        seeds.copy_best_weights(str(tmp_path), 5)
