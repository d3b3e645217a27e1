import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.export import charsmap
from albert_tf.export.model_normalization import ModelNormalization
from albert_tf.export.text_normalization import SentencePieceNormalization
from albert_tf.text import normalization


@pytest.fixture(scope="module")
def english_normalization():
    return SentencePieceNormalization(do_lower_case=True)


def normalized(found, num_rows):
    rows = [""] * num_rows
    for code_point, row in zip(
        found.code_points.numpy(), found.row_ids.numpy(), strict=True
    ):
        rows[row] += chr(code_point)
    return rows


def test_the_longest_rule_applies_and_user_defined_pieces_are_kept(
    english_normalization,
):
    model = ModelNormalization(
        {"a": "1", "ab": "2 3", "c": "", "(": "x", "d": " "}, frozenset("(")
    )

    found = model(
        english_normalization(tf.constant(["aab(", "ca d dba", "dd"]))
    )

    assert normalized(found, 3) == ["▁12▁3(", "▁1▁b1", ""]
    assert found.origins.numpy().tolist() == [0, 0, 1, 1, 1, 3, 4, 5, 6, 10, 11]
    assert found.ends.numpy().tolist() == [4, 12, 14]


def test_a_rule_over_several_characters_stays_in_its_row(
    english_normalization,
):
    model = ModelNormalization({"ab": "c"}, frozenset())

    found = model(english_normalization(tf.constant(["a", "b", "abab"])))

    assert normalized(found, 3) == ["▁a", "▁b", "▁cc"]


def test_what_the_library_does(
    tiny_spm_model, english_normalization, text_maker
):
    library = sentencepiece.SentencePieceProcessor(
        model_file=str(tiny_spm_model)
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(
        tiny_spm_model.read_bytes()
    )
    rules = charsmap.read_rules(
        proto.normalizer_spec.precompiled_charsmap,
        english_normalization.alphabet,
    )
    symbols = {piece.piece for piece in proto.pieces if piece.type == 4}
    model = ModelNormalization(rules, frozenset(symbols))
    texts = text_maker.many("hard", 500, seed=7)

    found = model(english_normalization(tf.constant(texts)))

    assert normalized(found, len(texts)) == [
        library.normalize(normalization.normalize(text, do_lower_case=True))
        for text in texts
    ]
