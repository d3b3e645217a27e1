import json
import time

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


@pytest.mark.parametrize("line", ["{", '{"a":' * 9999, "[1]", '"a"'])
def test_text_that_only_resembles_json_is_text(tmp_path, line):
    path = tmp_path / "a.txt"
    path.write_text(f"{line}\nTwo.\n")

    assert sentences_of(path) == [[line, "Two."]]


@pytest.mark.parametrize("sentence", ["今天天气很好。", "He said “this. "])
def test_a_paragraph_of_any_length_is_split_in_good_time(sentence):
    text = sentence * (2**18 // len(sentence))

    before = time.monotonic()
    found = documents.Document(text=text, is_split=False).sentences()

    assert time.monotonic() - before < 5  # 15 s as a whole
    assert "".join(found) == text
    assert len(found) > 16


@pytest.mark.parametrize(
    "name", [*text_files.NAMES, "a.json", "a.ndjson", "a.txt", "a.txt.gz"]
)
def test_the_same_texts_are_the_same_documents_in_every_format(tmp_path, name):
    path = tmp_path / name
    text_files.write(path, TEXTS)

    assert sentences_of(path) == SENTENCES


@pytest.mark.parametrize("kind", ["string", "string_view"])
def test_the_rows_of_a_parquet_file_are_documents(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    # The third is not UTF-8.
    rows = pyarrow.array([b"One.", None, b"Caf\xe9.", b"Two."])
    rows = rows.view(pyarrow.string()).cast(getattr(pyarrow, kind)())
    # Both columns are `a.text` for Parquet.
    table = pyarrow.table({"a": [{"text": "No."}] * 4, "a.text": rows})
    parquet.write_table(table, path, row_group_size=3)

    found = read(path, text_field="a.text", max_bad_lines=2)

    assert [document.text for document in found] == ["One.", "Two."]
    assert found.num_bad_lines == 2


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param("a.jsonl", b"[" * 100_000, id="deep"),
        ("a.jsonl", b'{"body": "One."}'),
        ("a.jsonl", b'{"text": "\\ud800"}'),
        ("a.jsonl", b'{"text": "Caf\xe9."}'),
        ("a.txt", b"Caf\xe9."),
    ],
)
def test_bad_lines_are_counted_and_skipped_up_to_a_number(tmp_path, name, line):
    path = tmp_path / name
    good = b'{"text": "One."}' if name == "a.jsonl" else b"One.\n"
    path.write_bytes(b"\n".join([good, line, good, line, good]))

    found = read(path, max_bad_lines=2)

    for _ in range(2):  # Each reading counts anew.
        assert [d.text for d in found] == ["One."] * 3
        assert found.num_bad_lines == 2
    with pytest.raises(ValueError, match="line [46].*max_bad_lines=1"):
        list(read(path, max_bad_lines=1))


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
