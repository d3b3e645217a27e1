"""Columns of records, and the batches of an evaluation."""

import dataclasses
import functools

import numpy as np
import pytest

from albert_tf.data import record_columns
from albert_tf.data.record_columns import Padding
from albert_tf.features import ArraySpec

PADDING = Padding(max_seq_length=50, bucket_width=16)
LENGTHS = np.random.default_rng(0).integers(1, 51, 90)


def test_a_batch_of_an_evaluation_ends_where_shorter_records_begin():
    lengths = np.array([3] * 5 + [40] * 3 + [20] * 13)

    plan = record_columns.plan_evaluation(
        lengths, batch_size=8, padding=PADDING
    )

    # A batch of the last one of 20 alone would be too small.
    assert [(b.num_rows, b.length) for b in plan] == [
        *((3, 48), (12, 32), (3, 32), (3, 16))
    ]


def test_compiled_batches_of_a_length_have_the_same_number_of_rows():
    plan = functools.partial(
        record_columns.plan_evaluation,
        batch_size=4,
        padding=dataclasses.replace(PADDING, is_compiled=True),
    )

    *others, last = plan(LENGTHS)
    assert len({(b.num_rows, b.length) for b in others}) <= 4
    assert last.num_rows == 1 << (len(last.indices) - 1).bit_length()
    assert [batch.num_rows for batch in plan(LENGTHS[:1])] == [1]


COLUMN_SPECS = (
    ArraySpec(name="ids", dtype="int32", is_sequence=True),
    ArraySpec(name="choices", dtype="int32", shape=(2,), is_sequence=True),
    ArraySpec(name="free", dtype="float32", is_sequence=True, pad_value=1),
    ArraySpec(name="label", dtype="int32"),
    ArraySpec(name="scores", dtype="float32", shape=(3,)),
)


def make_records(number=5, seed=0, largest=70_000):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        length = int(rng.integers(1, 8))
        yield {
            "ids": rng.integers(0, 200, length),
            "choices": rng.integers(-3, largest, (2, length)),
            "free": rng.integers(0, 2, length).astype(np.float32),
            "label": np.array(rng.integers(0, 1000)),
            "scores": rng.normal(size=3).astype(np.float32),
        }


def collect(records, specs=COLUMN_SPECS, max_seq_length=7):
    return record_columns.collect(records, specs, max_seq_length=max_seq_length)


@pytest.mark.parametrize("chunk_size", [2, 1024])
def test_a_batch_holds_the_records_and_their_padding(chunk_size, monkeypatch):
    monkeypatch.setattr(record_columns, "_CHUNK_SIZE", chunk_size)
    records = list(make_records())
    columns = collect(records)

    batch = columns.padded([3, 0], 8)

    assert columns.num_records == 5
    for row, index in enumerate([3, 0]):
        record = records[index]
        length = len(record["ids"])
        assert columns.lengths[index] == length
        for spec in COLUMN_SPECS:
            found = batch[spec.name][row]
            wanted = record[spec.name]
            assert found.dtype == spec.dtype
            if spec.is_sequence:
                assert found.shape == (*spec.shape, 8)
                assert (found[..., length:] == spec.pad_value).all()
                found = found[..., :length]
            np.testing.assert_array_equal(found, wanted)


def test_the_digest_is_that_of_all_values():
    first, again, shorter, others = (
        collect(make_records(*arguments)).digest
        for arguments in ((), (), (4,), (5, 1))
    )

    assert first == again
    assert len({first, shorter, others}) == 3
