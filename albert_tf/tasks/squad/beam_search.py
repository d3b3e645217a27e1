"""Settings of the search for answers in SQuAD 2.0.

Floor: tasks. Plain Python, so that a script can report a bad flag before
TensorFlow is imported.
"""

import dataclasses

# Pieces of the shortest batch: lengths are padded to multiples of it.
MAX_TOP = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """Settings of the head of version 2.0.

    Args:
        start_n_top: k1, how many starts are followed.
        end_n_top: k2, how many ends for each of them.
        dropout_prob: Share that is dropped before the score of no answer.

    Raises:
        ValueError: A number is below 1 or above `MAX_TOP`, or the share not
            in [0, 1).
    """

    start_n_top: int = 5
    end_n_top: int = 5
    dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        for name in ("start_n_top", "end_n_top"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: {name}={value}."
                )
            if value > MAX_TOP:
                raise ValueError(
                    f"`{name}` must be at most {MAX_TOP}, because a batch of "
                    "short windows has no more pieces to choose from. "
                    f"Received: {name}={value}."
                )
        if not 0 <= self.dropout_prob < 1:
            raise ValueError(
                "`dropout_prob` must be at least 0 and below 1. Received: "
                f"dropout_prob={self.dropout_prob}."
            )
