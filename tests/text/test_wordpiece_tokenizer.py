import json
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albert_tf.text import normalization, wordpiece_tokenizer

PIECES = (
    *("[PAD]", "[unused1]", "<S>", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("a", "b", "un", "##aff", "##able", "##a", "##b", ",", "你", "好"),
    *("!", "[", "]", "mask", "1", "##1"),
)
texts = st.text(max_size=40) | st.text(
    st.sampled_from("ab unaffable,你好!1\u0301é[MASK]\x00\u3000İ½"), max_size=40
)
fixture_is_read_only = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def load(folder, lines, **settings):
    path = folder / "vocab.txt"
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return wordpiece_tokenizer.WordPieceTokenizer(path, **settings)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return load(tmp_path_factory.mktemp("wordpiece"), PIECES)


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def released(request, shared_data):
    """The Chinese tokenizer with the cases recorded for it."""
    cases = json.loads(
        (shared_data / "golden/tokenization/wordpiece_zh.json").read_text()
    )
    tokenizer = wordpiece_tokenizer.WordPieceTokenizer(
        shared_data / "data/configs/albert_zh/vocab.txt",
        do_lower_case=request.param,
    )
    return tokenizer, [c for c in cases if c["do_lower_case"] == request.param]


def tokens_of(tokenizer, text):
    return [tokenizer.id_to_piece(i) for i in tokenizer.encode(text)]


def test_ids_and_tokens_equal_every_recorded_case(released):
    tokenizer, cases = released

    assert cases
    for case in cases:
        ids, spans = tokenizer.encode_with_offsets(case["text"])
        assert tokenizer.encode(case["text"]) == ids == case["ids"]
        assert tokens_of(tokenizer, case["text"]) == case["pieces"]
        assert len(spans) == len(ids)


def test_a_batch_of_every_recorded_case_has_the_recorded_ids(released):
    tokenizer, cases = released

    ids, lengths = tokenizer.encode_batch([case["text"] for case in cases])

    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    assert ids.tolist() == [i for case in cases for i in case["ids"]]
    assert lengths.tolist() == [len(case["ids"]) for case in cases]


def test_the_released_vocabulary_keeps_its_ids_after_u2028(released):
    tokenizer, _ = released

    assert tokenizer.vocab_size == 21128
    assert tokenizer.id_to_piece(343) == " "
    assert tokenizer.id_to_piece(344) == "‰"
    assert tokenizer.id_to_piece(13502) == "##"


def test_words_are_cut_into_the_longest_tokens(tiny):
    assert tokens_of(tiny, "unaffable") == ["un", "##aff", "##able"]


def test_a_word_with_a_part_that_is_no_token_is_unknown_as_a_whole(tiny):
    assert tokens_of(tiny, "unaffected a") == ["[UNK]", "a"]


def test_a_word_of_more_than_200_characters_is_unknown(tiny):
    assert len(tokens_of(tiny, "a" * 200)) == 200
    assert tokens_of(tiny, "a" * 201) == ["[UNK]"]


def test_names_of_special_tokens_in_text_are_only_text(tiny):
    assert tokens_of(tiny, "[MASK]") == ["[", "mask", "]"]
    assert tokens_of(tiny, "<S>") == ["[UNK]"] * 3


def test_ids_are_the_rank_of_the_first_occurrence(tmp_path):
    tokenizer = load(tmp_path, [*PIECES, "a", "z extra\tcolumns\r", "", "##z"])

    assert tokenizer.piece_to_id("a") == PIECES.index("a")
    assert tokenizer.piece_to_id("z") == len(PIECES)
    assert tokenizer.piece_to_id(" ") == len(PIECES) + 1
    assert tokenizer.piece_to_id("##z") == len(PIECES) + 2
    assert tokenizer.vocab_size == len(PIECES) + 3


def test_special_and_reserved_tokens_are_known_by_name(tiny):
    assert tiny.special_ids.pad == 0
    assert tiny.special_ids.unk == 3
    assert tiny.special_ids.mask == 6
    assert tiny.forbidden_ids.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert tiny.word_starts.sum() == len(PIECES) - 5


def test_spans_name_the_raw_characters(tiny):
    #       0123456789
    text = " Un\u0301affable你"

    ids, spans = tiny.encode_with_offsets(text)

    assert [tiny.id_to_piece(i) for i in ids] == ["un", "##aff", "##able", "你"]
    assert spans == [(1, 4), (4, 7), (7, 11), (11, 12)]


@fixture_is_read_only
@given(text=texts)
def test_spans_lie_in_the_text_and_never_go_back(text, tiny):
    ids, spans = tiny.encode_with_offsets(text)

    assert ids == tiny.encode(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    starts, ends = zip(*spans, strict=True) if spans else ((), ())
    assert list(starts) == sorted(starts)
    assert list(ends) == sorted(ends)


@fixture_is_read_only
@given(text=st.text(st.sampled_from("ab uné\u0301,你1 \t"), max_size=40))
def test_the_raw_text_of_a_span_normalizes_to_its_token(text, tiny):
    ids, spans = tiny.encode_with_offsets(text)

    for token_id, (start, end) in zip(ids, spans, strict=True):
        if token_id != tiny.special_ids.unk:
            assert normalization.split_words(
                text[start:end], do_lower_case=True
            ) == [tiny.id_to_piece(token_id).removeprefix("##")]


@fixture_is_read_only
@given(batch=st.lists(texts, max_size=6))
def test_a_batch_has_the_spans_of_its_texts_one_by_one(batch, tiny):
    ids, lengths, (starts, ends) = tiny.encode_batch_with_offsets(batch)

    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    assert (starts.dtype, ends.dtype) == (np.int32, np.int32)
    last = np.cumsum(lengths)
    assert [
        (ids[own].tolist(), list(zip(starts[own], ends[own], strict=True)))
        for own in map(slice, last - lengths, last)
    ] == [tiny.encode_with_offsets(text) for text in batch]


@fixture_is_read_only
@given(batch=st.lists(texts, max_size=6))
def test_a_batch_equals_its_texts_one_by_one(batch, tiny):
    ids, lengths = tiny.encode_batch(batch)

    rows = np.split(ids, np.cumsum(lengths)[:-1]) if batch else []
    assert [row.tolist() for row in rows] == [tiny.encode(t) for t in batch]


def test_text_comes_back_with_single_spaces(tiny):
    ids = [tiny.special_ids.cls, *tiny.encode("Unaffable,  a zz 1"), 5]

    assert tiny.decode(np.array(ids)) == "unaffable , a [UNK] 1"


@pytest.mark.parametrize("token_id", [-1, len(PIECES)])
def test_an_id_outside_the_vocabulary_is_an_error(tiny, token_id):
    with pytest.raises(ValueError, match=f"Id {token_id} .* wanted 0 to"):
        tiny.id_to_piece(token_id)
    with pytest.raises(ValueError, match=f"Id {token_id} .* wanted 0 to"):
        tiny.decode([token_id])


def test_a_token_that_is_not_there_has_the_unknown_id(tiny):
    assert tiny.piece_to_id("zebra") == tiny.special_ids.unk


def test_the_hash_depends_on_content_and_case_only(tiny, tmp_path):
    assert load(tmp_path, PIECES).hash == tiny.hash
    assert load(tmp_path, PIECES, do_lower_case=False).hash != tiny.hash
    assert load(tmp_path, [*PIECES, "z"]).hash != tiny.hash


def test_a_tokenizer_can_be_sent_to_another_process(tiny):
    assert pickle.loads(pickle.dumps(tiny)).encode("un") == tiny.encode("un")


def test_a_vocabulary_without_special_tokens_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"vocab.txt: .* \[PAD\], \[UNK\], "):
        load(tmp_path, ["a", "b"])
