import json

import numpy as np
import pytest

from albert_tf.data import builder, corpus, shards
from albert_tf.data.deduplication import Deduplicator
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.text.documents import CorpusSettings, Document
from tests import tiny

EXACT = Deduplicator("exact")
WORDS = [f"word{number}" for number in range(5000)]
LETTERS = list("abcdefghijklmnopqrstuvwxyz")


def kept(*paths, hashing=EXACT):
    """The texts of a corpus that stay."""
    settings = CorpusSettings()
    contents = corpus.survey([*map(str, paths)], settings, hashing)
    requests = contents.requests(
        dict.fromkeys(range(len(contents.block_sizes)), 1)
    )
    texts = [
        document.text
        for block in corpus.read_requested(requests, settings)
        for document in block.documents
    ]
    return texts, contents.duplicates


def test_a_document_that_comes_again_is_left_out_in_any_file(tmp_path):
    for name, text in [
        ("a", "One.\nTwo.\n\nThree.\n\nOne.\nTwo.\n\nFour."),
        ("b", "Three.\n\n\n\nFive.\n\nThree."),
        ("c", "Four.\n\nOne.\nTwo."),
        ("d", ""),
        ("e", "Six."),
    ]:
        (tmp_path / name).write_text(text)

    texts, duplicates = kept(*(tmp_path / name for name in "abcde"))

    assert texts == ["One.\nTwo.", "Three.", "Four.", "Five.", "Six."]
    assert duplicates.documents == 5
    assert duplicates.characters == 3 * len("One.\nTwo.") - 9 + 2 * 6 + 5


@pytest.mark.parametrize(
    ("other", "is_duplicate"),
    [
        ("one two.\nTHREE.", True),
        (" One  two.\r\nThree. ", True),
        ("One\xa0two. Three.", True),
        ("One two.\nThree", False),
        ("Onetwo.\nThree.", False),
    ],
)
def test_white_space_and_capitals_make_no_difference(
    tmp_path, other, is_duplicate
):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.txt"
    first.write_text(json.dumps({"text": "One two. Three."}))
    second.write_text(other)

    texts, duplicates = kept(first, second)

    assert texts[0] == "One two. Three."
    assert len(texts) == 2 - is_duplicate
    assert duplicates.documents == is_duplicate


def test_documents_are_left_out_before_blocks_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 40)
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 60, 300)
    texts = [f"Sentence {number}." for number in numbers]
    unique = dict.fromkeys(texts)
    for name, lines in [("all.txt", texts), ("unique.txt", unique)]:
        (tmp_path / name).write_text("\n\n".join(lines))
    settings = CorpusSettings()

    contents = corpus.survey([str(tmp_path / "all.txt")], settings, EXACT)
    alone = corpus.survey([str(tmp_path / "unique.txt")], settings)

    assert len(contents.block_sizes) > 10
    assert contents.block_sizes == alone.block_sizes
    assert contents.sha256 != alone.sha256
    some = dict.fromkeys([1, 5, 9], 1)
    blocks, expected = (
        list(corpus.read_requested(found.requests(some), settings))
        for found in (contents, alone)
    )
    assert [block.key for block in blocks] == [b.key for b in expected]


def test_other_borders_of_files_make_another_corpus(tmp_path, monkeypatch):
    # Blocks of all documents are the same, those of what stays are not.
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 1)
    texts = ["One.", "One.", "Two.", "Three.", "Four.", "Five."]
    files = {"all": texts, "first": texts[:2], "second": texts[2:]}
    for name, documents in files.items():
        (tmp_path / name).write_text("\n\n".join(documents))
    paths = {name: str(tmp_path / name) for name in files}

    one, two = (
        corpus.survey([paths[name] for name in names], CorpusSettings(), EXACT)
        for names in (["all"], ["first", "second"])
    )

    assert (one.block_sizes, two.block_sizes) == ([8, 11, 5], [4, 10, 10])
    assert one.sha256 != two.sha256


def minhash():
    pytest.importorskip("datasketch")
    return Deduplicator("minhash")


def texts_alike(rng, *, num_words, num_changed):
    """Two texts; `num_changed` words of the second are others."""
    words = rng.choice(WORDS, num_words)
    others = words.copy()
    others[rng.choice(num_words, num_changed, replace=False)] = "new"
    return " ".join(words), " ".join(others)


