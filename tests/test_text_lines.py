import gzip
import io

import pytest

from albert_tf import text_lines


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


def test_a_gzipped_file_reads_like_a_plain_one(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("Zoë\nAndré\n".encode()))

    assert list(text_lines.read_lines(path)) == ["Zoë", "André"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("latin.txt", b"good\ncaf\xe9\n", "latin.txt, line 2: not UTF-8 .* 3"),
        (
            "a.gz",
            gzip.compress(b"some words\n" * 99, mtime=0)[:-20],
            "damaged gzip data",
        ),
        ("a.gz", b"not gzip at all", "damaged gzip data"),
    ],
)
def test_damaged_lines_are_an_error(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)

    with pytest.raises(ValueError, match=message):
        list(text_lines.read_lines(path))


def test_lines_that_are_not_utf8_can_be_skipped():
    bad_lines = []

    lines = text_lines.numbered_lines(
        io.BytesIO(b"one\ncaf\xe9\nthree\n"),
        "latin.txt",
        on_bad_line=bad_lines.append,
    )

    assert list(lines) == [(1, "one"), (3, "three")]
    (message,) = bad_lines
    assert message.startswith("latin.txt, line 2: not UTF-8 ")


def test_reading_lines_of_a_missing_file_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*nowhere.txt"):
        list(text_lines.read_lines(tmp_path / "nowhere.txt"))
