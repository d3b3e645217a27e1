import bz2
import gzip

import pytest

from albert_tf.text import text_lines

TEXT = b"some words\n" * 999


def compress(suffix, data):
    if suffix == ".zst":
        return pytest.importorskip("backports.zstd").compress(data)
    return {".gz": gzip.compress, ".bz2": bz2.compress}[suffix](data)


def read(path):
    with text_lines.open_read(path) as file:
        return file.read()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\r\ntwo\n\nlast", ["one", "two", "", "last"]),
        # Only line feeds end a line.
        ("a\u2028b\x0bc\x85d\n", ["a\u2028b\x0bc\x85d"]),
        # A byte order mark is removed at the start only.
        ("\ufeffone\n\ufefftwo\n", ["one", "\ufefftwo"]),
    ],
)
def test_lines_come_without_their_ends(tmp_path, text, expected):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())

    assert list(text_lines.read_lines(path)) == expected


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_files_are_decompressed_as_their_names_say(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix.upper()}"
    # Parts that were compressed one by one, as parallel programs do.
    path.write_bytes(compress(suffix, TEXT) + compress(suffix, b"the end"))

    assert read(path) == TEXT + b"the end"
    assert text_lines.uncompressed_name(path) == str(tmp_path / "a.txt")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_damaged_data_is_an_error_that_names_the_file(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    data = compress(suffix, TEXT)
    middle = len(data) // 2
    changed = data[:middle] + bytes(9) + data[middle + 9 :]

    for damaged in (data[:-9], changed, TEXT):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"a\{suffix}': .* is damaged or"):
            read(path)
