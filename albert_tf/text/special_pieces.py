"""The five pieces that text never becomes, found by name.

Floor: text. Plain Python.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from albert_tf import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Ids of the special pieces.

    Args:
        pad: `<pad>` (SentencePiece) or `[PAD]` (WordPiece).
        unk: `<unk>` or `[UNK]`.
        cls: `[CLS]`.
        sep: `[SEP]`.
        mask: `[MASK]`.
    """

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


SENTENCEPIECE_NAMES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def find_special_ids(
    ids: Mapping[str, int], names: Sequence[str], vocabulary: files.Path
) -> SpecialIds:
    """Looks the special pieces up.

    Args:
        ids: Id of every piece.
        names: Pieces of `pad`, `unk`, `cls`, `sep`, `mask`, in this order.
        vocabulary: The file, for the error.

    Raises:
        ValueError: One is missing; the message names it.
    """
    missing = [name for name in names if name not in ids]
    if missing:
        raise ValueError(
            f"{vocabulary}: the vocabulary has no piece "
            f"{', '.join(missing)}, which ALBERT needs. Use the vocabulary "
            "of an ALBERT checkpoint, or make one with build_vocab.py."
        )
    pad, unk, cls, sep, mask = (ids[name] for name in names)
    return SpecialIds(pad=pad, unk=unk, cls=cls, sep=sep, mask=mask)
