import bz2
import gzip
import json
import tarfile

import pytest

from albert_tf.text import documents
from albert_tf.text.documents import CorpusSettings, Documents
from tests.text import text_files


def read(*paths, **settings):
    names = ",".join(map(str, paths))
    return Documents(CorpusSettings(input_file=names, **settings))


def sentences_of(*paths, **settings):
    return [
        [sentence.strip() for sentence in document.sentences()]
        for document in read(*paths, **settings)
    ]


def test_a_blank_line_or_the_end_of_a_file_ends_a_document(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("\n\nOne.\nTwo.\n\n \t\nThree.")
    second.write_text("Four.")

    assert sentences_of(first, second) == [
        ["One.", "Two."],
        ["Three."],
        ["Four."],
    ]


TEXTS = ["Mr. Gray came home. He slept.", "", "A second text."]
SENTENCES = [["Mr. Gray came home.", "He slept."], ["A second text."]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.ndjson", "a.txt"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_json_lines_are_documents_split_into_sentences(
    tmp_path, name, is_compressed
):
    path = tmp_path / (f"{name}.gz" if is_compressed else name)
    data = "\n".join(json.dumps({"text": text, "id": 1}) for text in TEXTS)
    encoded = data.encode()
    path.write_bytes(gzip.compress(encoded) if is_compressed else encoded)

    assert sentences_of(path) == SENTENCES


def test_a_json_line_may_begin_with_a_space(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(" " + json.dumps({"text": t}) for t in TEXTS))

    assert sentences_of(path) == SENTENCES


@pytest.mark.parametrize("space", ["\xa0", "\u2028", "\x85", "\u3000"])
def test_any_white_space_may_stand_before_a_full_stop(tmp_path, space):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": f"This is plan B{space}. It failed."}))

    assert sentences_of(path) == [["This is plan B .", "It failed."]]


def test_another_field_can_hold_the_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"body": text}) for text in TEXTS))

    assert sentences_of(path, text_field="body") == SENTENCES


@pytest.mark.parametrize(
    "line", ["{", '{"a":' * 9999, "{}", "{a}", "[1]", '"a"', "3"]
)
def test_text_that_only_resembles_json_is_text(tmp_path, line):
    path = tmp_path / "a.txt"
    path.write_text(f"{line}\nTwo.\n")

    assert sentences_of(path) == [[line, "Two."]]


def test_compressed_text_reads_like_plain_text(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"One.\nTwo.\n"))

    assert sentences_of(path) == [["One.", "Two."]]


@pytest.mark.parametrize("name", text_files.NAMES)
def test_the_same_texts_are_the_same_documents_in_every_format(tmp_path, name):
    path = tmp_path / name
    text_files.write(path, TEXTS)

    assert sentences_of(path) == SENTENCES


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz"])
@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"PAR1", "holds a Parquet file, so its name must end in .parquet"),
        (b"<mediawiki>", "holds a Wikipedia dump, so .* end in .xml"),
        (
            b"<?xml version='1.0'?>",
            "holds XML, of which only Wiki",
        ),
    ],
)
def test_a_name_that_hides_the_format_is_an_error(
    tmp_path, name, start, message
):
    data = start + b"\nOne.\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name == "a.txt.gz" else data)

    with pytest.raises(ValueError, match=rf"{name}' {message}"):
        sentences_of(path, max_bad_lines=9)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.txt"])
def test_an_archive_is_an_error(tmp_path, name):
    (tmp_path / "part.txt").write_text("One.\n")
    path = tmp_path / name
    mode = "w:gz" if name.endswith(".gz") else "w"
    with tarfile.open(path, mode) as archive:
        archive.add(tmp_path / "part.txt", "part.txt")

    with pytest.raises(ValueError, match=rf"{name}' holds a tar archive\. Unp"):
        sentences_of(path, max_bad_lines=9)


@pytest.mark.parametrize("name", ["a.csv", "a.TSV", "a.tsv.gz"])
def test_a_table_is_an_error(tmp_path, name):
    data = b"id\ttext\n1\tOne.\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    with pytest.raises(ValueError, match=rf"{name}' is a table.*JSON lines"):
        sentences_of(path, max_bad_lines=9)


def test_a_compressed_parquet_file_is_an_error(tmp_path):
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1"))

    with pytest.raises(ValueError, match=r"a\.parquet\.gz': Parquet files are"):
        sentences_of(path)


def test_damaged_data_is_an_error_with_file_and_line(tmp_path):
    path = tmp_path / "a.txt.bz2"
    data = bz2.compress(b"One.\n" * 9)
    path.write_bytes(data[:-4])

    with pytest.raises(
        ValueError, match=r"a\.txt\.bz2, after line \d: damaged bzip2 data"
    ):
        sentences_of(path, max_bad_lines=9)


