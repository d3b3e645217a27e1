"""What an export is asked to do.

Floor: export. Plain Python: a script makes one before any slow import.
"""

import dataclasses

from albert_tf.config import AlbertConfig

TASKS = ("encoder",)
PRECISIONS = ("float32", "bfloat16")
DEFAULT_SEQ_LENGTH = 512


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
        max_seq_length: Longest sequence made of raw text.
        precision: Of the stored matrices and of the layers; one of
            `PRECISIONS`.
        version: Number of the version; None for the one after the highest.
        model_name: The name that TF Serving knows the model by.

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
    max_seq_length: int = DEFAULT_SEQ_LENGTH
    precision: str = "float32"
    version: int | None = None
    model_name: str = "albert"

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
