import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import load_predictor
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.serving import graph_tokenizer
from albert_tf.serving.exported_encoder import ExportedWeights
from albert_tf.tasks.pretraining import signatures
from albert_tf.tasks.spec import Exported, ServingSettings
from tests.checkpoints.weights import save, weights_of
from tests.exported_models import TINY_CONFIG
from tests.text import symbols

TEXTS = ["The house stood on a hill.", "", "a" * 300, "Café ½"]
OTHERS = ["It was old.", "x", "b " * 300, ""]


@pytest.fixture
def pretrained(exported):
    return exported("pretraining")


def signatures_of(model, tokenizer):
    return signatures.make_signatures(
        Exported(
            settings=ServingSettings(max_seq_length=9),
            metadata=Metadata(),
            model=model,
            weights=ExportedWeights(model.weights, precision="float32"),
            tokenizer=tokenizer,
        )
    )


def ids_of(texts, others, tokenizer, max_seq_length):
    """As in Python, padded to the longest."""
    batch = tokenizer.batch(texts, others, max_seq_length=max_seq_length)
    length = batch["input_mask"].sum(axis=1).max()
    return {name: values[:, :length] for name, values in batch.items()}


def test_the_pretraining_heads(pretrained):
    ids = ids_of(TEXTS, OTHERS, pretrained.tokenizer, 20)
    positions = np.array([[1, 3], [0, 1], [2, 19], [1, 2]], np.int32)

    mlm = pretrained.ask("mlm", **ids, mlm_positions=positions)
    sop = pretrained.ask("sop", **ids)

    expected = pretrained.model({**ids, "masked_lm_positions": positions})
    np.testing.assert_allclose(
        mlm["mlm_logits"], expected["masked_lm_logits"], atol=1e-5
    )
    np.testing.assert_allclose(
        np.exp(sop["sop_log_probs"]),
        tf.nn.softmax(expected["sentence_order_logits"]),
        atol=1e-5,
    )
    tokens = pretrained.ask("tokens", **ids)
    for outputs in (mlm, sop):
        np.testing.assert_array_equal(
            outputs["pooled_output"], tokens["pooled_output"]
        )


MASKED_TEXTS = [
    "The [MASK] stood on a hill.",
    "[MASK]",
    "No mask.",
    "",
    "[MASK][MASK] x[MASK]y [MASK ] [mask] [[MASK]]",
    "A [MASK]. (The [MASK]), [MASK]'s [MASK]the-[MASK]-hill",
    "Café ½ [MASK] 漢字 \0",
    "[MASK] " + "the house " * 50,
]


def expected_of(exported, text):
    """Returns tokens and probabilities of each mask of a text."""
    special = exported.tokenizer.special_ids
    ids = exported.tokenizer.encode_with_masks(text, signatures.MASK)
    ids = [special.cls, *ids[: exported.config.max_seq_length - 2], special.sep]
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


def test_the_likeliest_tokens(pretrained):
    found = pretrained.ask("fill_mask", text=MASKED_TEXTS)

    assert found["top_tokens"].shape == (len(MASKED_TEXTS), 8, 5)
    numbers = [text.count(signatures.MASK) for text in MASKED_TEXTS]
    assert found["num_masks"].tolist() == numbers
    assert {*found["error"]} == {b""}
    for row, text in enumerate(MASKED_TEXTS):
        expected = expected_of(pretrained, text)
        assert len(expected) == text.count(signatures.MASK)
        for mask in range(8):
            tokens = [p.decode() for p in found["top_tokens"][row, mask]]
            probabilities = found["top_probabilities"][row, mask]
            if mask < len(expected):
                assert tokens == expected[mask][0]
                np.testing.assert_allclose(
                    probabilities, expected[mask][1], atol=1e-5
                )
            else:
                assert tokens == [""] * 5
                assert not probabilities.any()


def test_outputs_beyond_the_vocabulary_are_no_tokens(tiny):
    config = dataclasses.replace(TINY_CONFIG, vocab_size=310)
    model = PretrainingModel(config, objectives=["mlm"])
    bias = model.masked_lm_head.output_bias
    bias.assign(np.where(np.arange(310) < 300, 0.0, 9.0))
    *_, fill_mask = signatures_of(model, tiny.graph)

    found = fill_mask.function(text=tf.constant(["[MASK]"]))

    tokens = found["top_tokens"][0, 0].numpy()
    assert {token.decode() for token in tokens} <= set(tiny.graph.tokens)
    # With new weights, all 300 tokens are about as likely.
    probabilities = found["top_probabilities"][0, 0]
    np.testing.assert_allclose(probabilities, 1 / 300, rtol=0.5)


