"""The settings of an export.

Plain Python: a command makes one before any slow import.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.checks import check_choice, check_integer, check_vocab_file
from albert_tf.settings import setting
from albert_tf.tasks import head_flags
from albert_tf.tasks.race.examples import MIN_OPTIONS, ChoiceLengths
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.text.tokenizer import VocabularyBeside

TASKS = ("encoder", "classifier", "squad", "race")
PRECISIONS = ("float32", "bfloat16")
LITERT = "litert"
FORMATS = ("saved_model", LITERT)
QUANTIZATIONS = ("int8",)
# As in the fine-tuning commands.
DEFAULT_SEQ_LENGTHS = {
    "encoder": 512,
    "classifier": 512,
    "squad": 384,
    "race": 512,
}
LITERT_TASKS = ("encoder", "classifier", "squad")
# Settings that change answers, and would have no effect on other tasks.
_TASKS_OF_SETTINGS = {
    "exit_patience": ("classifier", "race"),
    "labels": ("classifier",),
    "null_from_cls": ("squad",),
}


_NUM_CHOICES = 4
SPAN_LIMITS = ("n_best_size", "max_answer_length")
# Settings that are by default those of the fine-tuning.
LENGTHS = (
    "max_seq_length",
    "doc_stride",
    "max_query_length",
    "max_qa_length",
    "num_choices",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(VocabularyBeside):
    """Settings of one export; every field is a flag of the same name."""

    init_checkpoint: str = setting(
        "",
        "Weights to export: a TF1 checkpoint (prefix or folder), the folder "
        "of a run (its best checkpoint is used) or of its checkpoint, a "
        "Hugging Face folder (safetensors), a KerasHub preset folder, or a "
        ".keras file of one of our models.",
    )
    export_dir: str = setting(
        "",
        "Folder that gets a numbered folder for each version, and a batching "
        "configuration.",
    )
    albert_config_file: str | None = setting(
        None,
        "JSON file with the shape of the model, or the name of a published "
        "one (base_v2, xxlarge_v1, base_zh, bert_base, ...). Default: the "
        "config beside the checkpoint.",
    )
    task: str | None = setting(
        None,
        "What the model computes. Default: the task that the checkpoint has a "
        "head for, or else encoder.",
        choices=TASKS,
    )
    precision: str = setting(
        "float32",
        "Precision of the stored matrices and of the computation; bfloat16 "
        "halves the size.",
        choices=PRECISIONS,
    )
    max_seq_length: int | None = setting(
        None,
        "Longest sequence made of raw text, in tokens. Default: that of the "
        "fine-tuning, or else 512 (384 for squad), or the longest that the "
        "model takes if that is less.",
    )
    export_version: int | None = setting(
        None,
        "Number of the version. Default: one more than the highest number in "
        "the folder.",
    )
    model_name: str = setting(
        "albert",
        "Name by which TF Serving knows the model; the requests that warm it "
        "up contain it.",
    )
    format: str = setting(
        "saved_model",
        "What to write: saved_model, which takes raw text; or litert, which "
        "takes ids, or texts by load_predictor, for encoder, classifier and "
        "squad.",
        choices=FORMATS,
    )
    quantize: str | None = setting(
        None,
        "litert: int8 for matrices in int8, a quarter of the size; a CPU "
        "computes several times as fast.",
        choices=QUANTIZATIONS,
    )
    labels: tuple[str, ...] = setting(
        (),
        "classifier: names of the labels, in the order of the outputs. "
        "Default: those beside the checkpoint, or 0,1,...",
    )
    # classifier with any number of labels: the probability from which on each
    # is predicted. Default: those beside the checkpoint, or 1/2.
    thresholds: tuple[float, ...] = ()
    doc_stride: int | None = setting(
        None,
        "squad: tokens from the start of a window to the next. Default: as in "
        "the fine-tuning, or 128.",
    )
    max_query_length: int | None = setting(
        None,
        "squad: largest number of tokens of a question. Default: as in the "
        "fine-tuning, or 64.",
    )
    n_best_size: int = setting(
        20, "squad: number of starts, and of ends, combined in a window."
    )
    max_answer_length: int = setting(
        30, "squad: largest number of tokens of an answer."
    )
    start_n_top: int = setting(
        5, "squad version 2.0: beam size for start positions."
    )
    end_n_top: int = setting(
        5,
        "squad version 2.0: beam size for end positions, per start position.",
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "squad version 2.0, and 1.1 with null_from_cls: predict no answer "
        "when the null score is at or above this value. Default: the value "
        "tuned by the run of the checkpoint, or 0.",
    )
    null_from_cls: bool = setting(
        False,
        "squad version 1.1: the head was trained by transformers on SQuAD 2.0, "
        "so that the logits of [CLS] are those of there being no answer.",
    )
    max_qa_length: int | None = setting(
        None,
        "race: largest number of tokens of question and option. Default: as "
        "in the fine-tuning, or 128.",
    )
    num_choices: int | None = setting(
        None,
        "race: number of options of a question. Default: as in the "
        "fine-tuning, or 4.",
    )
    exit_patience: int = setting(
        0, f"classifier, race: {head_flags.PATIENCE_HELP}"
    )

    def __post_init__(self) -> None:
        if not self.init_checkpoint or not self.export_dir:
            raise ValueError(
                "--init_checkpoint and --export_dir must be given."
            )
        if self.task is not None:
            check_choice("task", self.task, TASKS)
        check_vocab_file(self.vocab_file)
        check_choice("precision", self.precision, PRECISIONS)
        if self.export_version is not None:
            check_integer("export_version", self.export_version, at_least=1)
        check_integer("num_choices", self.choices, at_least=MIN_OPTIONS)
        check_integer("exit_patience", self.exit_patience, at_least=0)
        for name, tasks in _TASKS_OF_SETTINGS.items():
            if getattr(self, name) and self.task not in (None, *tasks):
                raise ValueError(
                    f"--{name} is for --task={' or '.join(tasks)} only. "
                    f"Received: task={self.task}."
                )
        self._check_format()
        if self.task == "race":
            self.choice_lengths()
        if self.task == "squad":
            self.window_lengths()
            self.span_limits()

    def _check_format(self) -> None:
        check_choice("format", self.format, FORMATS)
        if self.quantize is not None:
            check_choice("quantize", self.quantize, QUANTIZATIONS)
        if self.quantize and self.format != LITERT:
            raise ValueError(
                f"--quantize={self.quantize} needs --format=litert. Received: "
                f"format={self.format}."
            )
        if self.format == LITERT and (
            self.task not in (None, *LITERT_TASKS)
            or self.precision != "float32"
            or self.exit_patience
            or self.null_from_cls
        ):
            raise ValueError(
                f"--format=litert is for {', '.join(LITERT_TASKS)}, in float32 "
                "and without `exit_patience` and `null_from_cls`. Received: "
                f"task={self.task}, precision={self.precision}, exit_patience="
                f"{self.exit_patience}, null_from_cls={self.null_from_cls}."
            )

    @property
    def seq_length(self) -> int:
        """`max_seq_length`, or the default of the task."""
        return (
            self.max_seq_length or DEFAULT_SEQ_LENGTHS[self.task or "encoder"]
        )

    @property
    def choices(self) -> int:
        """`num_choices`, or its default."""
        return _NUM_CHOICES if self.num_choices is None else self.num_choices

    def as_trained(self, settings: Mapping[str, Any]) -> "ExportConfig":
        """Returns it with the lengths of a fine-tuning that are not given.

        An encoder has none: its vectors do not depend on the task.
        """
        names = () if self.task == "encoder" else LENGTHS
        return dataclasses.replace(
            self,
            **{
                name: settings[name]
                for name in names
                if name in settings and getattr(self, name) is None
            },
        )

    def choice_lengths(self) -> ChoiceLengths:
        """Returns the lengths of a choice of RACE."""
        return ChoiceLengths.within(
            {**vars(self), "max_seq_length": self.seq_length}
        )

    def window_lengths(self) -> WindowLengths:
        """Returns the lengths of a window of SQuAD."""
        return WindowLengths.within(
            {**vars(self), "max_seq_length": self.seq_length}
        )

    def span_limits(self) -> SpanLimits:
        """Returns which spans may answer a question of SQuAD."""
        return SpanLimits(
            n_best_size=self.n_best_size,
            max_answer_length=self.max_answer_length,
        )
