import enum
import gzip

import pyarrow
import pytest

from albert_tf.tasks import example_files


@pytest.fixture
def write(tmp_path):
    def write(text, name="rows.tsv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def rows(path, *columns, **options):
    return [tuple(r) for r in example_files.read_rows(path, columns, **options)]


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


def test_semicolons_divide_the_columns_of_some_spreadsheets(write):
    path = write('text;number\n"a;b, c";1,5\n', "rows.csv")

    assert rows(path, "text", "number") == [(2, ("a;b, c", "1,5"))]


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


def test_a_long_text_is_one_field(write):
    # Python's csv module refuses these by default.
    text = "x" * 200_000

    assert rows(write(f"a,b\n{text},2\n", "rows.csv"), "a") == [(2, (text,))]


def test_lists_of_json_are_labels_only_where_they_are_expected(write):
    path = write('{"a": ["x, y", "é"], "b": "z"}\n', "rows.jsonl")

    found = rows(path, "b", "a", list_column="a")

    assert found == [(1, ("z", '["x, y", "é"]'))]


def test_a_file_without_a_header_gets_its_names(write):
    path = write("1\t2\n3\t4\n")

    found = rows(path, "b", header=("a", "b"))

    assert found == [(1, ("2",)), (2, ("4",))]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.json.gz"])
def test_json_lines_give_text_numbers_and_truth_values(name, write):
    text = '{"a": "x\\ty", "b": 1, "c": null}\n{"b": true, "a": "", "c": 2.5}\n'
    path = write(gzip.compress(text.encode()) if "gz" in name else text, name)

    assert rows(path, "a", "b") == [(1, ("x\ty", "1")), (2, ("", "true"))]
    assert example_files.read_header(path) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "", "is empty. It must begin with column names"),
        ("a.tsv", "a\tb\n\n1\t2\n", "line 2: the row must have 2 .* 1 fields"),
        (
            "a.tsv",
            "a\tb\tc\n1\t2\t3\n1\t2\n",
            r"line 3: the row must have 3 fields \(a, b, c\).* 2 fields",
        ),
        ("a.tsv", "c\tb\n1\t2\n", "one column named 'a'.* 'c', 'b'"),
        ("a.tsv", "a\ta\n1\t2\n", "must have one column named 'a'"),
        ("a.tsv", b"a\tb\n1\t2\n\xff\t3\n", "line 3: not UTF-8"),
        ("a.csv", "a,b\n1,x, y\n", "line 2: the row must have 2 .* 3 fields"),
        ("a.csv", 'a,b\n"1\n2",3\n"4",5,6\n', "line 4: the row must have 2"),
        ("a.csv", 'a,b\n1,2\n"no end,3\n4,5\n', "line 3: not CSV: unexpect"),
        ("a.csv", 'a,b\n1,"x" y\n', "line 2: not CSV: ',' expected"),
        ("a.jsonl", '{"a": ""}\n{', "line 2 is not JSON"),
        ("a.jsonl", '{"a": "\\ud800"}', "line 1 is not JSON.*surrogates"),
        ("a.jsonl", '{"a": ' + "[" * 100_000, "line 1 is not JSON: maximum"),
        ("a.jsonl", '{"a": ""}\n[1]', "line 2 must be a JSON object"),
        ("a.jsonl", '{"b": 1}', "line 1: 'a' must be .*None; the keys are 'b'"),
        ("a.jsonl", '{"a": null}', "line 1: 'a' must be a string or a number"),
        ("a.jsonl", '{"a": ["x"]}', "line 1: 'a' must be a string or a numb"),
    ],
)
def test_broken_rows_are_refused_with_their_line(name, text, message, write):
    path = write(text, name)

    with pytest.raises(ValueError, match=message):
        rows(path, "a")


def test_rows_in_memory_may_be_written_again():
    names = [{"a": "\\ud83d"}, {"a": ["\U0001f600"]}]
    assert example_files.rows_in_memory("train", names).rows == names

    with pytest.raises(ValueError, match="train, row 2: .* surrogates not"):
        example_files.rows_in_memory("train", [{"a": ""}, {"a": ["\ud83d"]}])


class Label(enum.StrEnum):
    HAM = "ham"


def test_texts_of_subclasses_are_plain_strings():
    source = example_files.rows_in_memory("train", [{"a": Label.HAM}])

    [(_, (text,))] = example_files.read_rows(source, ["a"])

    assert (type(text), text) == (str, "ham")


def test_a_table_with_two_columns_of_one_name_is_refused():
    table = pyarrow.table([["x"], ["y"]], names=["kind", "kind"])

    with pytest.raises(ValueError, match="the same name: .*'kind', 'kind'"):
        example_files.rows_of_table(table)


def test_ids_differ():
    example_files.check_ids(["a", "b"], "file")
    with pytest.raises(ValueError, match="file: two examples have the id 'a'"):
        example_files.check_ids(["a", "b", "a"], "file")
    with pytest.raises(ValueError, match="file has no examples"):
        example_files.check_ids([], "file")
