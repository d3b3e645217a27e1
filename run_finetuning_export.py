"""What the fine-tuning scripts share: a SavedModel at the end of a run.

Floor 7. It imports no TensorFlow.

Source: google-research/albert, `--export_dir` of `run_classifier.py` and
`run_squad_v1.py`; raw text, 2.0 and RACE are ours.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from absl import flags

import export_saved_model
import run_flags
from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.export.export_config import ExportJob
from albert_tf.training import run_folder
from albert_tf.training.run_config import FinetuningJob

_ON_MANY_MACHINES = ("auto", "multi_worker")


def check_export_flag(values: flags.FlagValues) -> None:
    """Checks --export_dir before hours go by.

    Raises:
        ValueError: Nothing can be written there, or by several machines.
    """
    if not values.export_dir:
        return
    folder = existing = files.check_local(values.export_dir)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing) or os.curdir
    if not (os.path.isdir(existing) and os.access(existing, os.W_OK)):
        raise ValueError(
            f"--export_dir={folder} cannot be written: {existing!r} is not a "
            "folder that this user may write to. Pass another one."
        )
    if "TF_CONFIG" in os.environ and values.strategy in _ON_MANY_MACHINES:
        raise ValueError(
            "--export_dir is for runs on one machine, and TF_CONFIG is set. "
            "Pass --strategy=one or mirrored; or leave --export_dir out, and "
            "export the --output_dir with export_saved_model.py."
        )


def export_job(
    values: flags.FlagValues,
    *,
    task: str,
    config: AlbertConfig,
    **settings: Any,
) -> ExportJob | None:
    """Makes the job that --export_dir asks for; None without.

    Args:
        values: The flags.
        task: See `ExportJob`.
        config: Shape of the model.
        **settings: Of an `ExportJob`, those of the task.

    Raises:
        ValueError: A value is impossible.
    """
    if not values.export_dir:
        return None
    return ExportJob(
        # Where its weights will be; `finish` says which.
        init_checkpoint=values.output_dir,
        export_dir=values.export_dir,
        task=task,
        config=config,
        spm_model_file=values.spm_model_file,
        vocab_file=values.vocab_file,
        do_lower_case=values.do_lower_case,
        max_seq_length=values.max_seq_length,
        **settings,
    )


def run(
    job: FinetuningJob, export: ExportJob | None
) -> dict[str, float] | None:
    """Trains, evaluates and predicts.

    Args:
        job: What to run.
        export: As `export_job` returns it.

    Returns:
        The scores; None if a signal stopped the training.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: See `finetune.run`; or, before it begins, the export would
            fail: because of the vocabulary, or the length.
    """
    with run_flags.quiet_import():
        from albert_tf.training import finetune
    if export:
        _check_export(export)
    return finetune.run(job)


def _check_export(export: ExportJob) -> None:
    with run_flags.quiet_import():
        from albert_tf.export import exported_text, pair_packing

    shortest = pair_packing.MIN_SEQ_LENGTH
    if export.known_seq_length < shortest:
        raise ValueError(
            f"--export_dir needs --max_seq_length={shortest} or more. "
            f"Received: max_seq_length={export.known_seq_length}."
        )
    exported_text.load_text_graph(
        spm_model_file=export.spm_model_file,
        vocab_file=export.vocab_file,
        do_lower_case=bool(export.do_lower_case),
    )


def finish(
    job: FinetuningJob,
    scores: Mapping[str, float] | None,
    export: ExportJob | None,
) -> None:
    """Prints the scores, and exports the weights that they are of.

    Args:
        job: What was run.
        scores: As `run` returned them; with None nothing is done.
        export: As `export_job` returned it, and what the run has tuned.
    """
    if scores is None:
        return
    for name, value in scores.items():
        print(f"{name} = {value:.6g}")
    if export:
        weights = run_folder.weights_to_use(
            job.output_dir,
            job.init_checkpoint,
            is_training=job.train_set is not None,
        )
        export_saved_model.export(
            dataclasses.replace(export, init_checkpoint=weights)
        )
