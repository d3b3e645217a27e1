"""What made a record file: `<file>.json`, written beside it and checked.

Floor: data. Plain Python.
"""

import dataclasses
import json
import os
from typing import Any

from albert_tf import files

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sidecar:
    """Facts about one record file.

    Args:
        masking: `static` (the original's eight features) or `dynamic`.
        max_seq_length: S, special pieces included.
        max_predictions_per_seq: Masked positions a record may have.
        num_prediction_slots: P, the length of the masked_lm fields (twice
            `max_predictions_per_seq` with permutation).
        pair_objective: `sop`, `nsp` or `none`.
        masked_lm_prob: Share of pieces to mask, specials counted.
        ngram: Longest n-gram of words to mask.
        favor_shorter_ngram: Whether p(n) is proportional to 1/n, or reversed.
        do_whole_word_mask: Whether masking units are words, or pieces.
        tokenizer_hash: Digest of vocabulary and normalisation.
        vocab_size: V.
        special_ids: Ids by name: pad, unk, cls, sep, mask.
        forbidden_ids: Sorted ids that a random replacement must not be.
        flags: The flags of the command that made the file.
        counts: Whole numbers by name; `records` is always there.
        num_bytes: Size of the record file.
        sha256: Its checksum.
    """

    masking: str
    max_seq_length: int
    max_predictions_per_seq: int
    num_prediction_slots: int
    pair_objective: str
    masked_lm_prob: float
    ngram: int
    favor_shorter_ngram: bool
    do_whole_word_mask: bool
    tokenizer_hash: str
    vocab_size: int
    special_ids: dict[str, int]
    forbidden_ids: list[int]
    flags: dict[str, Any]
    counts: dict[str, int]
    num_bytes: int
    sha256: str
    version: int = FORMAT_VERSION


def sidecar_path(record_path: files.Path) -> str:
    """Returns the path of the sidecar of a record file."""
    return os.fspath(record_path) + ".json"


def write(record_path: files.Path, sidecar: Sidecar) -> None:
    """Writes the sidecar of `record_path`, whole or not at all."""
    text = json.dumps(dataclasses.asdict(sidecar), indent=2, sort_keys=True)
    files.write_text(sidecar_path(record_path), text + "\n")


def read(record_path: files.Path) -> Sidecar | None:
    """Reads the sidecar of a record file; None if it has none.

    Raises:
        ValueError: The sidecar is damaged, or of another version.
    """
    path = sidecar_path(record_path)
    if not os.path.exists(path):
        return None
    try:
        values = json.loads(files.read_text(path))
        if values.get("version") != FORMAT_VERSION:
            raise ValueError(
                f"version {values.get('version')!r}, wanted {FORMAT_VERSION}"
            )
        return Sidecar(**values)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path!r} is not a sidecar this version reads ({error}). "
            "Build the records again."
        ) from error
