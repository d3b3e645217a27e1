import json

import pytest

from albert_tf.tasks.squad import examples
from albert_tf.tasks.squad.examples import Answer

CONTEXT = "Snow is white."


@pytest.fixture
def write(tmp_path):
    """Writes a question about `CONTEXT`; returns the path."""

    def write_file(row):
        question = {"id": "q0", "question": "What is white?"} | row
        paragraph = {"context": CONTEXT, "qas": [question]}
        path = tmp_path / "squad.json"
        path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
        return path

    return write_file


def test_a_question_has_its_context_and_answers(write):
    answers = [
        {"text": "Snow", "answer_start": 0},
        {"text": "white.", "answer_start": 8},
    ]

    (found,) = examples.read_examples(write({"answers": answers}))

    assert found.guid == "q0"
    assert found.question == "What is white?"
    assert found.context == CONTEXT
    assert found.answers == (
        Answer(text="Snow", start=0),
        Answer(text="white.", start=8),
    )
    assert not found.is_impossible


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({}, None),
        ({"answers": None}, None),
        ({"answers": []}, None),
        ({"answers": [], "is_impossible": False}, None),
        ({"answers": [], "is_impossible": True}, ()),
        ({"is_impossible": True, "plausible_answers": [1]}, ()),
    ],
)
def test_no_answers_are_unknown_unless_there_are_none(row, answers, write):
    (found,) = examples.read_examples(write(row))

    assert found.answers == answers
    assert found.is_impossible == (answers == ())
