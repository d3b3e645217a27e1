"""The arrays of a record that the encoder takes: ids, mask, segments.

Data flow: ids of texts -> [this file] -> record of a data half.
"""

from collections.abc import Sequence

import numpy as np

from albert_tf.features import ArraySpec
from albert_tf.tasks.task_data import AnswerData, Record
from albert_tf.text import base
from albert_tf.text.base import Tokenizer
from albert_tf.text.vocabulary_file import SpecialIds


def array_specs(
    tokenizer: Tokenizer, *others: ArraySpec, shape: tuple[int, ...] = ()
) -> tuple[ArraySpec, ...]:
    """Returns the arrays that the encoder takes, `[*shape, s]`, and others."""
    pad_values = _pad_values(tokenizer.special_ids.pad)
    encoder_specs = (
        ArraySpec(
            name=name,
            dtype="int32",
            shape=shape,
            is_sequence=True,
            pad_value=pad_value,
        )
        for name, pad_value in pad_values.items()
    )
    return (*encoder_specs, *others)


def _pad_values(pad_id: int) -> dict[str, int]:
    return {"input_ids": pad_id, "input_mask": 0, "segment_ids": 0}


def of_pair(
    data: AnswerData, ids_a: list[int], ids_b: Sequence[int] = ()
) -> Record:
    """Returns the arrays of `array_specs` of one text, or of two."""
    ids, segment_ids = base.encode_pair(
        ids_a,
        ids_b,
        max_seq_length=data.max_seq_length,
        special=data.tokenizer.special_ids,
    )
    return {
        "input_ids": np.array(ids, np.int32),
        "input_mask": np.ones(len(ids), np.int32),
        "segment_ids": np.array(segment_ids, np.int32),
    }


def of_two(ids_a: np.ndarray, ids_b: np.ndarray, special: SpecialIds) -> Record:
    """Returns the arrays of `array_specs` of two texts, without truncation."""
    start = len(ids_a) + special.num_around(2) - 1
    input_ids = np.full(start + len(ids_b) + 1, special.sep, np.int32)
    input_ids[0] = special.cls or 0
    input_ids[1 : start - 1] = ids_a
    input_ids[start:-1] = ids_b
    segment_ids = np.zeros(len(input_ids), np.int32)
    segment_ids[start:] = 1
    return {
        "input_ids": input_ids,
        "input_mask": np.ones(len(input_ids), np.int32),
        "segment_ids": segment_ids,
    }


def stacked(rows: Sequence[Record], pad_id: int) -> Record:
    """Returns the arrays of C sequences, `[C, s]`, padded to the longest."""
    shape = (len(rows), max(len(row["input_ids"]) for row in rows))
    arrays = {
        name: np.full(shape, pad_value, np.int32)
        for name, pad_value in _pad_values(pad_id).items()
    }
    for i, row in enumerate(rows):
        for name, array in row.items():
            arrays[name][i, : len(array)] = array
    return arrays
