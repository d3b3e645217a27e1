"""What an export is asked to do.

Floor: export. Plain Python: a script makes one before any slow import.
"""

import dataclasses

from albert_tf.config import AlbertConfig
from albert_tf.tasks.race.examples import MIN_OPTIONS

TASKS = ("encoder", "classifier", "squad", "race")
PRECISIONS = ("float32", "bfloat16")
# As in the scripts that fine-tune.
DEFAULT_SEQ_LENGTHS = {
    "encoder": 512,
    "classifier": 512,
    "squad": 384,
    "race": 512,
}
# Those that have a `.tflite`: SQuAD in version 1.1 only.
LITERT_TASKS = ("encoder", "classifier", "squad")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportJob:
    """One export.

    Args:
        init_checkpoint: Of a checkpoint in any format; the folder of a run
            stands for its best one.
        export_dir: Folder that gets a folder for each version.
        task: One of `TASKS`.
        config: Instead of the one beside the checkpoint; None for that one.
        spm_model_file: SentencePiece model; None for the vocabulary beside
            the checkpoint, unless `vocab_file` is given.
        vocab_file: WordPiece vocabulary, likewise.
        do_lower_case: Whether letters are made lower case; None for what the
            checkpoint says, or True.
        max_seq_length: Longest sequence made of raw text; None for that of
            `DEFAULT_SEQ_LENGTHS`, or the model's longest if that is less.
        precision: Of the stored matrices and of the layers; one of
            `PRECISIONS`.
        version: Number of the version; None for the one after the highest.
        model_name: The name that TF Serving knows the model by.
        tflite: Whether to write a LiteRT model of ids, too.
        labels: classifier: names of the labels; None for those beside the
            checkpoint.
        max_qa_length: race: see `ChoiceLengths`.
        num_choices: race: number of options, C.
        doc_stride: squad: see `WindowLengths`.
        max_query_length: squad: likewise.
        n_best_size: squad: see `SpanLimits`.
        max_answer_length: squad: likewise.
        start_n_top: squad, version 2.0: see `BeamSpanModel`.
        end_n_top: squad, version 2.0: likewise.
        null_threshold: squad, version 2.0: what `null_score` must be below
            for there to be an answer; None for what the run of the checkpoint
            has tuned, or 0.

    Raises:
        ValueError: A value is impossible.
    """

    init_checkpoint: str
    export_dir: str
    task: str = "encoder"
    config: AlbertConfig | None = None
    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int | None = None
    precision: str = "float32"
    version: int | None = None
    model_name: str = "albert"
    tflite: bool = False
    labels: tuple[str, ...] | None = None
    max_qa_length: int = 128
    num_choices: int = 4
    doc_stride: int = 128
    max_query_length: int = 64
    n_best_size: int = 20
    max_answer_length: int = 30
    start_n_top: int = 5
    end_n_top: int = 5
    null_threshold: float | None = None

    def __post_init__(self) -> None:
        for name, choices in (("task", TASKS), ("precision", PRECISIONS)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}. Received: "
                    f"{getattr(self, name)!r}."
                )
        if self.version is not None and self.version < 1:
            raise ValueError(
                f"`version` must be 1 or more. Received: {self.version}."
            )
        if self.num_choices < MIN_OPTIONS:
            raise ValueError(
                f"`num_choices` must be {MIN_OPTIONS} or more. Received: "
                f"{self.num_choices}."
            )
        if self.labels is not None and self.task != "classifier":
            raise ValueError(
                "`labels` are a classifier's. Received: "
                f"labels={','.join(self.labels)}, task={self.task}."
            )
        self._check_tflite()

    def _check_tflite(self) -> None:
        if self.tflite and self.task not in LITERT_TASKS:
            raise ValueError(
                f"`tflite` is for {', '.join(LITERT_TASKS)}. Received: "
                f"task={self.task!r}. Leave it out."
            )
        if self.tflite and self.precision != "float32":
            raise ValueError(
                "`tflite` needs precision='float32'. Received: precision="
                f"{self.precision!r}. Export twice."
            )

    @property
    def known_seq_length(self) -> int:
        """`max_seq_length`, or its default."""
        return self.max_seq_length or DEFAULT_SEQ_LENGTHS[self.task]
