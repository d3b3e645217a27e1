"""What a record holds: the names, shapes and types of its fields.

The one place where a field's record name (fixed by existing files) meets its
name in a batch. Writers, readers and models all take both from here.

Floor 0: plain Python.

Source: google-research/albert, `create_pretraining_data.py`.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """One array of a fine-tuning record, and how a batch of it is padded.

    A record is one example as numbers: a dict of arrays without padding. Its
    length s is that of its sequence arrays, which all have the same.

    Args:
        name: Its name in a record and in a batch.
        dtype: `int32` or `float32`.
        shape: Of the array in a record, without the sequence axis.
        is_sequence: Whether the array has a last axis of the length s.
        pad_value: What fills that axis up in a batch.

    Raises:
        ValueError: The type is another one.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    is_sequence: bool = False
    pad_value: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in ("int32", "float32"):
            raise ValueError(
                "`dtype` must be int32 or float32. Received: "
                f"dtype={self.dtype!r} for {self.name!r}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """One field of a record.

    Args:
        name: Its name in a batch and in all of this code.
        record_name: Its name in a TFRecord.
        length: Values a record holds; None if it differs by record.
        dtype: `int64` or `float32`, the type in the record. Integers become
            int32 in a batch.
    """

    name: str
    record_name: str
    length: int | None
    dtype: str = "int64"


def _feature(
    name: str,
    length: int | None,
    *,
    record_name: str | None = None,
    dtype: str = "int64",
) -> Feature:
    return Feature(
        name=name,
        record_name=record_name or name,
        length=length,
        dtype=dtype,
    )


def static_pretraining_features(
    *, max_seq_length: int, max_predictions: int
) -> tuple[Feature, ...]:
    """The original's eight fields: masks drawn when the record was written.

    Args:
        max_seq_length: S.
        max_predictions: P, masked positions a record has room for (twice
            `--max_predictions_per_seq` with `--do_permutation`).
    """
    return (
        _feature("input_ids", max_seq_length),
        _feature("input_mask", max_seq_length),
        _feature("segment_ids", max_seq_length),
        _feature("token_boundary", max_seq_length),
        _feature("masked_lm_positions", max_predictions),
        _feature("masked_lm_ids", max_predictions),
        _feature("masked_lm_weights", max_predictions, dtype="float32"),
        # TF1: the field was named for BERT's task; it holds 1 where the two
        # segments are swapped (or, for next-sentence data, unrelated).
        _feature(
            "sentence_order_labels", 1, record_name="next_sentence_labels"
        ),
    )


def dynamic_pretraining_features() -> tuple[Feature, ...]:
    """An unmasked pair: masks and the order swap are drawn when it is read.

    `pair_ids` holds segment A then segment B in the order of the text,
    without special tokens or padding; `token_boundary` is 1 where a token
    starts a word, of the same length. `segment_a_length` says where B begins
    (equal to the whole length for a single segment). `pair_label` is 0 if B
    follows A, 1 if B comes from another document (next-sentence data).
    """
    return (
        _feature("pair_ids", None),
        _feature("token_boundary", None),
        _feature("segment_a_length", 1),
        _feature("pair_label", 1),
    )
