import json

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
def test_a_paragraph_of_any_length_is_split_in_linear_time(
    monkeypatch, sentence
):
    # The time of `segment` grows with the square of what it is given.
    segment, sizes = documents.sentencex.segment, []

    def measured(language, part):
        sizes.append(len(part))
        return segment(language, part)

    monkeypatch.setattr(documents.sentencex, "segment", measured)
    text = sentence * (2**18 // len(sentence))

    sentences = documents.Document(text=text, is_split=False).sentences()

    assert max(sizes) <= 2**14
    assert sum(sizes) < 1.1 * len(text)
    assert "".join(sentences) == text
    assert len(sentences) > 16


@pytest.mark.parametrize(
    "name", [*text_files.NAMES, "a.json", "a.ndjson", "a.txt", "a.txt.gz"]
)
def test_the_same_texts_are_the_same_documents_in_every_format(tmp_path, name):
    path = tmp_path / name
    text_files.write(path, TEXTS)

    assert sentences_of(path) == SENTENCES


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
