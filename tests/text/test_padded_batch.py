import numpy as np
import pytest

from albert_tf.text import sequence_pairs, tokenizer


@pytest.fixture(params=["sentencepiece", "wordpiece"])
def tiny_tokenizer(request, tiny_spm_model, tmp_path):
    if request.param == "sentencepiece":
        return tokenizer.load_tokenizer(spm_model_file=tiny_spm_model)
    vocabulary = tmp_path / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary.write_text("\n".join([*special, "the", "cat", "##s"]))
    return tokenizer.load_tokenizer(vocab_file=vocabulary)


def test_rows_are_encoded_pairs_with_padding(tiny_tokenizer):
    texts, others = ["The cats", "The"], ["", "the cat the cat the cat"]

    batch = tiny_tokenizer.batch(texts, others, max_seq_length=9)

    assert list(batch) == ["input_ids", "input_mask", "segment_ids"]
    for row, (text, other) in enumerate(zip(texts, others, strict=True)):
        ids, segments = sequence_pairs.encode_pair(
            tiny_tokenizer.encode(text),
            tiny_tokenizer.encode(other),
            max_seq_length=9,
            special=tiny_tokenizer.special_ids,
        )
        padding = 9 - len(ids)
        for name, values, pad in [
            ("input_ids", ids, tiny_tokenizer.special_ids.pad),
            ("input_mask", [1] * len(ids), 0),
            ("segment_ids", segments, 0),
        ]:
            assert batch[name].dtype == np.int32
            assert batch[name].shape == (2, 9)
            assert batch[name][row].tolist() == [*values, *[pad] * padding]


def test_texts_alone_are_pairs_with_empty_texts(tiny_tokenizer):
    alone = tiny_tokenizer.batch(["the", "cat"], max_seq_length=5)
    paired = tiny_tokenizer.batch(["the", "cat"], ["", ""], max_seq_length=5)

    for name, values in alone.items():
        np.testing.assert_array_equal(values, paired[name])


@pytest.mark.parametrize(
    ("texts", "text_pairs", "message"),
    [
        ("the cat", None, "`texts` must be a sequence of texts.*one text"),
        (["the"], "cat", "`text_pairs` must be a sequence of texts"),
        (["the", "cat"], ["cat"], "Received: 1 for 2"),
    ],
)
def test_wrong_texts_are_errors(tiny_tokenizer, texts, text_pairs, message):
    with pytest.raises(ValueError, match=message):
        tiny_tokenizer.batch(texts, text_pairs, max_seq_length=8)
