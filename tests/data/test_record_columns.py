import numpy as np
import pytest

from albert_tf.data import record_columns
from albert_tf.features import ArraySpec

SPECS = (
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


def collect(records, specs=SPECS, max_seq_length=7):
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
        for spec in SPECS:
            found = batch[spec.name][row]
            wanted = record[spec.name]
            assert found.dtype == spec.dtype
            if spec.is_sequence:
                assert found.shape == (*spec.shape, 8)
                assert (found[..., length:] == spec.pad_value).all()
                found = found[..., :length]
            np.testing.assert_array_equal(found, wanted)


def test_columns_take_the_smallest_type_that_loses_nothing():
    columns = collect(make_records())

    types = {name: v.dtype.name for name, v in columns.values.items()}
    assert types == {
        "ids": "uint8",
        "choices": "int32",
        "free": "uint8",
        "label": "uint16",
        "scores": "float32",
    }


def test_a_field_is_given_for_all_records():
    records = list(make_records())

    labels = collect(records).field("label")

    assert labels.dtype == np.int32
    assert labels.tolist() == [int(record["label"]) for record in records]


def test_there_must_be_a_record():
    with pytest.raises(ValueError, match="The examples give no record"):
        collect([])


@pytest.mark.parametrize(
    ("ids", "choices"), [(0, 0), (8, 8), (3, 4)], ids=["empty", "long", "both"]
)
def test_a_record_has_one_length_within_bounds(ids, choices):
    record = {"ids": np.zeros(ids), "choices": np.zeros((2, choices))}

    with pytest.raises(ValueError, match="Record 0 has .* 1 to max_seq_length"):
        collect([record], SPECS[:2])


def test_the_digest_is_that_of_all_values():
    digests = {
        collect(records).digest
        for records in (
            make_records(),
            make_records(),
            make_records(4),
            make_records(seed=1),
        )
    }

    assert len(digests) == 3
