"""Raw text gives the answers of Python: several labels, and numbers."""

import itertools

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from tests.heads.rows import near

TEXTS = [
    "The house stood on a hill.",
    "",
    "a " * 100,
    "Café ½ 1,234,",
    "漢字 👩‍👩‍👧",
]
PAIRS = [*itertools.product(TEXTS, repeat=2)]
DECIDED = Metadata(labels=("a", "b"), temperature=3.0, thresholds=(0.7, 0.3))
UNSURE = Metadata(labels=("a", "b", "c"), thresholds=(0.5,) * 3)


def _answers(export):
    """Returns the outputs for all pairs, and the answers of Python."""
    texts_a, texts_b = zip(*PAIRS, strict=True)
    predictor = albert_tf.load_predictor(
        export.config.init_checkpoint, max_seq_length=20
    )
    found = export.ask(text_a=texts_a, text_b=texts_b)
    return found, predictor.predict(PAIRS)


def _predictions(found):
    rows = found["prediction"].reshape(len(PAIRS), -1).tolist()
    return [[label.decode() for label in row if label] for row in rows]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("several_labels", {}),
        # Decided as the evaluation chose.
        (
            "classifier",
            {
                "sizes": {"num_labels": 2},
                "labels": DECIDED.labels,
                "known": DECIDED,
            },
        ),
        # Of three labels, some texts have no answer.
        (
            "classifier",
            {
                "sizes": {"num_labels": 3},
                "labels": UNSURE.labels,
                "known": UNSURE,
            },
        ),
    ],
)
def test_labels_are_decided_as_in_python(name, changes, export_task):
    found, answers = _answers(export_task(name, **changes))

    predictions = _predictions(found)
    # None is an empty string there.
    expected = [
        np.atleast_1d(one["prediction"] or []).tolist() for one in answers
    ]
    assert predictions == expected
    assert len({*map(tuple, predictions)}) > 1
    shares = [[*one["probabilities"].values()] for one in answers]
    assert found["probabilities"].tolist() == near(shares)
    # Not the most probable labels alone.
    largest = found["probabilities"].argmax(axis=-1)
    labels = found["labels"][range(len(PAIRS)), largest]
    assert predictions != [[label.decode()] for label in labels]


def test_scaled_numbers_are_answered_in_their_own_units(exported):
    found, answers = _answers(exported("regression"))

    assert found["score"].dtype == np.float64
    expected = [one["prediction"] for one in answers]
    np.testing.assert_allclose(found["score"], expected, atol=1e-3)
    # Numbers of STS-B are clipped, as in its submission.
    assert {found["score"].min(), found["score"].max()} == {0, 5}
    assert len({*found["score"]}) > 2


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("regression", {"exit_patience": 1}, "cannot be used for regression"),
        (
            "classifier",
            {"exit_patience": 1, "known": Metadata(multi_label=True)},
            "and multi-label classification",
        ),
    ],
)
def test_models_that_cannot_be_left_early(name, values, words, export_task):
    with pytest.raises(ValueError, match=words):
        export_task(name, **values)
