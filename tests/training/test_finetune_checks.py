"""What is checked before records are made; whole runs are in test_finetune."""

import json
import os

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.training import finetune_checks


def leave(job):
    """Leaves the fingerprint of a job's run in its directory."""
    folder = finetune_checks.folder_of(job.config, job.sets, "made before")
    os.makedirs(folder.path)
    with open(os.path.join(folder.path, "run.json"), "w") as file:
        json.dump(folder.fingerprint, file)


def check(job):
    finetune_checks.check_folder(job.config, job.sets)


def test_a_new_directory_is_not_made(job):
    one = job()

    check(one)

    assert not os.path.exists(one.output_dir)


def test_the_directory_of_the_same_run_is_used_whatever_its_records(job):
    leave(job())

    check(job())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 1e-9}, "learning_rate=0.01"),
        ({"layerwise_lr_decay": 0.5}, r"layerwise_lr_decay=1\.0 \(now 0\.5\)"),
        ({"freeze_embeddings": True}, "freeze_embeddings=False"),
        ({"train": None}, "There are no trained weights in"),
    ],
)
def test_what_does_not_fit_the_directory_is_an_error(changes, message, job):
    leave(job())

    with pytest.raises(ValueError, match=message):
        check(job(**changes))


def test_a_missing_checkpoint_is_an_error_before_records_are_made(job):
    with pytest.raises(FileNotFoundError, match=r"none/model\.ckpt"):
        check(job(init_checkpoint="none/model.ckpt"))


def test_dropout_does_not_matter_for_weights_that_are_only_used(
    job, tiny_config
):
    leave(job())
    used = job(train=None, albert_config=tiny_config(hidden_dropout_prob=0.25))
    wider = used.replace(albert_config=tiny_config(intermediate_size=99))

    with pytest.raises(ValueError, match="There are no trained weights in"):
        check(used)
    with pytest.raises(ValueError, match=r"with config\.intermediate_size"):
        check(wider)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"albert_config": AlbertConfig(vocab_size=51)},
            r"has 50 tokens, but the config has vocab_size=51\. Pass",
        ),
        (
            {"evaluation": (), "early_stopping_patience": 2},
            "no evaluation set. .*early_stopping_patience=2",
        ),
        ({"names": ("b",)}, "first evaluation set must have the name ''"),
        ({"names": ("", "b", "b")}, "different names. Received: '', 'b', 'b'"),
        (
            {"evaluation": (), "num_seeds": 2},
            "`num_seeds` above 1 needs training and evaluation",
        ),
        (
            {"train": None, "num_seeds": 2},
            "`num_seeds` above 1 needs training and evaluation",
        ),
    ],
)
def test_settings_that_do_not_fit_the_examples_are_an_error(
    changes, message, job, example_set
):
    if "names" in changes:
        names = changes["names"]
        changes = {"evaluation": tuple(example_set(2, name=n) for n in names)}
    one = job(**changes)

    with pytest.raises(ValueError, match=message):
        finetune_checks.check_settings(one.config, one.sets)


@pytest.mark.parametrize(
    "name", ["train_batch_size", "eval_batch_size", "predict_batch_size"]
)
def test_batches_must_divide_over_the_replicas(name, job, example_set):
    odd = job(prediction=(example_set(2),), **{name: 7})

    with pytest.raises(
        ValueError, match=rf"`{name}` must be a multiple of .*\(2 x 1\).*=7"
    ):
        finetune_checks.check_batch_sizes(odd.config, odd.sets, 2)
    unused = odd.replace(train=None, evaluation=(), prediction=())
    finetune_checks.check_batch_sizes(unused.config, unused.sets, 2)
