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


SNOW = {"text": "Snow", "answer_start": 0}
COLUMNS = {"text": ["Snow"], "answer_start": [0]}
ROW = {"id": "q0", "question": "What?", "context": CONTEXT, "answers": [SNOW]}


@pytest.mark.parametrize(
    ("row", "num_answers"),
    [
        ({"answers": [{"text": "", "answer_start": -1}]}, 0),
        ({"answers": [{"text": " ", "answer_start": None}]}, 0),
        (
            {"answers": [{"text": "", "answer_start": 0}]}
            | {"is_impossible": True},
            0,
        ),
        ({"answers": []}, 0),
        ({"answers": {"text": [], "answer_start": []}}, 0),
        ({"answers": [], "is_impossible": "True"}, 0),
        ({"answers": [], "is_impossible": 1}, 0),
        ({"answers": [SNOW], "is_impossible": 0}, 1),
        ({"answers": [SNOW, {"text": "", "answer_start": 0}]}, 1),
        ({"answers": [SNOW], "is_impossible": "false"}, 1),
        # Neither says that there is none.
        ({"answers": [], "is_impossible": False}, None),
        ({}, None),
    ],
)
def test_an_empty_answer_beside_answers_is_none(row, num_answers, tmp_path):
    row = {"id": "q1", "question": "What?"} | row
    paragraph = {"context": CONTEXT, "qas": [ROW, row]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))

    _, found = examples.read_examples(path)

    is_known = found.answers is not None
    assert (len(found.answers) if is_known else None) == num_answers
    assert found.is_impossible == (num_answers == 0)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a.json", "\ufeff" + json.dumps({"data": [ROW]})),
        ("a.json", json.dumps({"data": [ROW | {"answers": COLUMNS}]})),
        ("a.json", json.dumps({"data": [{"context": CONTEXT, "qas": [ROW]}]})),
        ("a.jsonl", json.dumps(ROW | {"answers": COLUMNS}) + "\n"),
        (
            "a.json",
            json.dumps(
                {"data": [ROW | {"answers": [SNOW | {"answer_start": "0"}]}]}
            ),
        ),
    ],
)
def test_files_of_other_programs_are_read(name, written, tmp_path):
    path = tmp_path / name
    path.write_text(written, "utf-8")

    (found,) = examples.read_examples(path)

    assert (found.guid, found.context) == ("q0", CONTEXT)
    assert found.answers == (Answer(text="Snow", start=0),)


def test_ids_may_be_numbers(write):
    (found,) = examples.read_examples(write({"id": 7}))

    assert found.guid == "7"


@pytest.mark.parametrize(
    ("context", "text", "start", "expected"),
    [
        # In UTF-16, from 1, without a carriage return.
        ("🏞 It was 1701.", "1701", 10, "1701"),
        ("It is red, as red can be.", "red", 7, "red"),
        ("One.\r\nTwo bells.", "bells", 9, "bells"),
        ("A tall  man.", "tall man", 2, "tall  man"),
        ("A tall\xa0man.", "tall man", 2, "tall\xa0man"),
        ("In Ko\u0308ln.", "Köln", 3, "Ko\u0308ln"),
        ("In Köln.", "Ko\u0308ln", 3, "Köln"),
        ("Ann Bell came.", "ann bell", 0, "Ann Bell"),
        # The same case is better than a nearer place.
        ("THE end of the day", "the", 1, "the"),
        # But not than its place.
        ("Apple grew. Eat an apple.", "apple", 0, "Apple"),
        ("May  2020, not May 2020.", "May 2020", 0, "May  2020"),
        # Negative numbers are no places from the end.
        ("red", "red", -3, "red"),
        # Another letter is another word.
        ("A cafe\u0301.", "cafe", 1, None),
        ("Nothing.", "red", 0, None),
    ],
)
def test_an_answer_is_moved_to_the_nearest_place_with_its_text(
    context, text, start, expected, write, caplog
):
    path = write({})
    row = ROW | {"context": context}
    row["answers"] = [{"text": text, "answer_start": start}]
    path.write_text(json.dumps({"data": [row]}))

    (found,) = examples.read_examples(path)

    (answer,) = found.answers
    if expected is None:
        assert (answer.text, answer.start) == (text, start)
        assert not caplog.text
    else:
        assert answer.text == expected
        assert context[answer.start :].startswith(expected)
        assert "answers of 1 questions are not at their" in caplog.text


def test_of_two_places_the_nearer_one_is_taken(write):
    answer = {"text": "red", "answer_start": 15}
    row = ROW | {"context": "It is red, as red can be.", "answers": [answer]}
    path = write({})
    path.write_text(json.dumps({"data": [row]}))

    (found,) = examples.read_examples(path)

    assert found.answers == (Answer(text="red", start=14),)
