import pytest

from albert_tf.export import wordpiece_graph
from albert_tf.text import wordpiece_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def small(tmp_path_factory, graph_tokenizer):
    tokens = ["un", "##aff", "##able", "##a", "a", "b", "你", "!", "##", "ab"]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join([*SPECIAL, *tokens]) + "\n")
    return graph_tokenizer(vocab_file=str(path))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("ab aab", ["ab", "[UNK]"]),
        ("UNAFFA你b!", ["un", "##aff", "##a", "你", "b", "!"]),
        ("unaffx a", ["[UNK]", "a"]),
        ("a" * 200, ["a"] + ["##a"] * 199),
        ("a" * 201, ["[UNK]"]),
        ("##a", ["[UNK]", "[UNK]", "a"]),
        ("[MASK]", ["[UNK]"] * 3),
        ("", []),
    ],
)
def test_words_are_cut_into_the_longest_tokens(text, tokens, small):
    found = small.encode([text, "x"])[0]

    assert [small.tokenizer.id_to_token(i) for i in found] == tokens


def test_a_word_that_is_too_long_may_be_a_token(
    graph_tokenizer, tmp_path, monkeypatch
):
    # A graph of tokens of 201 characters takes long to make.
    for module in (wordpiece_graph, wordpiece_tokenizer):
        monkeypatch.setattr(module, "_MAX_WORD_SIZE", 3)
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL, "llll", "a", "##a"]))

    found = graph_tokenizer(vocab_file=str(path))

    texts = ["llll", "aaa", "aaaa", "llla", "lllll"]
    assert found.encode(texts) == [[5], [6, 7, 7], [1], [1], [1]]
    assert found.differences(texts) == []


def test_offsets(small):
    (_, spans), _ = small.encode_with_offsets([" Unaffa\u0301ble !", ""])

    assert spans == [(1, 3), (3, 6), (6, 11), (12, 13)]


def test_random_texts(small, text_maker):
    assert small.differences(text_maker.many("hard", 500, seed=9)) == []
