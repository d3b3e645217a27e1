import dataclasses
import json
import shutil
import threading

import keras
import numpy as np
import pytest

from albert_tf.checkpoints import (
    discovery,
    run_checkpoints,
    tf1,
    train_state,
)
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.optimization import optimizers
from albert_tf.optimization.optimizer_config import OptimizerConfig


class Trained:
    """A model and its optimizer, with random weights and slots.

    The first `num_frozen` weights are not trained.
    """

    def __init__(self, config, folder, *, seed, num_frozen=0, **options):
        self.model = PretrainingModel(config, seed=seed)
        self.trained = self.model.trainable_variables[num_frozen:]
        self.optimizer = optimizers.create_optimizer(OptimizerConfig())
        self.optimizer.build(self.trained)
        rng = np.random.default_rng(seed)
        for variable in self.variables():
            variable.assign(rng.normal(size=variable.shape))
        self.checkpointer = train_state.Checkpointer(
            str(folder),
            model=self.model,
            optimizer=self.optimizer,
            trained=self.trained,
            **{"keep_max": 3} | options,
        )

    def variables(self):
        slots = [s for w in self.trained for s in self.optimizer.slots(w)]
        return self.model.trainable_variables + slots

    def values(self):
        return [keras.ops.convert_to_numpy(v) for v in self.variables()]


def assert_equal(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def make(tiny_config, tmp_path):
    """Makes a model with a checkpointer for the folder `run`."""
    return lambda seed, **options: Trained(
        tiny_config, tmp_path / "run", seed=seed, **options
    )


def names_of(folder):
    return sorted(path.name for path in folder.iterdir())


STATE = {"step": 7, "window": {"loss": 0.1 + 0.2}, "best_score": 0.5}


def test_weights_slots_and_state_come_back_as_they_were(make):
    saved, other = make(1), make(2)
    saved.checkpointer.save(7, STATE)

    state = other.checkpointer.restore(saved.checkpointer.latest())

    assert state == STATE
    assert_equal(other.values(), saved.values())


def test_only_the_newest_are_kept(make, tmp_path):
    checkpointer = make(1, keep_max=2).checkpointer
    assert checkpointer.latest() is None
    for step in (1, 2, 3, 4):
        checkpointer.save(step, STATE)
    checkpointer.wait()

    assert names_of(tmp_path / "run" / "checkpoints") == [
        "step-00000003",
        "step-00000004",
    ]


def test_a_kill_while_an_old_one_is_removed_leaves_no_half_of_it(
    make, tmp_path, monkeypatch
):
    def fail(path):
        raise OSError(path)

    monkeypatch.setattr(shutil, "rmtree", fail)
    checkpointer = make(1, keep_max=1).checkpointer
    checkpointer.save(1, STATE)
    checkpointer.save(2, STATE)
    with pytest.raises(OSError, match=r"step-00000001\.\w+\.partial"):
        checkpointer.wait()

    assert run_checkpoints.steps(tmp_path / "run") == [2]


def test_the_best_has_weights_and_no_slots(make, tmp_path):
    saved = make(1)
    saved.checkpointer.save_best(3, {"step": 3, "accuracy": 0.5})
    saved.checkpointer.save_best(4, {"step": 4, "accuracy": 0.6})
    saved.checkpointer.wait()

    best = tmp_path / "run" / run_checkpoints.BEST_FOLDER

    arrays = tf1.read(best)
    assert len(arrays) == len(saved.model.trainable_variables) + 1
    assert arrays["global_step"] == 4
    assert json.loads((best / "state.json").read_text())["accuracy"] == 0.6
    assert not (best / "metadata.json").exists()


def test_metadata_are_written_with_every_checkpoint(make, tmp_path):
    known = Metadata(task="squad", do_lower_case=True)
    tuned = dataclasses.replace(known, null_threshold=0.5)
    checkpointer = make(1, metadata=known).checkpointer
    checkpointer.save(7, STATE)
    checkpointer.save_best(6, {"f1": 0.4})

    assert Metadata.read(checkpointer.latest()) == known
    assert discovery.open(tmp_path / "run").metadata == known
    checkpointer.save_best(7, {"null_threshold": 0.5})
    checkpointer.save_evaluated(7, STATE, {"null_threshold": 0.5})
    assert discovery.open(tmp_path / "run").metadata == tuned
    assert Metadata.read(checkpointer.latest()) == tuned


def test_a_failure_is_raised_as_soon_as_it_is_known(make, monkeypatch):
    saved = make(1)
    fails = threading.Event()

    def fail(*_):
        assert fails.wait(60)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf1, "write", fail)
    saved.checkpointer.raise_failure()  # nothing was saved
    saved.checkpointer.save(5, STATE)
    saved.checkpointer.raise_failure()  # not known yet
    fails.set()
    saved.checkpointer.close()
    with pytest.raises(OSError, match="No space left"):
        saved.checkpointer.raise_failure()
    saved.checkpointer.raise_failure()  # once


def test_training_goes_on_while_a_checkpoint_is_written(make, monkeypatch):
    saved, other = make(1), make(2)
    before = [np.array(value) for value in saved.values()]
    goes_on, write = threading.Event(), tf1.write

    def write_late(*arguments):
        assert goes_on.wait(60)
        write(*arguments)

    monkeypatch.setattr(tf1, "write", write_late)
    saved.checkpointer.save(5, STATE)
    for variable in saved.variables():
        variable.assign_add(keras.ops.ones_like(variable))
    goes_on.set()

    other.checkpointer.restore(saved.checkpointer.latest())
    assert_equal(other.values(), before)


def test_weights_that_are_not_trained_are_kept_without_slots(make):
    saved = make(0, num_frozen=1)
    frozen = saved.model.trainable_variables[0]
    before = keras.ops.convert_to_numpy(frozen)

    saved.checkpointer.save(1, {})
    frozen.assign(before + 1)
    saved.checkpointer.restore(saved.checkpointer.latest())

    np.testing.assert_array_equal(keras.ops.convert_to_numpy(frozen), before)
    names = tf1.read(saved.checkpointer.latest())
    name = "bert/embeddings/word_embeddings"
    assert frozen.path.endswith("word_embeddings")
    assert name in names
    assert f"{name}/adam_m" not in names
    assert len(names) == 1 + 3 * len(saved.trained) + 1
