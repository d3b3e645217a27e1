"""Defines the fields of a record: their names, shapes and types.

This is the only place where the record name of a field (fixed by existing
files) is mapped to its name in a batch. Writers, readers and models use both
from here.

Source: google-research/albert, `create_pretraining_data.py`.
"""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """Describes one array of a fine-tuning record, and its padding in a batch.

    A record is one example as numbers: a dict of arrays without padding. Its
    length s is the common length of its sequence arrays.

    Args:
        name: Name of the array in a record and in a batch.
        dtype: `int32` or `float32`.
        shape: Shape of the array in a record, without the sequence axis.
        is_sequence: Whether the array has a last axis of length s.
        pad_value: The value that pads this axis in a batch.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    is_sequence: bool = False
    pad_value: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """Describes one field of a pretraining record.

    Args:
        name: Name of the field in a batch and in all of this code.
        record_name: Name of the field in a TFRecord.
        length: Number of values in a record; None if it varies.
        dtype: `int64` or `float32`, the type in the record. Integers become
            int32 in a batch.
        is_read: Whether readers need the field; BERT's records lack one.
    """

    name: str
    record_name: str
    length: int | None
    dtype: str = "int64"
    is_read: bool = True


def _feature(
    name: str, length: int | None, record_name: str = "", **others: Any
) -> Feature:
    return Feature(
        name=name, record_name=record_name or name, length=length, **others
    )


def static_pretraining_features(
    *, max_seq_length: int, max_predictions: int
) -> tuple[Feature, ...]:
    """Returns the original's eight fields: masks are drawn at the build.

    Args:
        max_seq_length: S.
        max_predictions: P, the prediction slots of a record (twice
            `--max_predictions_per_seq` with `--do_permutation`).
    """
    return (
        _feature("input_ids", max_seq_length),
        _feature("input_mask", max_seq_length),
        _feature("segment_ids", max_seq_length),
        _feature("token_boundary", max_seq_length, is_read=False),
        _feature("masked_lm_positions", max_predictions),
        _feature("masked_lm_ids", max_predictions),
        _feature("masked_lm_weights", max_predictions, dtype="float32"),
        # TF1: the field is named after BERT's task; it is 1 if the segments
        # are swapped (or, for next-sentence data, unrelated).
        _feature("sentence_order_labels", 1, "next_sentence_labels"),
    )


def dynamic_pretraining_features() -> tuple[Feature, ...]:
    """Returns the fields of an unmasked pair: masks are drawn at reading.

    `pair_ids` has segment A and then segment B in the order of the text,
    without special tokens or padding; `token_boundary`, of the same length, is
    1 where a token starts a word. `segment_a_length` is where B begins (the
    whole length for a single segment). `pair_label` is 0 if B follows A, 1 if
    B comes from another document (next-sentence data).
    """
    return (
        _feature("pair_ids", None),
        _feature("token_boundary", None),
        _feature("segment_a_length", 1),
        _feature("pair_label", 1),
    )
