"""Entities of raw text from an export, equal to the entities of Python."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.tagging import decoding, signatures
from albert_tf.tasks.tagging.decoding import Decoding
from tests.tasks.tagging.conftest import NASTY

RULES = {"scheme": "IOB2", "never_first": ["."], "never_last": [".", ","]}
LONG = " ".join(NASTY) * 3


# `tests/heads` reads words of SentencePiece at spaces.
@pytest.mark.parametrize(
    ("kind", "words", "rules"),
    [
        ("sentencepiece", "tokens", RULES),
        ("wordpiece", "apart", {}),
        ("sentencepiece", "characters", RULES),
    ],
)
def test_entities_are_as_in_python(
    kind, words, rules, export_task, tiny_spm_model, tiny_chinese_vocabulary
):
    vocabularies = {
        "sentencepiece": tiny_spm_model,
        "wordpiece": tiny_chinese_vocabulary,
    }
    export = export_task(
        "token_classifier", vocabularies[kind], words=words, rules=rules
    )
    predictor = albert_tf.load_predictor(
        export.config.init_checkpoint, max_seq_length=20
    )
    object.__setattr__(predictor.data, "words", words)
    object.__setattr__(predictor.data, "rules", rules)
    texts = [*NASTY, LONG]

    found = export.ask(text=np.array([text.encode() for text in texts]))

    answers = predictor.predict(texts)
    assert sum(len(answer["entities"]) for answer in answers) > len(texts)
    assert all(one["text"] for answer in answers for one in answer["entities"])
    for row, answer in enumerate(answers):
        number = len(answer["entities"])
        for name, one, padding in (
            ("starts", "start", -1),
            ("ends", "end", -1),
            ("labels", "label", b""),
            ("scores", "score", -1),
        ):
            expected = [entity[one] for entity in answer["entities"]]
            values = found[name][row]
            assert [*values[number:]] == [padding] * (values.size - number)
            if name == "scores":
                expected = pytest.approx(expected, abs=1e-5)
            elif name == "labels":
                expected = [label.encode() for label in expected]
            assert values[:number].tolist() == expected


def test_no_text_and_texts_without_entities(exported):
    export = exported("token_classifier")

    none = export.ask(text=tf.zeros([0], tf.string))
    empty = export.ask(text=["", " "])

    assert {values.shape for values in none.values()} == {(0, 0)}
    assert {values.shape for values in empty.values()} == {(2, 0)}


def words_of(strings, splits):
    places = tf.range(len(strings))
    return signatures._Words(
        ids=places,
        token_splits=tf.range(len(strings) + 1),
        starts=places,
        ends=places + 1,
        row_splits=tf.constant(splits),
        strings=tf.constant(strings, tf.string),
    )


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOBES", "BILOU", "BMES"])
def test_legal_tags_are_those_of_python(scheme):
    prefixes = sorted({*scheme} & {*"BILUMES"})
    labels = ("O", *(f"{p}-{kind}" for p in prefixes for kind in "XY"))
    best = Decoding(labels, scheme, [".", "?"], [".", ","])
    rng = np.random.default_rng(0)
    lengths = [0, 1, 60, 7, 0, 30]
    splits = np.cumsum([0, *lengths], dtype=np.int32)
    log_probs = np.log(rng.dirichlet([0.3] * len(labels), splits[-1]))
    strings = rng.choice(["a", "b", ".", "?", ","], splits[-1]).tolist()

    found = signatures._best_tags(
        tf.constant(log_probs), words_of(strings, splits), best
    )

    for start, end in zip(splits[:-1], splits[1:], strict=True):
        expected = best.best_tags(log_probs[start:end], strings[start:end])
        assert found[start:end].numpy().tolist() == expected.tolist()
    for splits in ([0], [0, 0]):
        none = tf.zeros([0, len(labels)], tf.float64)
        words = words_of([], np.array(splits, np.int32))
        assert signatures._best_tags(none, words, best).shape == (0,)


@pytest.mark.parametrize(
    "labels",
    [
        ("O", "B-X", "I-X", "B-Y", "I-Y"),
        ("O", *(f"{p}-{kind}" for p in "BIES" for kind in "XY")),
        ("B-X", "I-X", "L-X", "U-X", "O", "U-Y"),
        ("B", "I", "E", "S"),
        ("NOUN", "O", "VERB"),
        ("NOUN", "VERB"),
    ],
)
def test_entities_of_any_tags_are_as_in_python(labels):
    rng = np.random.default_rng(0)
    lengths = [0, 1, 400, 7, 0]
    splits = np.cumsum([0, *lengths], dtype=np.int32)
    tags = rng.integers(0, len(labels), splits[-1], np.int32)
    words = words_of(["a"] * splits[-1], splits)

    found = signatures._read_entities(
        words,
        tf.constant(tags),
        tf.ones([splits[-1]]),
        Decoding(labels),
    )

    for row, start in enumerate(splits[:-1]):
        names = [labels[tag] for tag in tags[start : splits[row + 1]]]
        expected = decoding.find_entities(names, labels)
        columns = (found[name][row] for name in ("labels", "starts", "ends"))
        rows = zip(*map(np.array, columns), strict=True)
        assert [
            (kind.decode(), first - start, end - start)
            for kind, first, end in rows
            if end >= 0
        ] == expected
