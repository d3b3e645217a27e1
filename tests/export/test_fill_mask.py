"""The tokens in place of masks are those of the model, asked in Python."""

import numpy as np
import tensorflow as tf

from albert_tf.export import fill_mask

TEXTS = [
    "The [MASK] stood on a hill.",
    "[MASK]",
    "No mask.",
    "",
    "[MASK][MASK] x[MASK]y [MASK ] [mask] [[MASK]]",
    "Café ½ [MASK] 漢字 \0",
    "[MASK] " + "the house " * 50,
]


def expected_of(exported, text):
    """Returns tokens and probabilities of each mask of a text."""
    special = exported.tokenizer.special_ids
    ids = []
    for part in text.split(fill_mask.MASK):
        ids += [special.mask, *exported.tokenizer.encode(part)]
    ids = [
        special.cls,
        *ids[1:][: exported.config.max_seq_length - 2],
        special.sep,
    ]
    positions = [i for i, one in enumerate(ids) if one == special.mask]
    if not positions:
        return []
    ids = np.array([ids], np.int32)
    logits = exported.model(
        {
            "input_ids": ids,
            "input_mask": ids * 0 + 1,
            "segment_ids": ids * 0,
            "masked_lm_positions": np.array([positions], np.int32),
        }
    )["masked_lm_logits"]
    values, best = tf.math.top_k(tf.nn.softmax(logits[0]), 5)
    return [
        ([exported.tokenizer.id_to_token(int(i)) for i in row], probabilities)
        for row, probabilities in zip(best, values.numpy(), strict=True)
    ]


def test_the_likeliest_tokens(exported_encoder):
    found = exported_encoder.ask("fill_mask", text=TEXTS)

    assert found["top_pieces"].shape == (len(TEXTS), 4, 5)
    for row, text in enumerate(TEXTS):
        expected = expected_of(exported_encoder, text)
        assert len(expected) == text.count(fill_mask.MASK)
        for mask in range(4):
            tokens = [p.decode() for p in found["top_pieces"][row, mask]]
            probabilities = found["top_probabilities"][row, mask]
            if mask < len(expected):
                assert tokens == expected[mask][0]
                np.testing.assert_allclose(
                    probabilities, expected[mask][1], atol=1e-5
                )
            else:
                assert tokens == [""] * 5
                assert not probabilities.any()


def test_texts_without_a_mask(exported_encoder):
    found = exported_encoder.ask("fill_mask", text=["none here", ""])

    assert found["top_pieces"].shape == (2, 0, 5)
