"""Questions written for these tests, and the recorded ones."""

import types

import numpy as np
import pytest

from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad import windows
from albert_tf.tasks.squad.examples import Answer, SquadExample
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.text import tokenizer


@pytest.fixture(scope="session")
def words(tiny_spm_model):
    return tokenizer.load_tokenizer(spm_model_file=tiny_spm_model)


@pytest.fixture(scope="session")
def english(shared_data):
    """The released vocabulary."""
    path = shared_data / "data" / "spm" / "30k-clean.model"
    return tokenizer.load_tokenizer(spm_model_file=path)


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
        (question,) = windows.split_questions(
            [example], words, WindowLengths(**settings | lengths)
        )
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
            asked[key] = list(windows.split_questions(found, english, lengths))
        arrays = dict(np.load(folder / "features.npz"))
        rows = {
            number: np.flatnonzero(arrays["example_index"] == number)
            for number in range(len(asked["dev"]))
        }
        return types.SimpleNamespace(
            folder=folder,
            lengths=lengths,
            questions=asked["dev"],
            training_questions=asked["train_first_answer"],
            arrays=arrays,
            logits=dict(np.load(folder / "logits.npz")),
            rows=rows,
        )

    return read
