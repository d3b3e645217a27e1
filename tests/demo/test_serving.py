import pytest
import tensorflow as tf

from demo import serving


class Encoder(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def fill_mask(self, text):
        shape = [tf.shape(text)[0], 1, 5]
        tokens = tf.broadcast_to(
            tf.constant([["▁a", "▁b", "c", "d", "e"]]), shape
        )
        chances = tf.broadcast_to(
            tf.constant([[0.5, 0.25, 0.125, 0.0625, 0.0]]), shape
        )
        return {"top_pieces": tokens, "top_probabilities": chances}


class Classifier(tf.Module):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "text_a"),
            tf.TensorSpec([None], tf.string, "text_b"),
        ]
    )
    def classify(self, text_a, text_b):
        negative = tf.cast(
            tf.strings.regex_full_match(text_a, ".* not .*"), tf.float32
        )
        probabilities = tf.stack([negative, 1 - negative], axis=1)
        labels = tf.constant(["negative", "positive"])
        return {
            "probabilities": probabilities,
            "prediction": tf.gather(labels, tf.argmax(probabilities, axis=1)),
        }


@pytest.fixture
def folders(tmp_path):
    encoder, classifier = Encoder(), Classifier()
    tf.saved_model.save(
        encoder,
        tmp_path / "encoder" / "2",
        signatures={"fill_mask": encoder.fill_mask},
    )
    tf.saved_model.save(
        classifier,
        tmp_path / "classifier" / "1",
        signatures=classifier.classify,
    )
    return {
        "encoder_dir": tmp_path / "encoder",
        "classifier_dir": tmp_path / "classifier",
    }


def test_every_text_gets_an_answer(folders):
    answers = serving.answers(**folders)

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
