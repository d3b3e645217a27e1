import types

import tensorflow as tf

from demo import serving


def _fill_mask(text):
    tokens = ["▁a", "▁b", "c", "d", "e"]
    chances = [0.5, 0.25, 0.125, 0.0625, 0.0]
    return {
        "top_tokens": tf.constant([[tokens]] * len(text)),
        "top_probabilities": tf.constant([[chances]] * len(text)),
    }


def _classify(text_a, text_b):
    assert text_b.numpy().tolist() == [b""] * len(text_a)
    is_negative = tf.strings.regex_full_match(text_a, ".* not .*")
    negative = tf.cast(is_negative, tf.float32)
    return {
        "probabilities": tf.stack([negative, 1 - negative], axis=1),
        "prediction": tf.where(is_negative, "negative", "positive"),
    }


def test_every_text_gets_an_answer(monkeypatch):
    signatures = {"a": {"fill_mask": _fill_mask}}
    signatures["b"] = {"serving_default": _classify}
    monkeypatch.setattr(
        serving,
        "load",
        lambda name: types.SimpleNamespace(signatures=signatures[name]),
    )

    answers = serving.answers(encoder_dir="a", classifier_dir="b")

    assert answers == [
        *((text, "a (50%), b (25%), c (12%)") for text in serving.BLANKS),
        ("The debugger is reliable.", "positive (100%)"),
        ("The manual is not clear.", "negative (100%)"),
    ]


def test_the_newest_version_is_asked(tmp_path):
    for version in ("9", "10"):
        module = tf.Module()
        module.version = tf.Variable(int(version))
        tf.saved_model.save(module, tmp_path / version)
    (tmp_path / "batching_parameters.txt").touch()

    assert int(serving.load(tmp_path).version) == 10
