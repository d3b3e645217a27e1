"""Stored records are found under what made them, and only there."""

import dataclasses

import numpy as np
import pytest

from albert_tf.data import feature_cache, record_columns
from albert_tf.features import ArraySpec

SPECS = (
    ArraySpec(name="ids", dtype="int32", is_sequence=True),
    ArraySpec(name="label", dtype="float32"),
)


def make_columns():
    records = [
        {"ids": np.arange(length), "label": np.float32(length / 2)}
        for length in (3, 1, 300)
    ]
    return record_columns.collect(records, SPECS, max_seq_length=300)


@pytest.fixture
def load(tmp_path):
    """Loads or makes records; returns them and how often they were made."""
    made = []

    def make():
        made.append(1)
        return make_columns()

    def load_key(key="k" * 64, specs=SPECS):
        columns = feature_cache.load_or_make(
            str(tmp_path / "cache"), "cola-train", key, specs=specs, make=make
        )
        return columns, len(made)

    return load_key


def assert_whole(columns):
    wanted = make_columns()
    np.testing.assert_array_equal(columns.lengths, wanted.lengths)
    for name, values in wanted.values.items():
        np.testing.assert_array_equal(columns.values[name], values)
        assert columns.values[name].dtype == values.dtype


def test_records_are_made_once_for_each_key(load, tmp_path):
    assert_whole(load()[0])
    columns, times = load()
    assert times == 1
    assert_whole(columns)

    assert load("other" * 10)[1] == 2
    assert load()[1] == 2
    names = sorted(p.name for p in (tmp_path / "cache").iterdir())
    assert names == [
        "cola-train-kkkkkkkkkkkkkkkk.records",
        "cola-train-otherotherothero.records",
    ]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "is damaged"),
        (lambda data: data[:-1] + b"\x07", "is damaged"),
        (lambda data: data[:40], "is damaged, or of another version"),
        (lambda data: b"", "is empty"),
        (
            lambda data: data.replace(b'"version": 1', b'"version": 9'),
            "of another version",
        ),
        (lambda data: data.replace(b"kk", b"ll"), "made by other settings"),
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
    assert "making the records again" in caplog.text
    assert path.read_bytes() == whole


def test_a_file_with_other_arrays_is_made_again(load, caplog):
    load()
    _, times = load(specs=SPECS[:1])

    assert times == 2
    assert "holds other arrays" in caplog.text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    guid: str
    text: str
    label: int | None = None


def key(**changes):
    values = {
        "settings": {"task": "cola", "max_seq_length": 8},
        "examples": [Example(guid="a", text="Good.", label=1)],
        "is_training": True,
    }
    return feature_cache.cache_key(**values | changes)


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
        {"is_training": False},
    ],
)
def test_whatever_makes_the_records_changes_the_key(change):
    assert key() == key(settings={"max_seq_length": 8, "task": "cola"})
    assert key(**change) != key()


def test_a_key_takes_texts_that_no_file_can_hold():
    assert key(examples=[Example(guid="a", text="\ud83d")]) != key()
