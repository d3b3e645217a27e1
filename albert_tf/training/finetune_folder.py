"""The folder of a fine-tuning run: whose it is, the weights it starts from.

Floor: training.
"""

import dataclasses
from typing import Any

from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.training import run_folder
from albert_tf.training.run_config import FinetuningJob

_RECORDS = "records"
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def check_folder(job: FinetuningJob) -> None:
    """Checks that the folder of a run is its own, but for its records.

    These take their time, and would be stored in the folder of another run.

    Raises:
        FileNotFoundError: There is no checkpoint to start from.
        ValueError: It is damaged, or of a format that is not read; or see
            `run_folder.check`; or nothing is trained, and there are no
            weights to use.
    """
    if not job.train_set:
        identity = model_identity(job)
        config = identity["config"].items()
        # What is dropped in training does not matter any more.
        lasting = {k: v for k, v in config if k not in _DROPOUTS}
        run_folder.check_use(job.output_dir, identity | {"config": lasting})
        _check_labels(job, weights_to_use(job))
        return
    kept = run_folder.read_identity(job.output_dir).get(_RECORDS)
    run_folder.check(job.output_dir, run_identity(job, kept))
    _check_start(job)


def _check_start(job: FinetuningJob) -> None:
    """Checks that there are weights to start from, if a run needs them."""
    trained = run_checkpoints.trained_weights(job.output_dir)
    if job.init_checkpoint and not trained:
        load.global_step(job.init_checkpoint)


def _check_labels(job: FinetuningJob, path: str) -> None:
    """Checks that weights give the labels, and take the tokens, of a job."""
    load.global_step(path)
    settings = run_folder.identity_of_weights(path).get(run_folder.SETTINGS, {})
    for name in ("labels", "tokenizer"):
        theirs, ours = settings.get(name), job.data.settings.get(name)
        if None not in (theirs, ours) and theirs != ours:
            raise ValueError(
                f"The weights of {path!r} were trained with {name}={theirs!r}, "
                f"and are to be used with {name}={ours!r}. Pass what they were "
                "trained with."
            )


def weights_to_use(job: FinetuningJob) -> str:
    """Returns the path of the weights to evaluate and predict with."""
    return run_folder.weights_to_use(
        job.output_dir,
        job.init_checkpoint,
        is_training=job.train_set is not None,
    )


def run_identity(job: FinetuningJob, records: str | None) -> dict[str, Any]:
    """Returns the identity of a run that trains.

    Args:
        job: The run.
        records: Key of the records to train on.
    """
    return model_identity(job) | {
        run_folder.SETTINGS: dict(job.data.settings),
        "train_batch_size": job.training.train_batch_size,
        "precision": job.training.precision,
        "random_seed": job.training.random_seed,
        "optimizer": dataclasses.asdict(job.optimizer),
        "layerwise_lr_decay": job.finetuning.layerwise_lr_decay,
        "freeze_embeddings": job.finetuning.freeze_embeddings,
        "init_checkpoint": job.init_checkpoint,
        _RECORDS: records,
    }


def model_identity(job: FinetuningJob) -> dict[str, Any]:
    """Returns the part of a run's identity that its weights depend on."""
    return {"config": job.config.to_dict(), "task": job.data.name}
