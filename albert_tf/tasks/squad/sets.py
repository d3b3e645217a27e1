"""SQuAD's flags, and the questions that they name.

Data flow: flags -> [this file] -> sets -> run. Slow imports come after them.
Source: google-research/albert, `run_squad_v1.py`, `run_squad_v2.py`.
"""

import dataclasses
import functools

from albert_tf import checks
from albert_tf import settings as settings_lib
from albert_tf.checkpoints import heads
from albert_tf.settings import setting
from albert_tf.tasks import head_flags, held_out, task_data
from albert_tf.tasks.spec import DataRequest, FinetuningSpec, TaskConfig
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad.data import SquadData
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.spec import BeamSpanSpec, SpanSpec
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.tasks.task import MakeTask
from albert_tf.tasks.task_data import ExampleSet, Sets

# The shortest batch: lengths are padded to multiples of it. A beam cannot
# have more positions.
_MAX_BEAM_SIZE = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadConfig(SpanLimits, TaskConfig):
    """SQuAD's flags; `read_sets` checks the flags of windows."""

    train_file: str | None = setting(
        None, "Questions to train on: SQuAD's JSON, or JSON lines (.jsonl)."
    )
    predict_file: str | None = setting(
        None,
        "Questions to answer. If all their answers are known, they are "
        "evaluated, too, unless --eval_file names others.",
    )
    eval_file: str | None = setting(
        None, "Questions to evaluate, instead of those of --predict_file."
    )
    version_2_with_negative: bool = setting(
        False,
        "Whether questions may have no answer (SQuAD 2.0). The model then "
        "searches for spans by beam search, and predicts whether there is an "
        "answer.",
    )
    metric_language: str = setting(
        "en",
        "How answers are compared: en by words, as SQuAD's evaluation does "
        "(by characters in scripts without spaces); zh as that of CMRC 2018.",
        choices=("en", "zh"),
    )
    doc_stride: int = setting(
        WindowLengths.doc_stride,
        "Distance, in tokens, between the starts of two windows over a "
        "context.",
        at_least=1,
    )
    max_query_length: int = setting(
        WindowLengths.max_query_length,
        "Maximum number of tokens of a question; longer ones lose their end.",
    )
    count_windows_as_epochs: bool = setting(
        False,
        "Whether an epoch of --num_train_epochs is as many windows as the "
        "contexts have. By default, as in the original, it is as many as there "
        "are questions, so that not all windows of long contexts are seen.",
    )
    dropout_prob: float = head_flags.dropout(
        "SQuAD 2.0: dropout rate before the score of no answer."
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "SQuAD 2.0: predict no answer where the null score is at or above "
        "this value. By default, the value with the best F1 on the evaluated "
        "questions, or on those that the weights were last evaluated on.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("start_n_top", "end_n_top"):
            size = getattr(self, name)
            checks.check_integer(name, size, at_most=_MAX_BEAM_SIZE)

    @property
    def name(self) -> str:
        """Name of the task."""
        return "squad_v2" if self.version_2_with_negative else "squad_v1"


def read_sets(config: SquadConfig, request: DataRequest) -> Sets[ExampleSet]:
    """Reads the questions of a run, and checks that they can be used."""
    uses = request.uses
    data = SquadData(
        tokenizer=request.tokenizer,
        lengths=WindowLengths.within(vars(config) | vars(request)),
        limits=settings_lib.read(SpanLimits, vars(config)),
        metric_language=config.metric_language,
        version_2_with_negative=config.version_2_with_negative,
        null_score_diff_threshold=config.null_score_diff_threshold,
    )

    def read(use: str) -> list[ExampleSet]:
        path = held_out.given_file(config, request, use) or ""
        questions = data.questions(examples_lib.read_examples(path))
        return [ExampleSet(examples=questions, data=data)]

    sets = {use: read(use) for use in ("train", "predict") if use in uses}
    if config.eval_file or "eval" in request.given_examples:
        sets["eval"] = read("eval")
    elif "eval" in uses or (
        # TF1: --do_predict evaluates, too, and chooses the best weights.
        "predict" in uses
        and not data.lack_of_answers(sets["predict"][0].examples)
    ):
        sets["eval"] = sets.get("predict") or read("predict")
    for use in ("train", "eval"):
        for example_set in sets.get(use, ()):
            if lack := data.lack_of_answers(example_set.examples):
                raise ValueError(lack)
    return task_data.sets_by_use(sets)


def make_task(config: SquadConfig, sets: Sets[ExampleSet]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.squad import model

    if not config.version_2_with_negative:
        return model.SpanTask
    return functools.partial(
        model.BeamSpanTask,
        start_n_top=config.start_n_top,
        end_n_top=config.end_n_top,
        dropout_prob=config.dropout_prob,
    )


FINETUNING = FinetuningSpec(
    task_names=("squad",),
    config_class=SquadConfig,
    defaults={
        "learning_rate": 5e-5,
        "train_batch_size": 32,
        "save_checkpoints_steps": 1000,
        "max_seq_length": 384,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
    },
    read_sets=read_sets,
    make_task=make_task,
    head_spec=lambda config: (
        BeamSpanSpec() if config.version_2_with_negative else SpanSpec()
    ),
    predict_arguments=lambda _: '"QUESTION" "CONTEXT"',
    chosen=lambda data, scores: {
        "null_score_diff_threshold": data.null_threshold(scores)
    },
    settings_of_weights=lambda weights: {
        "version_2_with_negative": heads.BEAM_SPAN.groups <= weights.heads
    },
)
