import pytest

from albert_tf.data import corpus
from albert_tf.text.documents import CorpusSettings, Documents


def documents_of(path, **settings):
    return Documents(CorpusSettings(input_file=str(path), **settings))


def test_blocks_hold_whole_documents_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 10)
    path = tmp_path / "a.txt"
    documents = [f"Sentence {i}." for i in range(5)]  # 11 characters each.
    path.write_text("\n\n".join(documents))

    blocks = list(corpus.read_blocks(documents_of(path)))

    # A block has two documents at least.
    assert [len(block.documents) for block in blocks] == [2, 2, 1]
    assert [block.number for block in blocks] == [0, 1, 2]
    texts = [document.text for block in blocks for document in block.documents]
    assert texts == documents


def test_a_block_of_chinese_has_as_many_tokens_as_one_of_english(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 24)
    path = tmp_path / "a.txt"
    # A character of Chinese counts as 4.
    path.write_text("\n\n".join(["\u4f60\u597d\u3002"] * 4))

    blocks = list(corpus.read_blocks(documents_of(path)))

    assert [len(block.documents) for block in blocks] == [2, 2]


def test_a_survey_measures_the_blocks_and_counts_bad_lines(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(b"Ten chars.\n\nTen chars.\n\nOne.\n\xff\n")

    contents = corpus.survey(documents_of(path, max_bad_lines=1))

    assert contents.block_sizes == [20, 4]
    assert contents.num_bad_lines == 1


def test_a_corpus_is_identified_by_its_documents_not_by_its_files(tmp_path):
    def digest(*texts):
        for number, text in enumerate(texts):
            (tmp_path / f"{len(texts)}-{number}.txt").write_text(text)
        found = documents_of(f"{tmp_path}/{len(texts)}-*.txt")
        return corpus.survey(found).sha256

    one = digest("A.\nB.\n\nC.\n")

    assert digest("A.\nB.", "\nC.") == one
    assert digest("A.\n\nB.\n\nC.\n") != one
    assert digest("A.\nB.\n\nD.\n") != one


def test_a_corpus_without_a_sentence_is_an_error_that_names_few_files(
    tmp_path,
):
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text("\n \n")

    with pytest.raises(ValueError, match=r"has no sentence: .* and 17 more"):
        corpus.survey(documents_of(tmp_path / "*.txt"))
