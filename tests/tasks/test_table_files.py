import pytest

from albert_tf.tasks import table_files


@pytest.fixture
def write(tmp_path):
    def write(text, name="rows.tsv"):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return path

    return write


def rows(path, *columns, **options):
    return [tuple(r) for r in table_files.read_rows(path, columns, **options)]


def test_columns_are_found_by_name_in_the_order_asked_for(write):
    path = write("a\tb\tc\n1\t2\t3\n4\t5\t6\n")

    assert rows(path, "c", "a") == [(2, ("3", "1")), (3, ("6", "4"))]


def test_quotes_are_plain_characters(write):
    path = write('a\tb\n"he said "\tx\n"\t"y\n')

    assert rows(path, "a", "b") == [(2, ('"he said "', "x")), (3, ('"', '"y'))]


def test_a_byte_order_mark_and_carriage_returns_are_no_text(write):
    path = write("\ufeffa\tb\r\n1\t2\r\n")

    assert rows(path, "a", "b") == [(2, ("1", "2"))]


def test_unusual_line_separators_stay_in_a_field(write):
    path = write("a\tb\n1\u2028x\u0085y\t2\n")

    assert rows(path, "a") == [(2, ("1\u2028x\u0085y",))]


def test_a_file_without_a_header_gets_its_names(write):
    path = write("1\t2\n3\t4\n")

    found = rows(path, "b", header=("a", "b"))

    assert found == [(1, ("2",)), (2, ("4",))]


def test_blank_lines_at_the_end_are_no_rows(write):
    assert len(rows(write("a\tb\n1\t2\n\n\n"), "a")) == 1


def test_a_blank_line_in_between_is_a_broken_row(write):
    with pytest.raises(ValueError, match="line 2: the row must have 2 fields"):
        rows(write("a\tb\n\n1\t2\n"), "a")


def test_a_blank_line_of_a_single_column_is_an_empty_field(write):
    assert rows(write("a\n\nx\n"), "a") == [(2, ("",)), (3, ("x",))]


@pytest.mark.parametrize(("row", "count"), [("1\t2", 2), ("1\t2\t3\t4", 4)])
def test_too_few_or_too_many_fields_are_refused_with_their_line(
    row, count, write
):
    path = write(f"a\tb\tc\n1\t2\t3\n{row}\n")

    with pytest.raises(
        ValueError, match=f"line 3: the row must have 3 .* {count} fields"
    ):
        rows(path, "a")


def test_broken_rows_can_be_left_out_and_counted(write):
    broken = []

    found = rows(write("a\tb\n1\n2\t3\n4\t5\t6\n"), "b", broken_rows=broken)

    assert found == [(3, ("3",))]
    assert broken == [2, 4]


def test_a_missing_column_is_refused_with_those_that_are_there(write):
    with pytest.raises(ValueError, match="no column named 'c'.* 'a', 'b'"):
        rows(write("a\tb\n1\t2\n"), "c")


def test_a_column_named_twice_is_refused(write):
    with pytest.raises(ValueError, match="two columns named 'a'"):
        rows(write("a\ta\n1\t2\n"), "a")


def test_an_empty_file_is_refused(write):
    with pytest.raises(ValueError, match="is empty"):
        rows(write(""), "a")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*train\.tsv"):
        rows(tmp_path / "train.tsv", "a")


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_bytes(b"a\tb\n1\t2\n\xff\t3\n")

    with pytest.raises(ValueError, match="line 3: not UTF-8"):
        rows(path, "a")


def test_json_lines_give_text_numbers_and_truth_values(write):
    path = write(
        '{"a": "x\\ty", "b": 1, "c": null}\n{"b": true, "a": "", "c": 2.5}\n',
        "rows.jsonl",
    )

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


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.json", True), ("a.jsonl.gz", True), ("a.txt", False)],
)
def test_the_ending_says_whether_a_file_is_json_lines(name, expected):
    assert table_files.is_jsonl(name) == expected


def test_both_halves_of_a_surrogate_pair_are_a_character(write):
    path = write(r'{"a": "\ud83d\ude00 \\ud800"}' + "\n", "rows.jsonl")

    assert rows(path, "a") == [(1, ("\U0001f600 \\ud800",))]
