r"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0, and answers questions.

    python run_squad.py --albert_config_file=base_v2 \
        --init_checkpoint=albert_base --spm_model_file=30k-clean.model \
        --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
        --version_2_with_negative --do_train --do_predict --output_dir=run

--predict_file is evaluated as well where it has the answers; its questions may
also have none. --eval_file names another one to evaluate.
"""

import dataclasses
import functools
import logging
from typing import TYPE_CHECKING, Any

from absl import flags

import run_finetuning_export
import run_finetuning_flags
import run_flags
from albert_tf.checkpoints import metadata, run_checkpoints
from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad.data import SquadData
from albert_tf.tasks.squad.predictions import BeamSearch, SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.training import run_folder
from albert_tf.training.run_config import (
    ExampleSet,
    FinetuningConfig,
    TrainingConfig,
)

if TYPE_CHECKING:
    from albert_tf.tasks.squad.task import SquadTask

_logger = logging.getLogger(__name__)

# The original's defaults.
_DEFAULTS = run_finetuning_flags.Defaults(
    training=TrainingConfig(
        train_batch_size=32, eval_batch_size=8, save_checkpoints_steps=1000
    ),
    optimizer=OptimizerConfig(optimizer="adamw", learning_rate=5e-5),
    finetuning=FinetuningConfig(max_seq_length=384, predict_batch_size=8),
    num_train_epochs=3.0,
    warmup_proportion=0.1,
)
_RECORDS = (
    "train_feature_file",
    "predict_feature_file",
    "predict_feature_left_file",
)


def define_flags() -> None:
    """Defines the flags of this script."""
    run_finetuning_flags.define_finetuning_flags(_DEFAULTS)
    flags.DEFINE_bool(
        "version_2_with_negative",
        False,
        "Whether questions may have no answer: SQuAD 2.0, with a head that "
        "searches beams and tells whether there is an answer.",
    )
    _define_files()
    _define_search()
    flags.DEFINE_bool("use_einsum", True, "Not used.")


def _define_files() -> None:
    texts = {
        "train_file": "Questions to train on, in SQuAD's JSON.",
        "predict_file": "Questions to answer; evaluated where they have "
        "answers.",
        "eval_file": "Questions to evaluate, instead of --predict_file.",
    }
    for name, text in texts.items():
        flags.DEFINE_string(name, None, text)
    for name in _RECORDS:
        flags.DEFINE_string(
            name, None, "Not used: records are kept in --cached_dir."
        )


def _define_search() -> None:
    lengths, limits, beams = WindowLengths(), SpanLimits(), BeamSearch()
    integers: dict[str, tuple[int, str]] = {
        "doc_stride": (
            lengths.doc_stride,
            "Tokens from the start of a window to that of the next.",
        ),
        "max_query_length": (
            lengths.max_query_length,
            "Tokens of a question at most; what is longer loses its end.",
        ),
        "n_best_size": (
            limits.n_best_size,
            "Answers that nbest_predictions.json has of a question.",
        ),
        "max_answer_length": (
            limits.max_answer_length,
            "Tokens of an answer at most.",
        ),
        "start_n_top": (beams.start_n_top, "Starts that 2.0's beams follow."),
        "end_n_top": (beams.end_n_top, "Ends that they follow from each."),
    }
    for name, (default, text) in integers.items():
        flags.DEFINE_integer(name, default, text)
    flags.DEFINE_float(
        "dropout_prob",
        beams.dropout_prob,
        "Share that is dropped, in 2.0, before the score of no answer.",
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "In 2.0, a question is answered where its null odds are below. "
        "Without, what gives the best F1 on the evaluated questions, or did "
        "when these weights were.",
    )


def main(values: flags.FlagValues) -> None:
    """Reads the questions, then trains, evaluates and predicts."""
    config = run_finetuning_flags.check_finetuning_flags(values)
    version = "v2" if values.version_2_with_negative else "v1"
    config = run_finetuning_flags.apply_preset(
        values, config, f"squad_{version}"
    )
    _check_flags(values)
    lengths = WindowLengths(
        max_seq_length=values.max_seq_length,
        doc_stride=values.doc_stride,
        max_query_length=values.max_query_length,
    )
    limits = SpanLimits(
        n_best_size=values.n_best_size,
        max_answer_length=values.max_answer_length,
    )
    make_task = _task_maker(values)
    sets = _read_sets(values)
    data = SquadData(
        run_finetuning_flags.load_tokenizer(values),
        lengths=lengths,
        limits=limits,
        version_2_with_negative=values.version_2_with_negative,
        null_threshold=values.null_score_diff_threshold,
        saved_threshold=_saved_threshold(values),
    )
    job = run_finetuning_flags.finetuning_job(
        values, config=config, data=data, make_task=make_task, **sets
    )
    export = run_finetuning_export.export_job(
        values,
        task="squad",
        config=config,
        **dataclasses.asdict(limits),
        doc_stride=values.doc_stride,
        max_query_length=values.max_query_length,
        start_n_top=values.start_n_top,
        end_n_top=values.end_n_top,
    )
    scores = run_finetuning_export.run(job, export)
    if export:
        threshold = data.null_threshold
        export = dataclasses.replace(export, null_threshold=threshold)
    run_finetuning_export.finish(job, scores, export)


def _task_maker(
    values: flags.FlagValues,
) -> "functools.partial[SquadTask]":
    beam_search = BeamSearch(
        start_n_top=values.start_n_top,
        end_n_top=values.end_n_top,
        dropout_prob=values.dropout_prob,
    )
    if not values.version_2_with_negative:
        return functools.partial(_make_task, beam_search=None)
    return functools.partial(_make_task, beam_search=beam_search)


def _make_task(
    config: AlbertConfig,
    *,
    beam_search: BeamSearch | None,
    seed: int,
    dtype: str,
) -> "SquadTask":
    # Imports TensorFlow, so only when the flags and the files are good.
    from albert_tf.tasks.squad.task import SquadTask

    return SquadTask(config, beam_search=beam_search, seed=seed, dtype=dtype)


def _check_flags(values: flags.FlagValues) -> None:
    threshold = values.null_score_diff_threshold
    if threshold is not None and not values.version_2_with_negative:
        raise ValueError(
            "--null_score_diff_threshold needs --version_2_with_negative: "
            "without, every question is answered."
        )
    for name in _RECORDS:
        if values[name].value:
            # TF1: where the original keeps its records, whatever made them.
            _logger.warning(
                "--%s=%s is not read: records are kept in --cached_dir, "
                "under a key of all that made them.",
                name,
                values[name].value,
            )


def _read_sets(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the sets of examples, as `finetuning_job` wants them."""
    check = functools.partial(
        examples_lib.check_answers,
        version_2_with_negative=values.version_2_with_negative,
    )
    sets: dict[str, Any] = {}
    if values.do_train:
        sets["train_set"] = _read(values, "train_file")
        check(sets["train_set"].examples)
    if values.do_predict:
        sets["predict_sets"] = [_read(values, "predict_file")]
    if values.do_eval or values.eval_file:
        if values.eval_file or not values.do_predict:
            name = "eval_file" if values.eval_file else "predict_file"
            sets["eval_sets"] = [_read(values, name)]
        else:
            sets["eval_sets"] = sets["predict_sets"]
        check(sets["eval_sets"][0].examples)
    elif values.do_predict and examples_lib.are_answers_known(
        sets["predict_sets"][0].examples,
        version_2_with_negative=values.version_2_with_negative,
    ):
        # TF1: --do_predict evaluates, too, and chooses the best weights.
        sets["eval_sets"] = sets["predict_sets"]
    return sets


def _read(values: flags.FlagValues, name: str) -> ExampleSet:
    run_flags.require(values, name)
    path = values[name].value
    return ExampleSet(examples=examples_lib.read_examples(path), is_stored=True)


def _saved_threshold(values: flags.FlagValues) -> float | None:
    """Returns the null threshold that the run of these weights has tuned."""
    if values.do_train:
        path = run_checkpoints.trained_weights(values.output_dir)
    else:
        path = run_folder.weights_to_use(
            values.output_dir, values.init_checkpoint, is_training=False
        )
    return metadata.read(path).null_threshold if path else None


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
