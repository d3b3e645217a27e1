"""Heads without a task: masked words, the order of two texts, vectors."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from tests.predict.test_predictor import CONFIG, TEXTS


def test_masks_and_order(load):
    model = albert_tf.PretrainingModel(CONFIG)
    predictor = load(model)
    text = "The [MASK] sat[MASK]."

    answer = predictor.predict(text)
    pair = predictor.predict(("The cat.", "It sat."))

    tokenizer = predictor.tokenizer
    special = tokenizer.special_ids
    ids = tokenizer.encode_with_masks(text, "[MASK]")
    ids = [special.cls, *ids, special.sep]
    places = [i for i, one in enumerate(ids) if one == special.mask]
    outputs = model(
        {
            "input_ids": np.array([ids]),
            "masked_lm_positions": np.array([places]),
        }
    )
    probabilities = tf.nn.softmax(outputs["masked_lm_logits"])[0].numpy()
    assert len(answer["masks"]) == 2
    for mask, row in zip(answer["masks"], probabilities, strict=True):
        for one in mask:
            place = tokenizer.token_to_id(one["token"])
            assert one["probability"] == pytest.approx(row[place], rel=1e-4)
        assert mask[0]["probability"] == pytest.approx(row.max(), rel=1e-4)
    batch = tokenizer.batch(["The cat."], ["It sat."], max_seq_length=20)
    order = model(batch | {"masked_lm_positions": np.zeros((1, 1), int)})
    expected = tf.nn.softmax(order["sentence_order_logits"])[0, 0]
    assert pair == {"in_order": pytest.approx(float(expected), rel=1e-4)}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalize", [True, False])
def test_vectors(load, pooling, normalize):
    model = albert_tf.AlbertModel(CONFIG)
    predictor = load(
        model, head="encoder", pooling=pooling, normalize=normalize
    )

    found = np.stack([one["vector"] for one in predictor.predict(TEXTS)])

    batch = predictor.tokenizer.batch(TEXTS, max_seq_length=64)
    hidden = model(batch)["sequence_output"].numpy()
    mask = batch["input_mask"][:, :, None]
    expected = hidden[:, 0]
    if pooling == "mean":
        expected = (hidden * mask).sum(1) / mask.sum(1)
    if normalize:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no mask", "Pass a text with"),
        ("[MASK]" * 9, "may have 8 .MASK., .* 9, of which 8"),
        ("snow " * 99 + "[MASK]", "1, of which 0"),
    ],
)
def test_texts_that_no_head_answers(text, message, load):
    predictor = load(albert_tf.PretrainingModel(CONFIG))

    with pytest.raises(ValueError, match=message):
        predictor.predict(text)


def test_what_follows_a_mask_without_a_space_starts_no_word(load):
    tokenizer = load(albert_tf.PretrainingModel(CONFIG)).tokenizer
    whole = tokenizer.encode("The cat sat.")

    masked = tokenizer.encode_with_masks("The cat [MASK].", "[MASK]")
    spaced = tokenizer.encode_with_masks("[MASK] sat.", "[MASK]")

    assert tokenizer.id_to_token(whole[-1]) == "."
    assert masked[-2:] == [tokenizer.special_ids.mask, whole[-1]]
    assert spaced[1:] == tokenizer.encode("sat.")
