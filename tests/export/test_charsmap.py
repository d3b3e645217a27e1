import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.export import charsmap

LETTERS = {"a", "b", "é", "ﬁ", "\u1112", "\u1161", "\u11ab", "①", "\x07"}


@pytest.fixture(scope="module")
def charsmap_of_tiny(tiny_spm_model):
    model = sentencepiece_model_pb2.ModelProto.FromString(
        tiny_spm_model.read_bytes()
    )
    return model.normalizer_spec.precompiled_charsmap


@pytest.fixture(scope="module")
def rules_of(charsmap_of_tiny):
    return lambda alphabet: charsmap.read_rules(charsmap_of_tiny, alphabet)


def test_rules_of_one_character_and_of_several(rules_of):
    assert rules_of(LETTERS) == {
        "ﬁ": "fi",
        "①": "1",
        "\x07": "",
        "\u1112\u1161": "하",
        "\u1112\u1161\u11ab": "한",
    }


def test_the_rules_are_what_the_library_does(rules_of, tiny_spm_model):
    library = sentencepiece.SentencePieceProcessor(
        model_file=str(tiny_spm_model)
    )
    alphabet = {chr(c) for c in [*range(0x21, 0x2000), *range(0x3040, 0x3400)]}
    rules = {s: t for s, t in rules_of(alphabet).items() if "▁" not in t}

    assert len(rules) > 3_000
    for sequence, text in rules.items():
        normalized = library.normalize(f"x{sequence}x")
        assert normalized == f"▁x{text}x".replace(" ", "▁"), sequence


def test_no_rules():
    assert charsmap.read_rules(b"", LETTERS) == {}


def test_damaged_rules(charsmap_of_tiny):
    without_texts = charsmap_of_tiny[: -len(charsmap_of_tiny) // 4]

    with pytest.raises(ValueError, match="normalisation rules .* are damaged"):
        charsmap.read_rules(without_texts, LETTERS)
