import dataclasses
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


def test_numbers_are_cut_from_commas(changed, graph_tokenizer):
    def add_pieces(model):
        for piece in ("▁1,", "2,", "▁1974,", "x3,", "³,", "▁9,9,"):
            model.pieces.add(piece=piece, score=-1.0, type=PIECES.NORMAL)

    found = graph_tokenizer(spm_model_file=changed(add_pieces))

    assert (
        found.differences(
            ["1,", "a 1, 2,", "¨ 1,", "1974,x3, 9,9,", "12,2,", "1 ,2,\u0301,"]
        )
        == []
    )


def test_user_defined_pieces_of_several_characters(
    changed, graph_tokenizer, text_maker
):
    def add_pieces(model):
        for piece in ("ee(", "\u1112\u1161", "the", "½½", "e 1"):
            model.pieces.add(piece=piece, type=PIECES.USER_DEFINED)

    found = graph_tokenizer(spm_model_file=changed(add_pieces))
    texts = ["the eee( other", "\u1112\u1161\u11ab", "e 1 the½½½"]

    assert found.differences(texts + text_maker.many("hard", 300, 5)) == []


def test_special_pieces_that_text_could_become(changed, graph_tokenizer):
    def free_mask(model):
        for piece in model.pieces:
            if piece.piece == "[MASK]":
                piece.type = PIECES.USER_DEFINED

    found = graph_tokenizer(spm_model_file=changed(free_mask))

    assert found.differences(["[mask] [MASK] x"]) == []


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


def test_the_special_ids_are_the_tokenizers(tiny):
    assert dataclasses.astuple(tiny.graph.special_ids) == (0, 1, 2, 3, 4)
