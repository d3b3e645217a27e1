import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.text import word_splitting, wordpiece_tokenizer
from albert_tf.text.vocabulary_file import SpecialIds


def load(folder, lines, **settings):
    path = folder / "vocab.txt"
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return wordpiece_tokenizer.WordPieceTokenizer(path, **settings)


def tokens_of(tokenizer, text):
    return [tokenizer.id_to_token(i) for i in tokenizer.encode(text)]


def test_the_released_vocabulary_keeps_its_ids_after_u2028(shared_data):
    tokenizer = wordpiece_tokenizer.WordPieceTokenizer(
        shared_data / "data/configs/albert_zh/vocab.txt"
    )

    assert tokenizer.vocab_size == 21128
    assert tokenizer.id_to_token(343) == " "
    assert tokenizer.id_to_token(344) == "‰"
    assert tokenizer.id_to_token(13502) == "##"
    assert tokenizer.word_starts[tokenizer.token_to_id("#")]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        # A word with a part that is no token is unknown as a whole.
        ("unaffected a", ["[UNK]", "a"]),
        ("a" * 200, ["a", *["##a"] * 199]),
        # So is a word of more than 200 characters.
        ("a" * 201, ["[UNK]"]),
        # Names of special tokens in text are only text.
        ("[MASK]", ["[", "mask", "]"]),
        ("<S>", ["[UNK]"] * 3),
    ],
)
def test_words_are_cut_into_the_longest_tokens(wordpiece, text, tokens):
    assert tokens_of(wordpiece, text) == tokens


def test_ids_are_the_rank_of_the_first_occurrence(tmp_path, wordpiece):
    tokens = [*map(wordpiece.id_to_token, range(wordpiece.vocab_size))]
    size = len(tokens)

    tokenizer = load(tmp_path, [*tokens, "a", "z extra\tcolumns\r", "", "##z"])

    for token in ("a", "un", "你"):
        assert tokenizer.token_to_id(token) == tokens.index(token)
    assert tokenizer.token_to_id("z") == size
    assert tokenizer.token_to_id(" ") == size + 1
    assert tokenizer.token_to_id("##z") == size + 2
    assert tokenizer.vocab_size == size + 3


def test_special_and_reserved_tokens_are_known_by_name(wordpiece):
    assert wordpiece.special_ids == SpecialIds(
        pad=1, unk=3, cls=4, sep=5, mask=6
    )
    assert wordpiece.forbidden_ids.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert wordpiece.word_starts.sum() == wordpiece.vocab_size - 5


@given(text=st.text(st.sampled_from("ab uné\u0301,你1 \t"), max_size=40))
def test_the_raw_text_of_a_span_normalizes_to_its_token(text, wordpiece):
    ids, spans = wordpiece.encode_with_offsets(text)

    for token_id, (start, end) in zip(ids, spans, strict=True):
        if token_id != wordpiece.special_ids.unk:
            assert word_splitting.split_words(
                text[start:end], do_lower_case=True, keep_accents=False
            ) == [wordpiece.id_to_token(token_id).removeprefix("##")]
