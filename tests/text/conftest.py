"""Tiny tokenizers of both kinds."""

import pytest
from hypothesis import HealthCheck, settings
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

settings.register_profile(
    "text",
    deadline=None,
    # The fixtures are tokenizers, which no test changes.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("text")

# Pieces that end in a digit and a comma: with a word mark and without, of one
# digit and of more than the vocabulary has.
COMMA_PIECES = ("▁1,", "2,", "▁1974,", "x3,", "³,", "▁9,9,")
WORDPIECE_TOKENS = (
    *("[unused1]", "[PAD]", "<S>", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("a", "b", "un", "##aff", "##able", "##a", "##b", ",", "你", "好"),
    *("!", "[", "]", "mask", "1", "##1"),
)


@pytest.fixture(scope="session")
def comma_model(tiny_spm_model, tmp_path_factory):
    """A SentencePiece model with `COMMA_PIECES`."""
    model = sentencepiece_model_pb2.ModelProto.FromString(
        tiny_spm_model.read_bytes()
    )
    for piece in COMMA_PIECES:
        model.pieces.add(piece=piece, score=-1.0)
    path = tmp_path_factory.mktemp("comma") / "comma.model"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="session")
def comma(comma_model):
    return SentencePieceTokenizer(comma_model)


@pytest.fixture(scope="session")
def wordpiece_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    path.write_text("\n".join(WORDPIECE_TOKENS), "utf-8", newline="\n")
    return path


@pytest.fixture(scope="session")
def wordpiece(wordpiece_file):
    return WordPieceTokenizer(wordpiece_file)
