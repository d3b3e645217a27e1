"""Defines the fields of a record: their names, shapes and types.

Existing files fix the name of a field in a record; only this file maps it to
the name in a batch.

Source: google-research/albert, `create_pretraining_data.py`.
"""

import dataclasses


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


@dataclasses.dataclass(frozen=True)
class Feature:
    """Describes one field of a pretraining record.

    Args:
        name: Name of the field in a batch and in all of this code.
        length: Number of values in a record; None if it varies.
        dtype: `int64` or `float32`, the type in the record. Integers become
            int32 in a batch.
        is_read: Whether readers need the field; BERT's records lack one.
    """

    name: str
    length: int | None
    dtype: str = "int64"
    is_read: bool = True

    @property
    def record_name(self) -> str:
        """Name of the field in a TFRecord."""
        # TF1: the field is named after BERT's task; it is 1 if the segments
        # are swapped (or, for next-sentence data, unrelated).
        is_label = self.name == "sentence_order_labels"
        return "next_sentence_labels" if is_label else self.name


def static_pretraining_features(
    *, max_seq_length: int, max_predictions: int
) -> tuple[Feature, ...]:
    """Returns the original's eight fields: the masks are already drawn.

    Args:
        max_seq_length: S.
        max_predictions: P, the number of masked positions that fit a record
            (twice `--max_predictions_per_seq` with `--do_permutation`).
    """
    return (
        Feature("input_ids", max_seq_length),
        Feature("input_mask", max_seq_length),
        Feature("segment_ids", max_seq_length),
        Feature("token_boundary", max_seq_length, is_read=False),
        Feature("masked_lm_positions", max_predictions),
        Feature("masked_lm_ids", max_predictions),
        Feature("masked_lm_weights", max_predictions, dtype="float32"),
        Feature("sentence_order_labels", 1),
    )


def dynamic_pretraining_features() -> tuple[Feature, ...]:
    """Returns the fields of an unmasked pair, whose readers draw the masks.

    `pair_ids` has segment A and then segment B in the order of the text,
    without special tokens or padding; `token_boundary`, of the same length, is
    1 where a token starts a word. `segment_a_length` is the index at which B
    begins (the whole length for a single segment). `pair_label` is 0 if B
    follows A, 1 if B comes from another document (next-sentence data).
    """
    return (
        Feature("pair_ids", None),
        Feature("token_boundary", None),
        Feature("segment_a_length", 1),
        Feature("pair_label", 1),
    )
