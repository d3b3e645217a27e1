"""Runs that share what is compiled are the runs that they would be alone."""

import os

import numpy as np

from tests.training import runs

SHORT = {"num_train_steps": 4, "save_checkpoints_steps": 2}


def test_seeds_trace_once_and_learn_as_alone(job, tmp_path):
    traced = []

    class Traced(runs.WordTask):
        def loss(self, *args, **options):
            traced.append(self)
            return super().loss(*args, **options)

    settings = SHORT | {
        "make_task": Traced,
        "optimizer": "muon",
        "albert_config": runs.config(dropout=0.1),
    }
    job(num_seeds=2, **settings).run()
    assert len(traced) == 1

    job(output="alone", random_seed=12346, **settings).run()
    shared, alone = (
        runs.arrays_of(os.path.join(tmp_path, folder), step=4)
        for folder in ("run/seed-12346", "alone")
    )
    assert sorted(shared) == sorted(alone)
    for name, values in alone.items():
        np.testing.assert_array_equal(shared[name], values, err_msg=name)
