"""Settings that are invalid or contradict each other are reported at once."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.training import run_config
from albert_tf.training.pretrain_config import PretrainingConfig

ALBERT = AlbertConfig(vocab_size=9, max_position_embeddings=64)


def pretraining(**values):
    defaults = {
        "albert_config": ALBERT,
        "input_file": "records",
        "max_seq_length": 64,
    }
    return PretrainingConfig(**defaults | values)


def finetuning(**values):
    defaults = {"albert_config": ALBERT, "max_seq_length": 64, "do_eval": True}
    return run_config.FinetuningConfig(**defaults | values)


def test_the_defaults_are_those_of_the_paper():
    config = pretraining()

    assert config.train_batch_size == 4096
    assert config.num_train_steps == 125_000
    assert config.objectives == ("mlm", "sop")


@pytest.mark.parametrize(
    ("make", "name", "at_least"),
    [
        (pretraining, "train_batch_size", 1),
        (pretraining, "eval_batch_size", 1),
        (pretraining, "num_train_steps", 1),
        (pretraining, "gradient_accumulation_steps", 1),
        (pretraining, "save_checkpoints_steps", 1),
        (pretraining, "keep_checkpoint_max", 1),
        (pretraining, "log_steps", 1),
        (pretraining, "iterations_per_loop", 0),
        (pretraining, "random_seed", 0),
        (pretraining, "max_seq_length", 1),
        (pretraining, "max_predictions_per_seq", 1),
        (pretraining, "ngram", 1),
        (pretraining, "max_eval_steps", 1),
        (finetuning, "max_seq_length", 1),
        (finetuning, "predict_batch_size", 1),
        (finetuning, "num_seeds", 1),
        (finetuning, "early_stopping_patience", 0),
    ],
)
def test_numbers_have_a_smallest_value(make, name, at_least):
    values = {"num_warmup_steps": 0, name: at_least}
    assert getattr(make(**values), name) == at_least
    with pytest.raises(
        ValueError,
        match=f"`{name}` must be .* at least {at_least}.*={at_least - 1}",
    ):
        make(**values | {name: at_least - 1})


NOTHING_TO_DO = "There is nothing to do. Pass --do_train"


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (pretraining, {"random_seed": 2**31}, "`random_seed` .* at most 2147"),
        (pretraining, {"strategy": "huge"}, "`strategy` must be one of"),
        (pretraining, {"precision": "huge"}, "`precision` .*ion='huge'"),
        (pretraining, {"on_divergence": "cry"}, "`on_divergence` must be one"),
        (
            pretraining,
            {"max_seq_length": 65},
            "not exceed the 64 position .*max_seq_length=65",
        ),
        (pretraining, {"cluster": "huge"}, "`cluster` must be one of"),
        (
            pretraining,
            {"cluster": "tf_config", "strategy": "one"},
            "leave --cluster out. .*strategy='one', cluster='tf_config'",
        ),
        (
            pretraining,
            {"cluster": "slurm", "strategy": "mirrored"},
            "leave --cluster out. .*strategy='mirrored', cluster='slurm'",
        ),
        (
            finetuning,
            {"cluster": "slurm", "tpu_name": "local"},
            "`cluster` names the workers of --strategy=multi_worker",
        ),
        (
            pretraining,
            {"cluster": "mpi"},
            "--cluster=mpi and --worker_hosts belong together",
        ),
        (
            pretraining,
            {"worker_hosts": ("a:2", "b:2")},
            "belong together.*cluster='tf_config', worker_hosts=a:2,b:2",
        ),
        (finetuning, {"do_eval": False}, NOTHING_TO_DO),
        (finetuning, {"max_seq_length": 65}, "not exceed the 64 position"),
        (
            finetuning,
            {"layerwise_lr_decay": 0.0},
            "must be .*above 0 and at most 1",
        ),
        (
            finetuning,
            {"layerwise_lr_decay": 1.1},
            r"Received: layerwise_lr_decay=1\.1",
        ),
    ],
)
def test_an_invalid_setting_is_named(make, values, message):
    with pytest.raises(ValueError, match=message):
        make(**values)


def test_a_seed_has_31_bits():
    assert pretraining(random_seed=2**31 - 1)


@pytest.mark.parametrize(
    ("precision", "policy"),
    [
        ("float32", "float32"),
        ("bfloat16", "mixed_bfloat16"),
        ("float16", "mixed_float16"),
    ],
)
def test_weights_stay_float32_in_every_precision(precision, policy):
    assert pretraining(precision=precision).dtype_policy == policy


def test_each_seed_has_its_own_directory():
    config = finetuning(output_dir="run", num_seeds=2, do_predict=True)

    found = config.seed_configs()

    assert [one.random_seed for one in found] == [12345, 12346]
    assert [one.output_dir for one in found] == [
        f"run/seed-{seed}" for seed in (12345, 12346)
    ]
    assert [(one.num_seeds, one.do_predict) for one in found] == [
        (1, False)
    ] * 2
    assert found[0].seed_configs() == []


@pytest.mark.parametrize(
    ("values", "uses_tpu", "has_remote_hosts"),
    [
        ({}, False, False),
        ({"strategy": "tpu"}, True, False),
        ({"tpu_name": "local"}, True, False),
        ({"tpu_name": "pod", "strategy": "one"}, False, False),
    ],
)
def test_a_tpu_is_named_or_asked_for(values, uses_tpu, has_remote_hosts):
    config = finetuning(**values)

    assert config.uses_tpu == uses_tpu
    assert config.has_remote_hosts == has_remote_hosts


def test_the_hosts_of_a_tpu_with_a_name_are_remote():
    values = {"tpu_name": "pod", "read_order": "files"}

    assert pretraining(**values).has_remote_hosts
    assert not pretraining(**values, strategy="one").has_remote_hosts


def test_fine_tuning_needs_a_tpu_of_its_own_machine():
    with pytest.raises(ValueError, match="leave --tpu_name out.*='pod'"):
        finetuning(tpu_name="pod")
