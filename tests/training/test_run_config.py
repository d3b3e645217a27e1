"""Settings of fine-tuning that contradict each other are named at once."""

import dataclasses
import subprocess
import sys

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training import run_config
from albert_tf.training.run_config import (
    ExampleSet,
    FinetuningConfig,
    FinetuningJob,
    PretrainingRun,
    TrainingConfig,
)


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
    ],
)
def test_counts_start_at_one(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1.*=0"):
        TrainingConfig(**{name: 0})


def test_a_seed_has_31_bits():
    TrainingConfig(random_seed=2**31 - 1)
    with pytest.raises(ValueError, match="`random_seed` must be at most 2147"):
        TrainingConfig(random_seed=2**31)


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
    size = run_config.per_replica_batch_size(
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
        run_config.per_replica_batch_size(
            "train_batch_size", batch_size, num_replicas=2, num_parts=3
        )


def make_run(**values):
    defaults = {
        "config": AlbertConfig(vocab_size=9, max_position_embeddings=64),
        "training": TrainingConfig(),
        "optimizer": OptimizerConfig(),
        "output_dir": "run",
        "input_files": "records",
        "max_seq_length": 64,
    }
    return PretrainingRun(**defaults | values)


@pytest.mark.parametrize("objectives", [(), ("mlm", "nsp"), ("sop", "sop")])
def test_objectives_are_known_and_named_once(objectives):
    with pytest.raises(ValueError, match="`objectives` .* mlm, sop, each once"):
        make_run(objectives=objectives)


@pytest.mark.parametrize(
    "name", ["max_seq_length", "max_predictions_per_seq", "max_eval_steps"]
)
def test_lengths_and_evaluation_batches_start_at_one(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1.*=0"):
        make_run(**{name: 0})


def test_a_sequence_is_no_longer_than_the_positions():
    with pytest.raises(
        ValueError, match="not exceed the 64 position .*max_seq_length=65"
    ):
        make_run(max_seq_length=65)


def test_a_run_has_something_to_do():
    with pytest.raises(ValueError, match="nothing to do: pass --input_file"):
        make_run(input_files="")


def test_the_rate_falls_over_the_steps_of_the_run():
    with pytest.raises(ValueError, match="`num_train_steps` .*: 125000 and 9"):
        make_run(
            optimizer=OptimizerConfig(num_train_steps=9, num_warmup_steps=0)
        )


def test_how_to_read_a_checkpoint_needs_a_checkpoint():
    with pytest.raises(
        ValueError, match="`init_checkpoint`, and none is given"
    ):
        make_run(init_from_group0=True)


def test_settings_are_read_without_tensorflow():
    code = (
        "import sys; import albert_tf.training.run_config; "
        "sys.exit('tensorflow' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.fixture
def job(tiny_config, word_data, word_task):
    """A job that does everything."""
    return FinetuningJob(
        config=tiny_config(),
        training=TrainingConfig(num_train_steps=10),
        finetuning=FinetuningConfig(max_seq_length=16),
        optimizer=OptimizerConfig(num_train_steps=10, num_warmup_steps=0),
        data=word_data(),
        make_task=word_task,
        output_dir="run",
        train_set=ExampleSet(examples=()),
        eval_sets=(ExampleSet(examples=()),),
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_seq_length": 0}, "`max_seq_length` must be at least 1"),
        ({"predict_batch_size": 0}, "`predict_batch_size` must be at least 1"),
        ({"num_seeds": 0}, "`num_seeds` must be at least 1"),
        ({"max_restarts": -1}, "`max_restarts` must be at least 0"),
        (
            {"early_stopping_patience": -1},
            "`early_stopping_patience` must be at least 0",
        ),
        (
            {"on_collapse": "cry"},
            "`on_collapse` must be one of restart, ignore",
        ),
        ({"layerwise_lr_decay": 0.0}, "must be above 0 and at most 1"),
        ({"layerwise_lr_decay": 1.1}, r"Received: layerwise_lr_decay=1\.1"),
    ],
)
def test_an_impossible_setting_is_named(values, message):
    with pytest.raises(ValueError, match=message):
        FinetuningConfig(**values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_set": None, "eval_sets": ()}, "There is nothing to do"),
        (
            {"finetuning": FinetuningConfig(max_seq_length=17)},
            "must not exceed the 16 position embeddings",
        ),
        (
            {"config": AlbertConfig(vocab_size=51)},
            r"has 50 tokens, the config has vocab_size=51\. Pass",
        ),
        (
            {"training": TrainingConfig(num_train_steps=11)},
            "`num_train_steps` must be the same .* 11 and 10",
        ),
        (
            {
                "eval_sets": (),
                "finetuning": FinetuningConfig(
                    max_seq_length=16, early_stopping_patience=2
                ),
            },
            "no set to evaluate. .*early_stopping_patience=2",
        ),
        (
            {"eval_sets": (ExampleSet(examples=(), name="b"),)},
            "first evaluation set must have the name ''",
        ),
        (
            {"predict_sets": (ExampleSet(examples=(), name="b"),) * 2},
            "must have different names. Received: 'b', 'b'",
        ),
        (
            {
                "eval_sets": (),
                "finetuning": FinetuningConfig(max_seq_length=16, num_seeds=2),
            },
            "`num_seeds` above 1 needs training and evaluation",
        ),
    ],
)
def test_a_contradiction_is_named(changes, message, job):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(job, **changes)
