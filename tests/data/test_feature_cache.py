import dataclasses
import resource

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.data import feature_cache
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
    return feature_cache.collect(records, specs, max_seq_length=max_seq_length)


@pytest.mark.parametrize("chunk_size", [2, 1024])
def test_a_batch_holds_the_records_and_their_padding(chunk_size, monkeypatch):
    monkeypatch.setattr(feature_cache, "_CHUNK_SIZE", chunk_size)
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
    ("change", "message"),
    [
        ({"more": np.zeros(1)}, "Record 0 has the arrays .*more.*; expected"),
        ({"ids": np.zeros(8)}, r"'choices' has the shape \(2, .*, 8\)"),
        ({"label": np.zeros(1)}, r"'label' .*\(1,\), expected \(\)"),
        ({"ids": np.array(1)}, r"'ids' .* \(\), expected \(None,\)"),
    ],
)
def test_a_record_must_agree_with_the_specs(change, message):
    record = next(make_records()) | change

    with pytest.raises(ValueError, match=message):
        collect([record])


@pytest.mark.parametrize("length", [0, 8])
def test_a_record_must_not_be_empty_or_too_long(length):
    with pytest.raises(
        ValueError, match=f"Record 0 has {length} tokens; expected 1 to max_seq"
    ):
        collect([{"ids": np.zeros(length, np.int32)}], SPECS[:1])


STORED_SPECS = (
    ArraySpec(name="ids", dtype="int32", is_sequence=True),
    ArraySpec(name="label", dtype="float32"),
)


def make_columns():
    records = [
        {"ids": np.arange(length), "label": np.float32(length / 2)}
        for length in (3, 1, 300)
    ]
    return feature_cache.collect(records, STORED_SPECS, max_seq_length=300)


@pytest.fixture
def load(tmp_path):
    """Loads or makes records; returns them and how often they were made."""
    made = []

    def make():
        made.append(1)
        return make_columns()

    def load_fingerprint(fingerprint="k" * 64, specs=STORED_SPECS):
        columns = feature_cache.load_or_make(
            str(tmp_path / "cache"),
            "cola-train",
            fingerprint,
            specs=specs,
            make=make,
        )
        return columns, len(made)

    return load_fingerprint


def assert_whole(columns):
    expected = make_columns()
    np.testing.assert_array_equal(columns.lengths, expected.lengths)
    for name, values in expected.values.items():
        np.testing.assert_array_equal(columns.values[name], values)
        assert columns.values[name].dtype == values.dtype


def test_records_are_made_once_for_each_fingerprint(load, tmp_path):
    assert_whole(load()[0])
    columns, times = load()
    assert times == 1
    assert_whole(columns)

    assert load("other" * 10)[1] == 2
    assert load()[1] == 2
    names = sorted(p.name for p in (tmp_path / "cache").iterdir())
    assert names == [
        "cola-train-kkkkkkkkkkkkkkkk.safetensors",
        "cola-train-otherotherothero.safetensors",
    ]


def test_stored_records_are_mapped_and_readable_by_safetensors(load, tmp_path):
    load()

    (path,) = (tmp_path / "cache").iterdir()
    stored = safetensors.numpy.load_file(path)
    assert stored.keys() == {"lengths", "ids", "label"}
    for values in load()[0].values.values():
        assert not values.flags.owndata and not values.flags.writeable


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "is damaged"),
        (lambda data: data[:-1] + b"\x07", "checksum does not agree"),
        (lambda data: data[:40], "is damaged"),
        (lambda data: b"", "is damaged"),
        (
            lambda data: data.replace(b'version":"2"', b'version":"9"'),
            "another format version",
        ),
        (lambda data: data.replace(b"kk", b"ll"), "another fingerprint"),
        (
            lambda data: safetensors.numpy.save({"other": np.zeros(1)}),
            "another format version",
        ),
    ],
)
def test_a_damaged_file_is_made_again_with_a_warning(
    damage, message, load, tmp_path, caplog
):
    load()
    (path,) = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))

    columns, times = load()

    assert times == 2
    assert_whole(columns)
    assert message in caplog.text
    assert "Making the records again" in caplog.text
    assert feature_cache.read(path, "k" * 64, STORED_SPECS).num_records == 3


def test_a_file_with_other_arrays_is_made_again(load, caplog):
    load()
    _, times = load(specs=STORED_SPECS[:1])

    assert times == 2
    assert "another array specs" in caplog.text


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "cache"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match=f"{path}: .*too large"):
            feature_cache.write(path, "k", make_columns())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert list(tmp_path.iterdir()) == []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    guid: str
    text: str
    label: int | None = None


def fingerprint(**changes):
    values = {
        "settings": {"task": "cola", "max_seq_length": 8},
        "examples": [Example(guid="a", text="Good.", label=1)],
        "is_training": True,
    }
    return feature_cache.fingerprint(**values | changes)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"task": "cola", "max_seq_length": 9}},
        {"examples": [Example(guid="b", text="Good.", label=1)]},
        {"examples": [Example(guid="a", text="Bad.", label=1)]},
        {"examples": [Example(guid="a", text="Good.", label=0)]},
        {"examples": [Example(guid="a", text="Good.")]},
        {"examples": [Example(guid="a", text="Good.", label=1)] * 2},
        {"examples": []},
        # No file can hold this text.
        {"examples": [Example(guid="a", text="\ud83d", label=1)]},
        {"is_training": False},
    ],
)
def test_whatever_makes_the_records_changes_the_fingerprint(change):
    assert fingerprint() == fingerprint(
        settings={"max_seq_length": 8, "task": "cola"}
    )
    assert fingerprint(**change) != fingerprint()
