import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.export import model_normalization
from albert_tf.export.model_normalization import ModelNormalization
from albert_tf.export.text_normalization import SentencePieceNormalization
from albert_tf.text import normalization

LETTERS = {"a", "b", "é", "ﬁ", "\u1112", "\u1161", "\u11ab", "①", "\x07"}


@pytest.fixture(scope="module")
def tiny_model(tiny_spm_model):
    return sentencepiece_model_pb2.ModelProto.FromString(
        tiny_spm_model.read_bytes()
    )


@pytest.fixture(scope="module")
def charsmap(tiny_model):
    return tiny_model.normalizer_spec.precompiled_charsmap


@pytest.fixture(scope="module")
def library(tiny_spm_model):
    return sentencepiece.SentencePieceProcessor(model_file=str(tiny_spm_model))


def test_rules_of_one_character_and_of_several(charsmap):
    assert model_normalization.read_rules(charsmap, LETTERS) == {
        "ﬁ": "fi",
        "①": "1",
        "\x07": "",
        "\u1112\u1161": "하",
        "\u1112\u1161\u11ab": "한",
    }


def test_the_rules_are_what_the_library_does(charsmap, library):
    alphabet = {chr(c) for c in [*range(0x21, 0x2000), *range(0x3040, 0x3400)]}
    rules = model_normalization.read_rules(charsmap, alphabet)
    rules = {s: t for s, t in rules.items() if "▁" not in t}

    assert len(rules) > 3_000
    for sequence, text in rules.items():
        normalized = library.normalize(f"x{sequence}x")
        assert normalized == f"▁x{text}x".replace(" ", "▁"), sequence


def test_no_rules():
    assert model_normalization.read_rules(b"", LETTERS) == {}


def test_damaged_rules(charsmap):
    without_texts = charsmap[: -len(charsmap) // 4]

    with pytest.raises(ValueError, match="normalization rules .* are damaged"):
        model_normalization.read_rules(without_texts, LETTERS)


@pytest.fixture(scope="module")
def english():
    return SentencePieceNormalization(do_lower_case=True)


def rows_of(found, num_rows):
    rows = [""] * num_rows
    for code_point, row in zip(
        found.code_points.numpy(), found.row_ids.numpy(), strict=True
    ):
        rows[row] += chr(code_point)
    return rows


def test_the_longest_rule_applies_and_user_defined_pieces_are_kept(english):
    model = ModelNormalization(
        {"a": "1", "ab": "2 3", "c": "", "(": "x", "d": " "}, frozenset("(")
    )

    found = model(english(tf.constant(["aab(", "ca d dba", "dd"])))

    assert rows_of(found, 3) == ["▁12▁3(", "▁1▁b1", ""]
    assert found.origins.numpy().tolist() == [0, 0, 1, 1, 1, 3, 4, 5, 6, 10, 11]
    assert found.ends.numpy().tolist() == [4, 12, 14]


def test_a_rule_over_several_characters_stays_in_its_row(english):
    model = ModelNormalization({"ab": "c"}, frozenset())

    found = model(english(tf.constant(["a", "b", "abab"])))

    assert rows_of(found, 3) == ["▁a", "▁b", "▁cc"]


def test_what_the_library_does(tiny_model, library, english, text_maker):
    rules = model_normalization.read_rules(
        tiny_model.normalizer_spec.precompiled_charsmap, english.alphabet
    )
    symbols = {piece.piece for piece in tiny_model.pieces if piece.type == 4}
    model = ModelNormalization(rules, frozenset(symbols))
    texts = text_maker.many("hard", 500, seed=7)

    found = model(english(tf.constant(texts)))

    assert rows_of(found, len(texts)) == [
        library.normalize(normalization.normalize(text, do_lower_case=True))
        for text in texts
    ]
