import pytest

from albert_tf.data import corpus
from albert_tf.text.documents import CorpusSettings, Documents


def documents_of(path, **settings):
    return Documents(CorpusSettings(input_file=str(path), **settings))


def survey(*paths, **settings):
    return corpus.survey([*map(str, paths)], CorpusSettings(**settings))


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


def test_a_corpus_is_identified_by_its_blocks_not_by_their_files(tmp_path):
    def digest(*texts):
        for number, text in enumerate(texts):
            (tmp_path / f"{len(texts)}-{number}.txt").write_text(text)
        return survey(*sorted(tmp_path.glob(f"{len(texts)}-*.txt"))).sha256

    one = digest("A.\nB.\n\nC.\n")

    assert digest("", "A.\nB.\n\n\nC.", "\n \n") == one
    # Each file has blocks of its own.
    assert digest("A.\nB.", "\nC.") != one
    assert digest("A.\n\nB.\n\nC.\n") != one
    assert digest("A.\nB.\n\nD.\n") != one


def test_the_key_of_a_block_is_its_text_and_which_copy_it_is(tmp_path):
    texts = {"a": "One.\nTwo.", "b": "Three.\nFour.", "c": "One.\nTwo."}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    def keys(*names):
        contents = survey(*(tmp_path / name for name in names))
        numbers = dict.fromkeys(range(len(contents.block_sizes)), 1)
        blocks = corpus.read_requested(
            contents.requests(numbers), CorpusSettings()
        )
        return [block.key for block in blocks]

    a, b, c = keys("a", "b", "c")

    assert len({a, b, c}) == 3
    # A new file renumbers nothing.
    assert keys("b") == [b]
    assert sorted(keys("c", "b", "a")) == sorted([a, b, c])
    assert (a[0], a[1], c[1]) == (c[0], 0, 1)


def test_files_without_a_requested_block_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 10)
    texts = ["One two.\n\nThree four.\n\nFive.", "", "Six.", "Seven."]
    paths = [tmp_path / f"{number}.txt" for number in range(4)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    contents = survey(*paths)
    sizes = [len(file.block_sizes) for file in contents.files]
    assert sizes == [2, 0, 1, 1]
    paths[3].unlink()

    blocks = corpus.read_requested(
        contents.requests({2: 5, 1: 1}), CorpusSettings()
    )

    found = [(b.documents[0].text, b.number, b.num_parts) for b in blocks]
    assert found == [("Five.", 1, 1), ("Six.", 0, 5)]


def test_bad_lines_are_counted_over_all_files(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(b"\xff\nOne.\n\xff\n")

    contents = survey(*paths, max_bad_lines=4)
    assert [file.num_bad_lines for file in contents.files] == [2, 2]
    with pytest.raises(ValueError, match="b, line 3.*max_bad_lines=3"):
        survey(*paths, max_bad_lines=3)
