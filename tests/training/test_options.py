import dataclasses
import subprocess
import sys

import pytest

from albert_tf.training import options
from albert_tf.training.options import TrainingConfig


def test_the_defaults_are_those_of_the_paper():
    config = TrainingConfig()

    assert config.train_batch_size == 4096
    assert config.num_train_steps == 125_000


@pytest.mark.parametrize(
    "name",
    [
        "train_batch_size",
        "eval_batch_size",
        "num_train_steps",
        "gradient_accumulation_steps",
        "save_checkpoints_steps",
        "keep_checkpoint_max",
        "log_steps",
        "max_eval_steps",
    ],
)
def test_counts_start_at_one(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1.*=0"):
        TrainingConfig(**{name: 0})


@pytest.mark.parametrize("name", ["steps_per_loop", "random_seed"])
def test_what_may_be_zero_may_not_be_less(name):
    TrainingConfig(**{name: 0})
    with pytest.raises(ValueError, match=f"`{name}` must be at least 0.*=-1"):
        TrainingConfig(**{name: -1})


@pytest.mark.parametrize("name", ["strategy", "precision", "on_divergence"])
def test_a_choice_that_does_not_exist_is_refused(name):
    with pytest.raises(
        ValueError, match=f"`{name}` must be one of .*{name}='huge'"
    ):
        TrainingConfig(**{name: "huge"})


def test_settings_cannot_be_changed_later():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainingConfig().log_steps = 7


@pytest.mark.parametrize(
    ("precision", "policy"),
    [
        ("float32", "float32"),
        ("bfloat16", "mixed_bfloat16"),
        ("float16", "mixed_float16"),
    ],
)
def test_weights_stay_float32_in_every_precision(precision, policy):
    assert TrainingConfig(precision=precision).dtype_policy == policy


def test_a_batch_is_divided_over_replicas_and_parts():
    size = options.per_replica_batch_size(
        "train_batch_size", 24, num_replicas=2, num_parts=3
    )

    assert size == 4


@pytest.mark.parametrize("batch_size", [25, 3, 0])
def test_a_batch_that_cannot_be_divided_evenly_is_refused(batch_size):
    with pytest.raises(
        ValueError,
        match=r"`train_batch_size` must be a multiple of replicas times "
        rf"accumulation steps \(2 x 3\).*train_batch_size={batch_size}",
    ):
        options.per_replica_batch_size(
            "train_batch_size", batch_size, num_replicas=2, num_parts=3
        )


def test_settings_are_read_without_tensorflow():
    code = (
        "import sys; import albert_tf.training.options; "
        "sys.exit('tensorflow' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
