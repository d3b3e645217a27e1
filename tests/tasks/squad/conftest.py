"""Questions written for these tests, and the recorded ones."""

import types

import numpy as np
import pytest

from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad.examples import Answer, SquadExample
from albert_tf.tasks.squad.windows import Questions, WindowLengths


@pytest.fixture
def make_example():
    """Makes a question; arguments override. An answer is found by its text."""

    def make(answer="white", **changes):
        settings = {
            "guid": "q1",
            "question": "What is snow?",
            "context": "The snow is white. The coal is black.",
        } | changes
        if "answers" not in settings:
            start = settings["context"].index(answer)
            settings["answers"] = (Answer(text=answer, start=start),)
        return SquadExample(**settings)

    return make


@pytest.fixture
def make_question(words):
    """Makes a question with windows of a tiny vocabulary."""

    def make(example, **lengths):
        settings = {
            "max_seq_length": 64,
            "doc_stride": 8,
            "max_query_length": 16,
        }
        lengths = WindowLengths(**settings | lengths)
        (question,) = Questions([example], words, lengths).split()
        return question

    return make


@pytest.fixture
def recorded(shared_data, english):
    """Reads what the original made of questions: `v1`, `v2` or `edge`."""

    def read(name):
        folder = shared_data / "golden" / "squad" / name
        lengths = WindowLengths(
            max_seq_length=192, doc_stride=64, max_query_length=32
        )
        asked = {}
        for key in ("dev", "train_first_answer"):
            found = examples_lib.read_examples(folder / f"{key}.json")
            asked[key] = Questions(found, english, lengths)
        arrays = dict(np.load(folder / "features.npz"))
        rows = {
            number: np.flatnonzero(arrays["example_index"] == number)
            for number in range(len(asked["dev"]))
        }
        return types.SimpleNamespace(
            folder=folder,
            lengths=lengths,
            examples=asked["dev"],
            questions=asked["dev"].windowed,
            training_questions=asked["train_first_answer"].windowed,
            arrays=arrays,
            logits=dict(np.load(folder / "logits.npz")),
            rows=rows,
        )

    return read
