import re

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.export.sentencepiece_graph import SentencePieceGraph

Model = sentencepiece_model_pb2.ModelProto
PIECES = Model.SentencePiece


@pytest.fixture(scope="module")
def changed(tiny_spm_model, tmp_path_factory):
    """Writes a copy of the tiny model after a change."""

    def change(alter):
        model = Model.FromString(tiny_spm_model.read_bytes())
        alter(model)
        path = tmp_path_factory.mktemp("changed") / "changed.model"
        path.write_bytes(model.SerializeToString())
        return str(path)

    return change


NUMBERS = ["▁1,", "2,", "▁1974,", "x3,", "³,", "▁9,9,"]
USER_DEFINED = ["ee(", "\u1112\u1161", "the", "½½", "e 1"]
TEXTS = [
    # Numbers are cut from commas.
    *("1,", "a 1, 2,", "¨ 1,", "1974,x3, 9,9,", "12,2,", "1 ,2,\u0301,"),
    # User-defined pieces of several characters.
    *("the eee( other", "\u1112\u1161\u11ab", "e 1 the½½½"),
    # A special piece that text could become.
    "[mask] [MASK] x",
]


def add_pieces(model):
    for pieces, kind in (
        (NUMBERS, PIECES.NORMAL),
        (USER_DEFINED, PIECES.USER_DEFINED),
    ):
        for piece in pieces:
            model.pieces.add(piece=piece, score=-1.0, type=kind)
    for piece in model.pieces:
        if piece.piece == "[MASK]":
            piece.type = PIECES.USER_DEFINED


def test_a_model_with_other_pieces(changed, graph_tokenizer, text_maker):
    found = graph_tokenizer(spm_model_file=changed(add_pieces))

    texts = TEXTS + text_maker.many("hard", 300, 5)
    assert found.differences(texts) == []


@pytest.mark.parametrize(
    ("part", "name", "value", "words"),
    [
        ("normalizer_spec", "add_dummy_prefix", False, "must be on"),
        ("normalizer_spec", "remove_extra_whitespaces", False, "must be on"),
        ("trainer_spec", "treat_whitespace_as_suffix", True, "must be off"),
    ],
)
def test_a_model_of_another_kind_is_refused(part, name, value, words, changed):
    path = changed(lambda model: setattr(getattr(model, part), name, value))

    with pytest.raises(
        ValueError, match=f"{re.escape(path)}.*{name} {words}.*ALBERT"
    ):
        SentencePieceGraph(path)


def test_a_missing_file():
    with pytest.raises(FileNotFoundError, match="No such file"):
        SentencePieceGraph("none.model")
