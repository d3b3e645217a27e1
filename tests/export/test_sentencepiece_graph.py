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


def add_pieces(kind, pieces):
    def add(model):
        for piece in pieces:
            model.pieces.add(piece=piece, score=-1.0, type=kind)

    return add


def free_mask(model):
    for piece in model.pieces:
        if piece.piece == "[MASK]":
            piece.type = PIECES.USER_DEFINED


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        pytest.param(
            add_pieces(
                PIECES.NORMAL, ["▁1,", "2,", "▁1974,", "x3,", "³,", "▁9,9,"]
            ),
            ["1,", "a 1, 2,", "¨ 1,", "1974,x3, 9,9,", "12,2,", "1 ,2,\u0301,"],
            id="numbers-are-cut-from-commas",
        ),
        pytest.param(
            add_pieces(
                PIECES.USER_DEFINED,
                ["ee(", "\u1112\u1161", "the", "½½", "e 1"],
            ),
            ["the eee( other", "\u1112\u1161\u11ab", "e 1 the½½½"],
            id="user-defined-pieces-of-several-characters",
        ),
        pytest.param(
            free_mask,
            ["[mask] [MASK] x"],
            id="special-pieces-that-text-could-become",
        ),
    ],
)
def test_models_with_other_pieces(
    change, texts, changed, graph_tokenizer, text_maker
):
    found = graph_tokenizer(spm_model_file=changed(change))

    assert found.differences(texts + text_maker.many("hard", 300, 5)) == []


def _set(part, name, value):
    return lambda model: setattr(getattr(model, part), name, value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            _set("normalizer_spec", "add_dummy_prefix", False),
            "add_dummy_prefix",
        ),
        (
            _set("normalizer_spec", "remove_extra_whitespaces", False),
            "remove_extra_whitespaces must be on",
        ),
        (
            _set("trainer_spec", "treat_whitespace_as_suffix", True),
            "treat_whitespace_as_suffix must be off",
        ),
    ],
)
def test_a_model_of_another_kind_is_refused(change, words, changed):
    path = changed(change)

    with pytest.raises(ValueError, match=f"{re.escape(path)}.*{words}.*ALBERT"):
        SentencePieceGraph(path)


def test_a_missing_file():
    with pytest.raises(FileNotFoundError, match="no SentencePiece model"):
        SentencePieceGraph("none.model")
