import gzip
import json

import pytest

from albert_tf.data import corpus


def sentences_of(*paths):
    documents = corpus.read_documents([str(path) for path in paths])
    return [document.sentences() for document in documents]


def test_a_blank_line_or_the_end_of_a_file_ends_a_document(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("One.\nTwo.\n\n \t\nThree.")
    second.write_text("Four.")

    assert sentences_of(first, second) == [
        ["One.", "Two."],
        ["Three."],
        ["Four."],
    ]


def test_json_lines_are_documents_split_into_sentences(tmp_path):
    path = tmp_path / "a.jsonl"
    texts = ["Mr. Gray came home. He slept.", "", "A second text."]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))

    stripped = [[s.strip() for s in d] for d in sentences_of(path)]
    assert stripped == [
        ["Mr. Gray came home.", "He slept."],
        ["A second text."],
    ]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_compressed_files_read_like_plain_ones(tmp_path, name):
    text = '{"text": "One. Two."}\n' if name == "a.jsonl" else "One.\nTwo.\n"
    plain, compressed = tmp_path / name, tmp_path / f"{name}.gz"
    plain.write_text(text)
    compressed.write_bytes(gzip.compress(text.encode()))

    assert sentences_of(compressed) == sentences_of(plain)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a.jsonl", b"Two.", r"a\.jsonl', line 2 is not JSON"),
        *(
            ("a.jsonl", line, "line 2 has no 'text' that is a string")
            for line in (
                *(b'{"body": "One."}', b'"One."'),
                *(b'{"text": 1}', b'{"text": "\\ud800"}'),
            )
        ),
        ("a.txt", b"Caf\xe9.", "line 2"),
    ],
)
def test_a_bad_line_is_an_error_that_names_it(tmp_path, name, line, message):
    path = tmp_path / name
    path.write_bytes(b'{"text": "One."}\n' + line + b"\n")

    with pytest.raises(ValueError, match=message):
        sentences_of(path)


def test_blocks_hold_whole_documents_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 10)
    path = tmp_path / "a.txt"
    documents = [f"Sentence {i}." for i in range(5)]  # 11 characters each.
    path.write_text("\n\n".join(documents))

    blocks = list(corpus.read_blocks([str(path)]))

    # A block has two documents at least.
    assert [len(block.documents) for block in blocks] == [2, 2, 1]
    assert [block.number for block in blocks] == [0, 1, 2]
    texts = [document.text for block in blocks for document in block.documents]
    assert texts == documents


def test_a_document_without_end_is_cut_so_that_it_need_not_fit_in_memory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(corpus, "DOCUMENT_CHARACTERS", 8)
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\nThree.\nFour.\nFive.\n")

    assert sentences_of(path) == [
        ["One.", "Two."],
        ["Three.", "Four."],
        ["Five."],
    ]


def test_sizes_are_those_of_the_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 10)
    path = tmp_path / "a.txt"
    path.write_text("Ten chars.\n\nTen chars.\n\nOne.\n")

    assert corpus.block_sizes([str(path)]) == [20, 4]
