"""Exports a checkpoint as a SavedModel that takes raw text, for TF Serving.

    python export_saved_model.py --init_checkpoint=albert_base \
        --export_dir=served/albert

The checkpoint may be of any format; config and vocabulary are those beside
it unless others are passed. Nothing is written if the graph has an operation
that TF Serving may not know.
"""

import dataclasses

from absl import flags

import run_flags
from albert_tf.export import export_config
from albert_tf.export.export_config import ExportJob

_BYTES_PER_MEGABYTE = 1e6
_TASK_INTEGERS = {
    "doc_stride": "squad: tokens from the start of a window to the next.",
    "max_query_length": "squad: tokens of the question, at most.",
    "n_best_size": "squad: starts and ends of a window that are combined.",
    "max_answer_length": "squad: tokens of an answer, at most.",
    "start_n_top": "squad version 2.0: starts that are followed.",
    "end_n_top": "squad version 2.0: ends for each of them.",
    "max_qa_length": "race: tokens of question and option, at most.",
    "num_choices": "race: options of a question.",
}


def define_flags() -> None:
    """Defines the flags of this script."""
    run_flags.define_model_flags()
    strings = {
        "export_dir": "Folder that gets a folder for each version, and a "
        "batching configuration.",
        "spm_model_file": "SentencePiece model; default: the vocabulary "
        "beside the checkpoint.",
        "vocab_file": "WordPiece vocabulary, likewise.",
        "model_name": "Name by which TF Serving will know the model, for the "
        "requests that warm it up.",
    }
    defaults = {"model_name": "albert"}
    for name, text in strings.items():
        flags.DEFINE_string(name, defaults.get(name), text)
    flags.DEFINE_enum(
        "task", "encoder", export_config.TASKS, "What the model answers."
    )
    flags.DEFINE_enum(
        "precision",
        "float32",
        export_config.PRECISIONS,
        "Precision of matrices and layers; bfloat16 halves the size.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Longest sequence made of raw text, in tokens; default: 512, for "
        "squad 384, or the model's longest if that is less.",
    )
    flags.DEFINE_integer(
        "export_version",
        None,
        "Number of the version; default: the one after the highest there.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Whether text is made lower case; default: as the checkpoint says, "
        "or true.",
    )
    flags.DEFINE_bool(
        "tflite",
        False,
        "Whether to write model.tflite, which takes ids, beside the "
        "SavedModel; for encoder, classifier and squad version 1.1.",
    )
    _define_task_flags()


def _define_task_flags() -> None:
    flags.DEFINE_list(
        "labels",
        None,
        "classifier: names of the labels, in the order of the outputs; "
        "default: those beside the checkpoint, or 0,1,...",
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "squad version 2.0: the null score must be below it for there to be "
        "an answer; default: what the run of the checkpoint has tuned, or 0.",
    )
    defaults = {f.name: f.default for f in dataclasses.fields(ExportJob)}
    for name, text in _TASK_INTEGERS.items():
        flags.DEFINE_integer(name, defaults[name], text)


def main(values: flags.FlagValues) -> None:
    """Checks the flags, exports, and prints what was written."""
    run_flags.require(values, "init_checkpoint", "export_dir")
    has_config = values.albert_config_file is not None
    job = ExportJob(
        init_checkpoint=values.init_checkpoint,
        export_dir=values.export_dir,
        task=values.task,
        config=run_flags.albert_config(values) if has_config else None,
        spm_model_file=values.spm_model_file,
        vocab_file=values.vocab_file,
        do_lower_case=values.do_lower_case,
        max_seq_length=values.max_seq_length,
        precision=values.precision,
        version=values.export_version,
        model_name=values.model_name,
        tflite=values.tflite,
        labels=tuple(values.labels) if values.labels else None,
        null_threshold=values.null_score_diff_threshold,
        **{name: values[name].value for name in _TASK_INTEGERS},
    )
    export(job)


def export(job: ExportJob) -> None:
    """Exports, and prints what was written."""
    with run_flags.quiet_import():
        from albert_tf.export import saved_model

    summary = saved_model.run(job)
    for name in summary.left_out:
        print(f"left out   {name} (the task has no use for it)")
    print(f"signatures {', '.join(summary.signatures)}")
    size = summary.num_bytes / _BYTES_PER_MEGABYTE
    print(f"written    {summary.path} ({size:.2f} MB)")


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
