"""Settings of fine-tuning that contradict each other are named at once."""

import dataclasses

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training.finetune_options import (
    ExampleSet,
    FinetuningConfig,
    FinetuningJob,
)
from albert_tf.training.options import TrainingConfig


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
            r"has 50 pieces, the config has vocab_size=51\. Pass",
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
