"""What both tokenizers promise, and how they are loaded."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.text import base
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert_tf.text.tokenizer import load_tokenizer

BOTH = pytest.mark.parametrize("kind", ["comma", "wordpiece"])
texts = st.text(max_size=40) | st.text(
    st.sampled_from(
        "the ab  unaffable,,.1239xéE\u0301½한\u1112你好!İ[MASK]<pad>\x00"
    ),
    max_size=40,
)


@pytest.fixture
def tokenizer(kind, request):
    return request.getfixturevalue(kind)


@pytest.fixture
def file_of(kind, request):
    name = {"comma": "comma_model", "wordpiece": "wordpiece_file"}[kind]
    return request.getfixturevalue(name)


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize(
    ("recorded", "vocabulary"),
    [
        ("sentencepiece", {"spm_model_file": "data/spm/30k-clean.model"}),
        ("wordpiece_zh", {"vocab_file": "data/configs/albert_zh/vocab.txt"}),
    ],
)
def test_ids_equal_every_recorded_case_alone_and_in_a_batch(
    recorded, vocabulary, do_lower_case, shared_data
):
    path = shared_data / f"golden/tokenization/{recorded}.json"
    cases = [
        case
        for case in json.loads(path.read_text())
        if case["do_lower_case"] == do_lower_case
    ]
    tokenizer = load_tokenizer(
        **{name: shared_data / file for name, file in vocabulary.items()},
        do_lower_case=do_lower_case,
    )

    assert cases
    for case in cases:
        ids, spans = tokenizer.encode_with_offsets(case["text"])
        assert tokenizer.encode(case["text"]) == ids == case["ids"]
        assert len(spans) == len(ids)
        if "vocab_file" in vocabulary:
            assert [*map(tokenizer.id_to_token, ids)] == case["pieces"]
    ids, lengths = tokenizer.encode_batch([case["text"] for case in cases])
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    assert ids.tolist() == [i for case in cases for i in case["ids"]]
    assert lengths.tolist() == [len(case["ids"]) for case in cases]


@BOTH
@given(batch=st.lists(texts, max_size=6))
def test_a_batch_has_the_spans_of_its_texts_one_by_one(batch, tokenizer):
    ids, lengths, (starts, ends) = tokenizer.encode_batch_with_offsets(batch)

    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    assert (starts.dtype, ends.dtype) == (np.int32, np.int32)
    last = np.cumsum(lengths)
    assert [
        (ids[own].tolist(), list(zip(starts[own], ends[own], strict=True)))
        for own in map(slice, last - lengths, last)
    ] == [tokenizer.encode_with_offsets(text) for text in batch]
    plain_ids, plain_lengths = tokenizer.encode_batch(batch)
    assert plain_ids.tolist() == ids.tolist()
    assert plain_lengths.tolist() == lengths.tolist()


@BOTH
@given(text=texts)
def test_spans_lie_in_the_text_and_never_go_back(text, tokenizer):
    ids, spans = tokenizer.encode_with_offsets(text)

    assert ids == tokenizer.encode(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    starts, ends = zip(*spans, strict=True) if spans else ((), ())
    assert list(starts) == sorted(starts)
    assert list(ends) == sorted(ends)


@BOTH
def test_rows_of_a_batch_are_encoded_pairs_with_padding(tokenizer):
    texts, others = ["unaffable a", "un"], ["", "a b a b a b a b"]

    batch = tokenizer.batch(texts, others, max_seq_length=9)

    assert list(batch) == ["input_ids", "input_mask", "segment_ids"]
    for row, (text, other) in enumerate(zip(texts, others, strict=True)):
        ids, segments = base.encode_pair(
            tokenizer.encode(text),
            tokenizer.encode(other),
            max_seq_length=9,
            special=tokenizer.special_ids,
        )
        padding = 9 - len(ids)
        for name, values, pad in [
            ("input_ids", ids, tokenizer.special_ids.pad),
            ("input_mask", [1] * len(ids), 0),
            ("segment_ids", segments, 0),
        ]:
            assert batch[name].dtype == np.int32
            assert batch[name].shape == (2, 9)
            assert batch[name][row].tolist() == [*values, *[pad] * padding]


@BOTH
def test_a_text_is_no_list_of_texts(tokenizer):
    with pytest.raises(ValueError, match=r"\[text\] for a batch of one"):
        tokenizer.batch("unaffable", max_seq_length=9)


@BOTH
def test_the_hash_depends_on_content_and_case_only(
    tokenizer, file_of, tmp_path, tiny_spm_model
):
    copy = shutil.copy(file_of, tmp_path / "elsewhere")
    load = type(tokenizer)

    assert load(copy).fingerprint == tokenizer.fingerprint
    assert load(copy, do_lower_case=False).fingerprint != tokenizer.fingerprint
    assert (
        SentencePieceTokenizer(tiny_spm_model).fingerprint
        != tokenizer.fingerprint
    )
    assert len(tokenizer.fingerprint) == 64
