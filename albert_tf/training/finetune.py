"""Fine-tuning, evaluation and prediction: puts the parts together.

Data flow: job -> records -> one run, or one a seed -> scores, files.
Floor: training.

Source: google-research/albert, the `main` of `run_classifier.py`,
`run_race.py` and `run_squad_v*.py`.
"""

import logging

from albert_tf.training import (
    distribution,
    finetune_folder,
    finetune_run,
    records,
    run_config,
    seeds,
    trainer,
)
from albert_tf.training.run_config import FinetuningJob

_LOGGER = logging.getLogger(__name__)


def run(job: FinetuningJob) -> dict[str, float] | None:
    """Trains, or goes on training, then evaluates and predicts.

    Beside what every run leaves in its `output_dir`, there are `eval/` (and
    `eval_<name>/`) with the predictions of the evaluation sets, what the task
    writes for the sets to predict, and `report.html`.

    Returns:
        Scores of the best weights and `global_step`. With several seeds, the
        medians under the scores' keys, `<key>_std` and `<key>_best` beside
        them. None if a signal stopped the training.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Files, flags or the folder do not fit one another, or no
            attempt learnt anything.
    """
    trainer.make_deterministic(job.training)
    strategy = distribution.create_strategy(
        job.training.strategy, tpu=job.training.tpu
    )
    _check_batch_sizes(job, strategy.num_replicas_in_sync)
    has_seeds = job.finetuning.num_seeds > 1
    check_folder = (
        seeds.check_folder if has_seeds else finetune_folder.check_folder
    )
    check_folder(job)
    sets = records.open_sets(job, strategy)
    _tell_of_repetition(job, sets)
    if has_seeds:
        return seeds.SeedRuns(job, sets, strategy).run()
    return finetune_run.FinetuningRun(job, sets, strategy).run()


def _tell_of_repetition(job: FinetuningJob, sets: records.RecordSets) -> None:
    size = job.training.train_batch_size
    if sets.train and size > sets.train.columns.num_records:
        _LOGGER.warning(
            "An update takes %d records, and there are %d, so it takes some "
            "several times. Lower --train_batch_size.",
            size,
            sets.train.columns.num_records,
        )


def _check_batch_sizes(job: FinetuningJob, num_replicas: int) -> None:
    sizes = {}
    if job.eval_sets:
        sizes["eval_batch_size"] = job.training.eval_batch_size
    if job.predict_sets:
        sizes["predict_batch_size"] = job.finetuning.predict_batch_size
    if job.train_set:
        run_config.per_replica_batch_size(
            "train_batch_size",
            job.training.train_batch_size,
            num_replicas=num_replicas,
            num_parts=job.training.gradient_accumulation_steps,
        )
    for name, size in sizes.items():
        run_config.per_replica_batch_size(name, size, num_replicas=num_replicas)
