import gzip
import os

import pytest

from albert_tf.tasks import table_files


@pytest.fixture
def write(tmp_path):
    def write(text, name="rows.tsv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def rows(path, *columns, **options):
    return [tuple(r) for r in table_files.read_rows(path, columns, **options)]


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        (
            "a\tb\tc\n1\t2\t3\n4\t5\t6\n",
            "ca",
            [(2, ("3", "1")), (3, ("6", "4"))],
        ),
        # Quotes are plain characters.
        (
            'a\tb\n"he said "\tx\n"\t"y\n',
            "ab",
            [(2, ('"he said "', "x")), (3, ('"', '"y'))],
        ),
        # A byte order mark and carriage returns are no text.
        ("\ufeffa\tb\r\n1\t2\r\n", "ab", [(2, ("1", "2"))]),
        # Other line separators stay in a field.
        ("a\tb\n1\u2028x\u0085y\t2\n", "a", [(2, ("1\u2028x\u0085y",))]),
        # Blank lines at the end are no rows.
        ("a\tb\n1\t2\n\n\n", "a", [(2, ("1",))]),
        # Others are empty fields of a single column.
        ("a\n\nx\n", "a", [(2, ("",)), (3, ("x",))]),
    ],
)
def test_rows_are_fields_between_tabs(text, columns, expected, write):
    assert rows(write(text), *columns) == expected


def test_a_quoted_empty_field_at_the_end_is_a_row(write):
    path = write('a\n""\nx\n""\n\n', "rows.csv")

    assert rows(path, "a") == [(2, ("",)), (3, ("x",)), (4, ("",))]


@pytest.mark.parametrize(
    "read", [table_files.read_header, lambda path: rows(path, "a")]
)
def test_a_pipe_is_refused_because_its_first_rows_would_be_lost(read):
    reader, writer = os.pipe()
    os.write(writer, b"a\n1\n2\n")
    os.close(writer)
    try:
        with pytest.raises(ValueError, match="/dev/fd.* is a folder or a pipe"):
            read(f"/dev/fd/{reader}")
    finally:
        os.close(reader)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is a folder or a pipe"):
        rows(tmp_path, "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n\n1\t2\n", "line 2: the row must have 2 .* 1 fields"),
        (
            "a\tb\tc\n1\t2\t3\n1\t2\n",
            r"line 3: the row must have 3 fields \(a, b, c\).* 2 fields",
        ),
        (
            "a\tb\tc\n1\t2\t3\n1\t2\t3\t4\n",
            "line 3: the row must have 3 .* 4 fields",
        ),
        ("c\tb\n1\t2\n", "no column named 'a'.* 'c', 'b'"),
        ("a\ta\n1\t2\n", "two columns named 'a'"),
        ("", "rows.tsv is empty"),
        (b"a\tb\n1\t2\n\xff\t3\n", "line 3: not UTF-8"),
    ],
)
def test_wrong_rows_and_columns_are_refused(text, message, write):
    with pytest.raises(ValueError, match=message):
        rows(write(text), "a")


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("a,b\n1,2\n", "ba", [(2, ("2", "1"))]),
        # Quoted: commas, line breaks of both kinds, quotes written twice.
        (
            '"a",b\r\n"one, two","x\r\ny"\r\n"he said ""no""",z\r\n',
            "ab",
            [(2, ("one, two", "x\ny")), (4, ('he said "no"', "z"))],
        ),
        # Quotes within a field that is not quoted are plain characters.
        ('a,b\n5" disk,x\n', "a", [(2, ('5" disk',))]),
        ("\ufeffa,b\n1,2\n\n\n", "a", [(2, ("1",))]),
        ('a\n\n"x"\n', "a", [(2, ("",)), (3, ("x",))]),
        ("a,b\n1\u2028x,\ty\n", "ab", [(2, ("1\u2028x", "\ty"))]),
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_rows_of_csv_may_be_quoted(name, text, columns, expected, write):
    path = write(gzip.compress(text.encode()) if "gz" in name else text, name)

    assert rows(path, *columns) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n\n3,4\n", "line 3: the row must have 2 .* 1 fields"),
        ("a,b\n1,x, y\n", "line 2: .*by commas; a text .* needs quotes.* 3 f"),
        ('a,b\n"1\n2",3\n"4",5,6\n', "line 4: the row must have 2 .* 3 fie"),
        ('a,b\n1,2\n"no end,3\n4,5\n', "line 3: the row is not CSV .unexpe"),
        ('a,b\n1,"x" y\n', r"line 2: the row is not CSV \(',' expected"),
        ("a,b\r1,2\r", "line 1: the row is not CSV .new-line character"),
        ("", "rows.csv is empty"),
        ("b,c\n1,2\n", "no column named 'a'"),
    ],
)
def test_wrong_rows_of_csv_are_refused_with_their_line(text, message, write):
    with pytest.raises(ValueError, match=message):
        rows(write(text, "rows.csv"), "a")


