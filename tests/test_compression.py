import bz2
import gzip
import sys

import pytest

from albert_tf import compression

TEXT = b"some words\n" * 999


def compress(suffix, data):
    if suffix == ".zst":
        zstd = pytest.importorskip("backports.zstd")
        return zstd.compress(data)
    return {".gz": gzip.compress, ".bz2": bz2.compress}[suffix](data)


def read(path):
    with compression.open_read(path) as file:
        return file.read()


SUFFIXES = pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])


@SUFFIXES
def test_files_are_unpacked_as_their_names_say(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix.upper()}"
    # Parts that were compressed one by one, as parallel programs do.
    path.write_bytes(compress(suffix, TEXT) + compress(suffix, b"the end"))

    assert read(path) == TEXT + b"the end"
    assert compression.uncompressed_name(path) == str(tmp_path / "a.txt")


def test_a_file_of_another_name_is_read_as_it_is(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"BZh is no mark of bzip2.")

    assert read(path) == b"BZh is no mark of bzip2."
    assert compression.uncompressed_name(path) == str(path)


def test_data_that_was_compressed_with_a_long_memory_is_read(tmp_path):
    # As `zstd --long=31` does, which compresses large corpora best.
    zstd = pytest.importorskip("backports.zstd")
    path = tmp_path / "a.zst"
    options = {zstd.CompressionParameter.window_log: 31}
    with zstd.open(path, "wb", options=options) as file:
        file.write(TEXT)

    assert read(path) == TEXT


def test_an_empty_content_is_no_damage(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b""))

    assert read(path) == b""


@SUFFIXES
@pytest.mark.parametrize("damage", ["short", "empty", "other", "two"])
def test_damaged_data_is_an_error(tmp_path, suffix, damage):
    path = tmp_path / f"a{suffix}"
    data = compress(suffix, TEXT)
    path.write_bytes(
        {
            "short": data[:-9],
            "empty": b"",
            "other": b"not compressed",
            "two": b"ab",
        }[damage]
    )

    with pytest.raises(
        compression.DamagedDataError,
        match=r"damaged (gzip|bzip2|Zstandard) data \(.+\)\.",
    ):
        read(path)


@SUFFIXES
def test_damage_between_two_parts_is_not_taken_for_the_end(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    data = compress(suffix, TEXT)
    path.write_bytes(data + b"X" + data[1:])

    with pytest.raises(compression.DamagedDataError, match="damaged"):
        read(path)


@SUFFIXES
@pytest.mark.parametrize("name", ["a.txt", "twice.gz"])
def test_data_that_is_compressed_but_not_named_so_is_an_error(
    tmp_path, suffix, name
):
    path = tmp_path / name
    data = compress(suffix, TEXT)
    path.write_bytes(gzip.compress(data) if name == "twice.gz" else data)

    with pytest.raises(
        ValueError, match=rf"{name}' holds .* does not say\. Add '\{suffix}'"
    ):
        read(path)


def test_a_missing_package_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "backports", None)
    path = tmp_path / "a.zst"
    path.write_bytes(b"")

    with pytest.raises(ImportError, match=r"a\.zst' .*backports\.zstd"):
        read(path)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere\.gz"):
        read(tmp_path / "nowhere.gz")