@pytest.mark.parametrize(
    ("num_changed", "least", "most"),
    # Of 1,000 sequences, 5 are lost for each word: the similarities are 0.98,
    # 0.82 and 0.54. The probabilities are those of 9 bands of 13 values.
    [(2, 0.99, 1), (20, 0.2, 0.8), (60, 0, 0.02)],
)
def test_texts_that_are_nearly_the_same_are_found(num_changed, least, most):
    hashing, rng = minhash(), np.random.default_rng(0)

    num_found, num_pairs = 0, 60
    for _ in range(num_pairs):
        pair = texts_alike(rng, num_words=1000, num_changed=num_changed)
        hashes = [
            hashing.hashes(Document(text=text, is_split=False)) for text in pair
        ]
        num_found += any(a == b for a, b in zip(*hashes, strict=True))

    assert least <= num_found / num_pairs <= most


@pytest.mark.parametrize(
    ("text", "other", "is_duplicate"),
    [
        # Fewer words than a sequence.
        ("One two.", "one, TWO!", True),
        ("One two.", "One three.", False),
        # No word.
        ("* * *", "*  *\n*", True),
        ("* * *", "- - -", False),
        # A character of Chinese is a word.
        ("\u4f60\u597d\u5417", "\u4f60\u597d\u3002\u5417", True),
        ("\u4f60\u597d\u5417", "\u597d\u4f60\u5417", False),
        # More sequences than are hashed at a time.
        (" ".join(WORDS), " ".join(WORDS).upper(), True),
        (" ".join(WORDS), " ".join(WORDS[::-1]), False),
    ],
)
def test_near_duplicates_of_all_kinds_of_text(
    tmp_path, text, other, is_duplicate
):
    for name, content in [("a.txt", text), ("b.txt", other)]:
        (tmp_path / name).write_text(content)

    texts, duplicates = kept(
        tmp_path / "a.txt", tmp_path / "b.txt", hashing=minhash()
    )

    assert len(texts) == 2 - is_duplicate
    assert duplicates.documents == is_duplicate


def test_the_hashes_do_not_change_between_versions():
    # Found with datasketch 2.0.
    hashes = minhash().hashes(Document(text=" ".join(WORDS), is_split=False))

    assert len(hashes) == 9
    assert hashes[0] == 11550827785805856850


def write_texts(folder, *, sentence_words):
    sentences = np.random.default_rng(0).choice(
        LETTERS, (40, 4, sentence_words)
    )
    documents = ["\n".join(map(" ".join, document)) for document in sentences]
    again = [*documents[20:], *documents[5:9], "d d\nd c\nc a"]
    (folder / "a.txt").write_text("\n\n".join(documents))
    (folder / "b.txt").write_text("\n\n".join(again))


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Builds from two files with much of the same text."""
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 400)
    write_texts(tmp_path, sentence_words=8)
    tiny.write_vocabulary(tmp_path / "vocab.txt", LETTERS)

    def run(name, **changes):
        settings = {
            "input_file": f"{tmp_path}/?.txt",
            "output_file": f"{tmp_path}/{name}@4",
            "vocab_file": f"{tmp_path}/vocab.txt",
            "masking": "dynamic",
            "max_seq_length": 24,
            "deduplicate": "exact",
        }
        report = builder.build(PretrainingDataConfig(**settings | changes))
        return report, {
            path.name.replace(name, ""): path.read_bytes()
            for path in tmp_path.glob(f"{name}-?????-of-00004")
        }

    return run


@pytest.mark.parametrize(
    "method", ["exact", pytest.param("minhash", marks=pytest.mark.slow)]
)
def test_workers_and_machines_make_the_same_bytes(
    build, tmp_path, method, monkeypatch
):
    if method == "minhash":
        minhash()
    # Processes do not know of smaller blocks.
    monkeypatch.undo()
    write_texts(tmp_path, sentence_words=4000)
    report, expected = build("whole", deduplicate=method)

    assert build("workers", deduplicate=method, num_workers=2)[1] == expected
    _, first = build("halves", deduplicate=method, shards="0,3")
    _, second = build("halves", deduplicate=method, shards="1-2")
    assert set(first) < set(second)  # All are there then.
    assert second == expected
    assert len(expected) == 4 and all(expected.values())
    assert report.counts.documents == 41
    assert report.duplicates.documents == 24
    made_by = shards.read(tmp_path / "whole-00002-of-00004")
    assert made_by.duplicates == report.duplicates
    num_characters = f"{24 * 4 * 8000 - 24:,}"
    assert f"out    24 documents, {num_characters} characters" in str(report)
    (blocks, part) = made_by.blocks, made_by.part
    assert blocks != [0, 1] and part == [0, 1]