@pytest.mark.parametrize(
    ("name", "package", "message"),
    [
        ("a.parquet", "pyarrow", r"a\.parquet', after row 0: not a Parquet"),
        ("a.xml", "mwparserfromhell", r"a\.xml', after page 0: damaged, or no"),
        ("a.xml.gz", "mwparserfromhell", r"a\.xml\.gz', .*damaged gzip data"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_an_error(
    tmp_path, name, package, message
):
    pytest.importorskip(package)
    path = tmp_path / name
    path.write_text("One.\nTwo.\n")

    with pytest.raises(ValueError, match=message):
        sentences_of(path, max_bad_lines=9)


def test_bad_rows_are_counted_as_bad_lines_are(tmp_path):
    path = tmp_path / "a.parquet"
    text_files.write(path, ["One.", None, "Two."])

    found = read(path, max_bad_lines=1)

    assert [document.text for document in found] == ["One.", "Two."]
    assert found.num_bad_lines == 1
    with pytest.raises(ValueError, match=r"row 2 has no 'text'.*max_bad_lines"):
        list(read(path))


BAD_LINES = [
    pytest.param(*("a.jsonl", b"[" * 100_000, "line 2 is not JSON"), id="deep"),
    ("a.jsonl", b"Two.", r"a\.jsonl', line 2 is not JSON"),
    *(
        ("a.jsonl", line, "line 2 has no 'text' that is a string")
        for line in (
            *(b'{"body": "One."}', b'"One."'),
            *(b'{"text": 1}', b'{"text": "\\ud800"}'),
        )
    ),
    ("a.jsonl", b'{"text": "Caf\xe9."}', "line 2: not UTF-8"),
    ("a.txt", b"Caf\xe9.", "line 2: not UTF-8"),
]


@pytest.mark.parametrize(("name", "line", "message"), BAD_LINES)
def test_a_bad_line_is_an_error_that_names_it(tmp_path, name, line, message):
    path = tmp_path / name
    good = b'{"text": "One."}' if name == "a.jsonl" else b"One."
    path.write_bytes(good + b"\n" + line + b"\n")

    with pytest.raises(ValueError, match=f"{message}.*`max_bad_lines`"):
        sentences_of(path)


@pytest.mark.parametrize(("name", "line", "message"), BAD_LINES)
def test_bad_lines_are_counted_and_skipped_up_to_a_number(
    tmp_path, name, line, message
):
    path = tmp_path / name
    good = b'{"text": "One."}' if name == "a.jsonl" else b"One.\n"
    path.write_bytes(b"\n".join([good, line, good, line, good]))

    found = read(path, max_bad_lines=2)

    for _ in range(2):  # Each reading counts anew.
        assert [d.text for d in found] == ["One."] * 3
        assert found.num_bad_lines == 2
    with pytest.raises(ValueError, match="line [46].*max_bad_lines=1"):
        list(read(path, max_bad_lines=1))


def test_one_value_over_many_lines_is_not_json_lines(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "One."}], indent=1))

    with pytest.raises(ValueError, match="line 1 is not JSON.*one object a"):
        sentences_of(path)


@pytest.mark.parametrize("value", [-1, 0.5, True])
def test_an_impossible_number_of_bad_lines_is_an_error(value):
    with pytest.raises(ValueError, match="`max_bad_lines` must be"):
        CorpusSettings(max_bad_lines=value)


def test_a_document_without_end_is_cut_so_that_it_need_not_fit_in_memory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(documents, "DOCUMENT_CHARACTERS", 8)
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\nThree.\nFour.\nFive.\n")

    assert sentences_of(path) == [
        ["One.", "Two."],
        ["Three.", "Four."],
        ["Five."],
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two. Three.", ["One. ", "Two. ", "Three."]),
        ("abcdefghijkl", ["abcdefgh", "ijkl"]),
        ("One.     Two.", ["One.    ", " Two."]),
        # A character of Chinese counts as 4.
        ("\u4f60\u597d\u5417\u3002", ["\u4f60\u597d", "\u5417\u3002"]),
    ],
)
def test_a_json_text_that_is_too_long_is_cut_at_white_space(
    tmp_path, monkeypatch, text, parts
):
    monkeypatch.setattr(documents, "DOCUMENT_CHARACTERS", 8)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": text}))

    assert [document.text for document in read(path)] == parts


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("word", 4),
        ("na\u00efve", 5),
        ("\u4f60\u597d", 8),
        ("\uc548\ub155", 8),
        # A foreign name in a text of another script.
        ("from \u5317\u4eac", 7),
    ],
)
def test_sizes_grow_with_the_number_of_tokens(text, size):
    assert documents.Document(text=text, is_split=True).size == size
