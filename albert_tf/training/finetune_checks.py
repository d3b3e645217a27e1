"""Checks before a fine-tuning run: settings, output directory, weights.

They come before records are made, which takes time and writes files.

Floor: training.
"""

from typing import Any

from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.tasks.task import ExampleSet, Sets
from albert_tf.training import run_config, run_folder
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.run_folder import RunFolder


def check_settings(config: FinetuningConfig, sets: Sets[ExampleSet]) -> None:
    """Checks that the settings fit the examples."""
    vocab_size = sets.data.vocab_size
    if vocab_size != config.albert_config.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} tokens, but the config has "
            f"vocab_size={config.albert_config.vocab_size}. Pass the "
            "vocabulary and the --albert_config_file of the same checkpoint."
        )
    for kind in (sets.evaluation, sets.prediction):
        names = [one.name for one in kind]
        if len(set(names)) < len(names):
            raise ValueError(
                "The evaluation sets, and the prediction sets, must have "
                f"different names. Received: {', '.join(map(repr, names))}."
            )
    if sets.evaluation and sets.evaluation[0].name:
        raise ValueError(
            "The first evaluation set must have the name '', because its "
            "scores have no suffix. Received: "
            f"name={sets.evaluation[0].name!r}."
        )
    patience = config.early_stopping_patience
    if patience and sets.train and not sets.evaluation:
        raise ValueError(
            "`early_stopping_patience` counts evaluations, but there is no "
            "evaluation set. Pass --do_eval. Received: "
            f"early_stopping_patience={patience}."
        )
    if config.num_seeds > 1 and not (sets.train and sets.evaluation):
        raise ValueError(
            "`num_seeds` above 1 needs training and evaluation, which selects "
            "the best seed. Pass --do_train and --do_eval. Received: "
            f"num_seeds={config.num_seeds}."
        )


def check_batch_sizes(
    config: FinetuningConfig, sets: Sets[ExampleSet], num_replicas: int
) -> None:
    """Checks that the replicas divide the batches that the run needs."""
    if sets.train:
        run_config.check_train_batch_size(config, num_replicas)
    for examples, name in (
        (sets.evaluation, "eval_batch_size"),
        (sets.prediction, "predict_batch_size"),
    ):
        if examples:
            run_config.per_replica_batch_size(
                name, getattr(config, name), num_replicas=num_replicas
            )


def folder_of(
    config: FinetuningConfig,
    sets: Sets[ExampleSet],
    fingerprint: str | None = None,
) -> RunFolder:
    """Returns the output directory of a training run.

    Args:
        config: Settings of the run.
        sets: Its examples.
        fingerprint: Fingerprint of the records to train on; None for the
            directory of several seeds.
    """
    data = sets.data
    values: dict[str, Any] = {
        "task": data.name,
        "settings": dict(data.settings),
    }
    if config.num_seeds == 1:
        values |= run_folder.fingerprint(config, records=fingerprint)
    else:
        # What else each seed depends on is checked in its own directory, so
        # that seeds can be added.
        values |= {
            "config": config.albert_config.to_dict(),
            "init_checkpoint": config.init_checkpoint,
            "seeds_from": config.random_seed,
        }
    return RunFolder(path=config.output_dir, fingerprint=values)


def check_folder(config: FinetuningConfig, sets: Sets[ExampleSet]) -> None:
    """Checks output directory and weights, except for the records.

    Raises:
        FileNotFoundError: There is no checkpoint to start from.
        ValueError: The directory belongs to another run, or there are no
            weights to use, or they are of another model.
    """
    if not sets.train:
        run_folder.check_model(config, sets.data.name)
        _check_labels(weights_to_use(config, sets), sets)
        return
    kept = run_folder.read_fingerprint(config.output_dir)
    folder_of(config, sets, kept.get(run_folder.RECORDS)).check()
    trained = run_checkpoints.trained_weights(config.output_dir)
    if config.init_checkpoint and not trained:
        load.global_step(config.init_checkpoint)


def _check_labels(path: str, sets: Sets[ExampleSet]) -> None:
    """Checks that weights have the labels and the tokenizer of the task."""
    load.global_step(path)
    kept = run_folder.fingerprint_of_weights(path).get(run_folder.SETTINGS, {})
    for name in ("labels", "tokenizer"):
        theirs, ours = kept.get(name), sets.data.settings.get(name)
        if None not in (theirs, ours) and theirs != ours:
            raise ValueError(
                f"The weights of {path!r} were trained with {name}={theirs!r}. "
                f"Received: {name}={ours!r}. Pass what they were trained with."
            )


def weights_to_use(config: FinetuningConfig, sets: Sets[ExampleSet]) -> str:
    """Returns the weights to evaluate; see `run_folder.weights_to_use`."""
    return run_folder.weights_to_use(
        config.output_dir,
        config.init_checkpoint,
        is_training=sets.train is not None,
    )
