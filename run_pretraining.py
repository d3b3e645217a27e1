r"""Pretrains ALBERT on records made by create_pretraining_data.py.

    python run_pretraining.py --albert_config_file=base_v2 \
        --input_file='records/train-*' --eval_file=records/eval \
        --do_train --do_eval --output_dir=run

Running the same command again goes on where it stopped. The defaults are the
paper's: LAMB, rate 0.00176, batch 4096, 125,000 steps, 3,125 of warm-up.
"""

from absl import flags

import run_flags
from albert_tf import files
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training import run_config
from albert_tf.training.run_config import TrainingConfig


def define_flags() -> None:
    """Defines the flags of this script."""
    run_flags.define_model_flags()
    # Paper: section 4.1; warm-up of google-research/albert.
    run_flags.define_optimizer_flags(OptimizerConfig())
    run_flags.define_training_flags(TrainingConfig())
    flags.DEFINE_string("input_file", None, "Globs of records to train on.")
    flags.DEFINE_string("eval_file", None, "Globs of records to evaluate on.")
    flags.DEFINE_string("output_dir", None, "Folder of the run.")
    flags.DEFINE_integer("max_seq_length", 512, "As the records were made.")
    flags.DEFINE_integer(
        "max_predictions_per_seq", 20, "As the records were made."
    )
    flags.DEFINE_integer("max_eval_steps", 100, "Evaluation batches at most.")
    flags.DEFINE_list("objectives", ["mlm", "sop"], "Losses: mlm, sop or both.")
    flags.DEFINE_bool("do_train", True, "Whether to train.")
    flags.DEFINE_bool(
        "do_eval", False, "Whether to evaluate, on --eval_file alone."
    )
    flags.DEFINE_bool(
        "init_from_group0",
        False,
        "Start every group of layers from the first of --init_checkpoint.",
    )
    flags.DEFINE_bool(
        "allow_new_heads",
        False,
        "Whether heads that --init_checkpoint lacks start anew.",
    )
    flags.DEFINE_integer(
        "masked_lm_budget",
        0,
        "Not used: records made with --masking=dynamic get their masks here.",
    )


def main(values: flags.FlagValues) -> None:
    """Checks the flags, then trains and evaluates."""
    run_flags.require(values, "albert_config_file", "output_dir")
    if values.do_train:
        run_flags.require(values, "input_file")
    if values.do_eval:
        run_flags.require(values, "eval_file")
    if values.masked_lm_budget:
        raise ValueError(
            "--masked_lm_budget has no effect in the original either. Build "
            "the records with --masking=dynamic to draw masks while training."
        )
    job = run_config.PretrainingRun(
        config=run_flags.albert_config(values),
        training=run_flags.training_config(values),
        optimizer=run_flags.optimizer_config(values),
        output_dir=values.output_dir,
        input_files=values.input_file if values.do_train else "",
        eval_files=values.eval_file if values.do_eval else "",
        max_seq_length=values.max_seq_length,
        max_predictions_per_seq=values.max_predictions_per_seq,
        max_eval_steps=values.max_eval_steps,
        objectives=tuple(values.objectives),
        init_checkpoint=values.init_checkpoint,
        init_from_group0=values.init_from_group0,
        allow_new_heads=values.allow_new_heads,
        flags_text=run_flags.flags_text(values),
    )
    for patterns in filter(None, (job.input_files, job.eval_files)):
        files.expand_globs(patterns)
    with run_flags.quiet_import():
        from albert_tf.training import pretrain

    scores = pretrain.run(job)
    for name, value in (scores or {}).items():
        print(f"{name} = {value:.6g}")


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
