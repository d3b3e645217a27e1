import string

import pytest
import sentencepiece
from hypothesis import assume, given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import normalization, sentencepiece_tokenizer

USER_DEFINED = sentencepiece_model_pb2.ModelProto.SentencePiece.USER_DEFINED

texts = st.text(max_size=60) | st.text(
    st.sampled_from("the a  ,,.1239xéE\u0301½한\u1112\u1161 [MASK]<pad>\x01"),
    max_size=60,
)


@pytest.fixture(scope="module")
def tiny(tiny_spm_model):
    return sentencepiece_tokenizer.SentencePieceTokenizer(tiny_spm_model)


def reference_ids(processor, text):
    """tokenization.encode_pieces of the original on strings, said again."""
    ids = []
    for piece in processor.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            number = piece[:-1].replace("▁", "")
            parts = [*processor.encode(number, out_type=str), ","]
            ids += [processor.piece_to_id(part) for part in parts]
        else:
            ids.append(processor.piece_to_id(piece))
    return ids


def test_facts_of_the_released_vocabulary(shared_data):
    tokenizer = sentencepiece_tokenizer.SentencePieceTokenizer(
        shared_data / "data/spm/30k-clean.model"
    )

    assert tokenizer.vocab_size == 30000
    assert tokenizer.word_starts.sum() == 23242
    assert tokenizer.forbidden_ids.tolist() == [0, 1, 2, 3, 4]
    cut = [i for i, ids in tokenizer.replacements.items() if len(ids) > 1]
    assert len(cut) == 141


@given(text=texts)
def test_numbers_and_commas_are_cut_as_in_the_reference(
    text, comma, comma_model
):
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(comma_model)
    )
    normalized = normalization.normalize(text, do_lower_case=True)

    assert comma.encode(text) == reference_ids(processor, normalized)


@given(text=st.text(st.sampled_from("thea  ,,.\t1239xéE\u0301Ü"), max_size=60))
def test_the_raw_text_of_a_span_normalizes_to_its_piece(text, comma):
    ids, spans = comma.encode_with_offsets(text)

    for token_id, (start, end) in zip(ids, spans, strict=True):
        if token_id != comma.special_ids.unk:
            assert (
                normalization.normalize(text[start:end], do_lower_case=True)
            ) == comma.id_to_token(token_id).removeprefix("▁")


@given(text=texts)
def test_spans_are_those_that_the_model_tells(text, tiny, tiny_spm_model):
    # The tokenizer computes spans from the sizes of the pieces.
    model = sentencepiece.SentencePieceProcessor(model_file=str(tiny_spm_model))
    normalized = normalization.normalize(text, do_lower_case=True)
    traced = normalization.trace_all([text], [normalized])

    told = model.encode(traced.text, return_type="offset_mapping")
    assume(tiny.replacements.keys().isdisjoint(told["ids"]))

    ids, spans = tiny.encode_with_offsets(text)
    assert ids == told["ids"]
    raw_spans = traced.raw_spans(told["offsets"])
    assert list(map(list, spans)) == raw_spans.T.tolist()


def test_a_name_of_the_unknown_piece_in_the_text_has_its_own_span(tiny):
    ids, spans = tiny.encode_with_offsets("a <unk> \u1234 b")

    assert spans[0] == (0, 1)
    assert spans[-1] == (10, 11)
    assert ids == tiny.encode("a <unk> \u1234 b")


def test_not_even_a_model_that_finds_them_yields_special_pieces(
    tiny_spm_model, change_model
):
    def make_findable(model):
        model.pieces[4].type = USER_DEFINED

    path = change_model(tiny_spm_model, make_findable)
    found = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = sentencepiece_tokenizer.SentencePieceTokenizer(
        path, do_lower_case=False
    )

    assert 4 in found.encode("a [MASK]")
    assert 4 not in tokenizer.encode("a [MASK]")
    assert 4 in tokenizer.forbidden_ids


def test_what_starts_a_word(tiny_spm_model, change_model):
    starts = {"▁the", "<unk>", "▁", "7", "é", "aé", "£", "'s"}
    starts |= set(string.punctuation)
    # One of a cased vocabulary; English letters and punctuation.
    inside = {"ing", "ING", "[MASK]", "://"}

    def add_missing(model):
        known = {one.piece for one in model.pieces}
        for piece in sorted((starts | inside) - known):
            model.pieces.add(piece=piece, score=-1.0)

    path = change_model(tiny_spm_model, add_missing)
    tokenizer = sentencepiece_tokenizer.SentencePieceTokenizer(path)

    assert starts == {
        token
        for token in starts | inside
        if tokenizer.word_starts[tokenizer.token_to_id(token)]
    }


def test_half_a_surrogate_pair_does_not_stop_a_batch(tiny):
    ids, lengths = tiny.encode_batch(["a\ud83d", "a"])

    assert ids[-1] == tiny.token_to_id("▁a")
    assert lengths[-1] == 1
    assert ids[: lengths[0]].tolist() == tiny.encode("a\ud83d")
