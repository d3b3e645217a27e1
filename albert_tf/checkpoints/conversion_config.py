"""What a conversion is asked to do.

Floor: checkpoints. Plain Python: a script makes one before any slow import.
"""

import dataclasses

from albert_tf.config import SHARING_STRATEGIES, AlbertConfig

FORMATS = ("tf1", "keras", "huggingface", "keras_hub")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionJob:
    """One conversion.

    Args:
        input_path: Of a checkpoint in any format.
        output_path: Folder to make.
        output_format: One of `tf1` (Google's), `keras` (ours),
            `huggingface`, `keras_hub`.
        config: Instead of the one beside the input; None for that one.
        vocabulary: Path, likewise.
        do_lower_case: Whether the vocabulary is for lower-cased text; None
            for what the input says, or True.
        merge_from: Another checkpoint, whose heads are added; "" for none.
        num_hidden_layers: New depth; None for the input's.
        num_hidden_groups: New number of groups, all copies of the first.
        parameter_sharing: New strategy, of which less is shared.
        verify: Whether to run the written weights and compare.

    Raises:
        ValueError: A value is impossible.
    """

    input_path: str
    output_path: str
    output_format: str
    config: AlbertConfig | None = None
    vocabulary: str | None = None
    do_lower_case: bool | None = None
    merge_from: str = ""
    num_hidden_layers: int | None = None
    num_hidden_groups: int | None = None
    parameter_sharing: str | None = None
    verify: bool = False

    def __post_init__(self) -> None:
        for name, choices in (
            ("output_format", FORMATS),
            ("parameter_sharing", (None, *SHARING_STRATEGIES)),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of "
                    f"{', '.join(c for c in choices if c)}. Received: "
                    f"{getattr(self, name)!r}."
                )
