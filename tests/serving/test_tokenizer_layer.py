import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.serving import signature
from albert_tf.serving.tokenizer_layer import TokenizerLayer
from albert_tf.text import tokenizer as tokenizers
from tests import tiny as tiny_models

LENGTH = 12
TEXTS = ["The cat sat.", "", "ünï ½ 25, 日本 " * 30, "a \ufffd\u2028 b"]
LABELS = np.array([0, 1, 0, 1])
# What a server's own process does; of ours it has only the SavedModel.
ASK = """
import sys
import zipfile
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load(sys.argv[1])
print(model.serve(tf.constant(sys.argv[2:])).numpy().tolist())
assert not [name for name in sys.modules if name.startswith("albert_tf")]
"""


@pytest.fixture(scope="module", params=["english", "cased", "wordpiece"])
def tokenizer(request, tiny_spm_model, tmp_path_factory):
    if request.param != "wordpiece":
        return tokenizers.load_tokenizer(
            spm_model_file=tiny_spm_model,
            do_lower_case=request.param == "english",
        )
    path = tiny_models.write_vocabulary(
        tmp_path_factory.mktemp("layer") / "vocab.txt",
        ["the", "cat", "sat", "##s", "a", "b", "日", "本", "25", ",", "."],
    )
    return tokenizers.load_tokenizer(vocab_file=path)


def _string_model(tokenizer, *, is_pair=False):
    texts = keras.Input([], dtype="string")
    if is_pair:
        texts = (texts, keras.Input([], dtype="string"))
    config = tiny_models.config(
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=1,
        max_position_embeddings=LENGTH,
    )
    ids = TokenizerLayer(tokenizer, max_seq_length=LENGTH)(texts)
    logits = ClassifierModel(config, num_labels=2)(ids)["logits"]
    model = keras.Model(texts, logits)
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def _assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == tf.int32


def test_ids_are_those_of_the_tokenizer(tokenizer, text_maker):
    layer = TokenizerLayer(tokenizer, max_seq_length=LENGTH)
    texts = [*TEXTS, *text_maker.many("hard", 200, seed=3), "x " * 100_000]
    others = [*texts[100:], *texts[:100]]

    alone = layer(tf.constant(texts))
    pairs = layer((tf.constant(texts), tf.constant(others)))

    _assert_same(alone, tokenizer(texts, max_seq_length=LENGTH))
    _assert_same(pairs, tokenizer(texts, others, max_seq_length=LENGTH))


@pytest.mark.parametrize(
    ("texts", "shape"),
    [
        ("one", (LENGTH,)),
        (["one", "two", "three"], (3, LENGTH)),
        (np.array([["one"], ["two"]], object), (2, 1, LENGTH)),
        (tf.constant([], tf.string), (0, LENGTH)),
    ],
)
def test_strings_have_any_shape(tiny, texts, shape):
    layer = TokenizerLayer(tiny.tokenizer, max_seq_length=LENGTH)

    assert {tuple(v.shape) for v in layer(texts).values()} == {shape}


@pytest.mark.parametrize("is_batched", [False, True])
def test_it_maps_a_dataset(tiny, is_batched):
    layer = TokenizerLayer(tiny.tokenizer, max_seq_length=LENGTH)
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)

    mapped = texts.batch(4).map(layer)
    if not is_batched:
        mapped = texts.map(layer).batch(4)

    [found] = mapped
    _assert_same(found, tiny.tokenizer(TEXTS, max_seq_length=LENGTH))
    assert mapped.element_spec["input_ids"].shape == (None, LENGTH)


def test_a_keras_file_holds_the_vocabulary(tokenizer, tmp_path):
    model = _string_model(tokenizer, is_pair=True)
    inputs = tf.constant(TEXTS), tf.constant(TEXTS[::-1])

    model.save(tmp_path / "model.keras")
    again = albert_tf.load_model(tmp_path / "model.keras")

    np.testing.assert_array_equal(again(inputs), model(inputs))


@pytest.mark.slow
def test_a_model_of_strings_is_trained_and_exported(tiny, tmp_path):
    model = _string_model(tiny.tokenizer)
    texts = tf.constant(TEXTS)

    model.fit(texts, LABELS, epochs=1, verbose=0)
    model.export(tmp_path / "saved", verbose=False)

    signature.check_operations(tmp_path / "saved")
    answer = subprocess.run(
        [sys.executable, "-c", ASK, tmp_path / "saved", *TEXTS],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    found = json.loads(answer.stdout)
    np.testing.assert_allclose(
        found, model.predict(texts, verbose=0), atol=1e-5
    )


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (tf.constant([1, 2]), "dtype string"),
        (tuple("abc"), "unpack"),
        # Rows or columns?
        ([["a1", "b1"], ["a2", "b2"]], "Pass pairs as a tuple .* of lists"),
    ],
)
def test_what_is_not_strings_or_a_pair_is_refused(texts, words, tiny):
    layer = TokenizerLayer(tiny.tokenizer, max_seq_length=LENGTH)

    with pytest.raises(ValueError, match=words):
        layer(texts)


def test_rows_that_cannot_hold_a_pair_are_refused(tokenizer):
    with pytest.raises(ValueError, match="`max_seq_length` must be"):
        TokenizerLayer(tokenizer, max_seq_length=4)