def test_a_quote_that_is_never_closed_does_not_fill_the_memory(
    write, monkeypatch
):
    monkeypatch.setattr(table_files, "_MAX_FIELD_CHARACTERS", 1000)
    path = write('a\n"' + "x" * 900 + '"\n"' + "line\n" * 300, "rows.csv")

    with pytest.raises(ValueError, match=r"line 3: the row is not CSV \(field"):
        rows(path, "a")


def test_a_long_text_is_one_field(write):
    # Python's csv module refuses these by default.
    text = "x" * 200_000

    assert rows(write(f"a,b\n{text},2\n", "rows.csv"), "a") == [(2, (text,))]


def test_lists_of_json_are_labels_only_where_they_are_expected(write):
    path = write('{"a": ["x, y", "é"], "b": "z"}\n', "rows.jsonl")

    found = rows(path, "b", "a", list_column="a")

    assert found == [(1, ("z", '["x, y", "é"]'))]
    with pytest.raises(ValueError, match="'a' must be a string or a number"):
        rows(path, "a", list_column="b")


def test_a_file_without_a_header_gets_its_names(write):
    path = write("1\t2\n3\t4\n")

    found = rows(path, "b", header=("a", "b"))

    assert found == [(1, ("2",)), (2, ("4",))]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.json.gz"])
def test_json_lines_give_text_numbers_and_truth_values(name, write):
    text = '{"a": "x\\ty", "b": 1, "c": null}\n{"b": true, "a": "", "c": 2.5}\n'
    path = write(gzip.compress(text.encode()) if "gz" in name else text, name)

    assert rows(path, "a", "b") == [(1, ("x\ty", "1")), (2, ("", "true"))]
    assert table_files.read_header(path) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 must be a JSON object"),
        ('{"b": 1}', "line 2: the object has no key 'a'. Its keys are 'b'"),
        ('{"a": null}', "line 2: 'a' must be a string or a number"),
        ('{"a": ["x"]}', "line 2: 'a' must be a string or a number"),
        ('{"a": NaN}', "line 2: 'a' must be a string or a number"),
        (r'{"a": "\ud83d x"}', r"line 2 has \\ud83d, which is half of a surr"),
        ("", "line 2 is not JSON"),
    ],
)
def test_a_broken_line_of_json_is_refused_with_its_number(line, words, write):
    path = write(f'{{"a": "x"}}\n{line}\n{{"a": "y"}}\n', "rows.jsonl")

    with pytest.raises(ValueError, match=words):
        rows(path, "a")


def test_both_halves_of_a_surrogate_pair_are_a_character(write):
    path = write(r'{"a": "\ud83d\ude00 \\ud800"}' + "\n", "rows.jsonl")

    assert rows(path, "a") == [(1, ("\U0001f600 \\ud800",))]
