"""The summary of several seeds; whole runs are in test_finetune."""

import dataclasses
import json
import os

import pytest

from albert_tf.training import finetune_folder, seeds
from albert_tf.training.run_config import FinetuningConfig


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
    with pytest.raises(ValueError, match="no trained weights in .*seed-5"):
        seeds._copy_weights(str(tmp_path / "seed-5"), str(tmp_path / "best"))


def test_seeds_with_other_settings_are_refused_before_anything_is_written(
    untrained_job,
):
    several = dataclasses.replace(
        untrained_job,
        finetuning=FinetuningConfig(max_seq_length=16, num_seeds=2),
    )
    seed = dataclasses.replace(
        several,
        output_dir=seeds.seed_folder(several.output_dir, 12346),
        training=dataclasses.replace(several.training, random_seed=12346),
    )
    os.makedirs(seed.output_dir)
    for folder, identity in (
        (several.output_dir, seeds.run_identity(several)),
        (seed.output_dir, finetune_folder.run_identity(seed, "made before")),
    ):
        with open(os.path.join(folder, "run.json"), "w") as file:
            json.dump(identity, file)

    slower = dataclasses.replace(several.optimizer, learning_rate=1e-9)
    seeds.check_folder(several)
    with pytest.raises(ValueError, match="seed-12346.*learning_rate"):
        seeds.check_folder(dataclasses.replace(several, optimizer=slower))
