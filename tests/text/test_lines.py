import gzip

import pytest

from albert_tf.text import lines


def test_lines_come_without_their_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\n\nlast")

    assert list(lines.read_lines(path)) == ["one", "two", "", "last"]


def test_only_line_feeds_end_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("a\u2028b\x0bc\x85d\n".encode())

    assert list(lines.read_lines(path)) == ["a\u2028b\x0bc\x85d"]


def test_a_gzipped_file_reads_like_a_plain_one(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("Zoë\nAndré\n".encode()))

    assert list(lines.read_lines(path)) == ["Zoë", "André"]


def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\n\ufefftwo\n".encode())

    assert list(lines.read_lines(path)) == ["one", "\ufefftwo"]


def test_bytes_that_are_not_utf8_are_named_by_file_and_line(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"good\ncaf\xe9\n")

    with pytest.raises(ValueError, match=r"latin.txt, line 2: not UTF-8 .* 3"):
        list(lines.read_lines(path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*nowhere.txt"):
        list(lines.read_lines(tmp_path / "nowhere.txt"))


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"some words\n" * 99)[:-20], b"not gzip at all"],
    ids=["cut short", "no gzip"],
)
def test_damaged_gzip_data_is_an_error(tmp_path, data):
    path = tmp_path / "a.gz"
    path.write_bytes(data)

    with pytest.raises(ValueError, match="damaged gzip data"):
        list(lines.read_lines(path))