def test_symbols_without_cls_and_sep(tmp_path):
    symbols.write(tmp_path)
    config = dataclasses.replace(TINY_CONFIG, vocab_size=len(symbols.SYMBOLS))
    model = PretrainingModel(config, objectives=["mlm"], seed=3)
    save(tmp_path, config, weights_of(model))
    predictor = load_predictor(tmp_path, max_seq_length=9)
    vectors = load_predictor(tmp_path, head="encoder", max_seq_length=9)
    graph = graph_tokenizer.make(symbols.load(tmp_path))
    texts, *_, fill_mask = signatures_of(model, graph)
    masked = ["[MASK]", "həl[MASK] [MASK]ad", "ab M d[MASK] " + "b" * 99]

    found = fill_mask.function(
        text=tf.constant([*masked, "a" * 8 + "[MASK]", "a" * 9 + "[MASK]"])
    )
    encoded = texts.function(
        text_a=tf.constant(["", "həlo", "b" * 20]), text_b=tf.constant([""] * 3)
    )["sequence_output"].numpy()

    assert found["num_masks"].numpy().tolist() == [1, 2, 1, 1, 0]
    assert b"behind the cut of 9" in found["error"].numpy()[-1]
    for row, answer in enumerate(predictor.predict(masked)):
        for place, likeliest in enumerate(answer["masks"]):
            tokens = found["top_tokens"][row, place].numpy()
            assert [x["token"] for x in likeliest] == [
                x.decode() for x in tokens
            ]
            np.testing.assert_allclose(
                [x["probability"] for x in likeliest],
                found["top_probabilities"][row, place],
                atol=1e-5,
            )
    for text, size, rows in zip(
        ["", "həlo", "b" * 20], [1, 4, 9], encoded, strict=True
    ):
        mean = rows[:size].mean(0)
        answer = vectors.predict(text)["vector"]
        np.testing.assert_allclose(answer, mean, atol=1e-5)
        assert not rows[size:].any()
    with pytest.raises(ValueError, match="no .SEP. between two texts"):
        vectors.predict([("a", "b")])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="no .SEP. between"
    ):
        texts.function(text_a=tf.constant(["a"]), text_b=tf.constant(["b"]))


REFUSED_TEXTS = {
    "[MASK]" * 9: "A text may have at most 8 [MASK].",
    "the house " * 50 + "[MASK]": "A [MASK] lies behind the cut of 48 tokens.",
}


@pytest.mark.parametrize(
    "mates", [[], ["none here"], ["[MASK]" * 8, "[MASK] x"], [*REFUSED_TEXTS]]
)
def test_an_answer_does_not_depend_on_the_other_texts(pretrained, mates):
    text = "The [MASK] stood on a [MASK]."
    alone = pretrained.ask("fill_mask", text=[text])

    found = pretrained.ask("fill_mask", text=[*mates, text])

    assert found.keys() == alone.keys()
    for name, values in found.items():
        assert values[-1:].shape == alone[name].shape
        if values.dtype == np.float32:
            np.testing.assert_allclose(values[-1:], alone[name], atol=1e-6)
        else:
            np.testing.assert_array_equal(values[-1:], alone[name])


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_a_text_that_is_refused_has_the_reason_instead_of_tokens(
    text, pretrained
):
    found = pretrained.ask("fill_mask", text=["A [MASK].", text])

    expected = [b"", REFUSED_TEXTS[text].encode()]
    assert found["error"].tolist() == expected
    assert found["num_masks"].tolist() == [1, 0]
    assert {*found["top_tokens"][1].flat} == {b""}


@pytest.mark.parametrize(
    ("signature", "inputs", "words"),
    [
        (
            "serving_default",
            {"text_a": ["a", "b"], "text_b": ["c"]},
            "same number of strings",
        ),
        (
            "tokens",
            {
                name: np.ones((1, 65), np.int32)
                for name in ("input_ids", "input_mask", "segment_ids")
            },
            "1 to 64 tokens",
        ),
    ],
)
def test_impossible_requests_are_invalid_arguments(
    signature, inputs, words, pretrained
):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        pretrained.ask(signature, **inputs)
