"""What multiple choice refuses: flags, files and questions."""

import json

import pytest

from albert_tf.tasks.race import sets as sets_lib
from albert_tf.tasks.race.sets import RaceConfig
from albert_tf.tasks.spec import DataRequest
from tests.tasks.race.conftest import PASSAGES, QUESTION

(PASSAGE,) = PASSAGES["dev/middle"]
OTHER = QUESTION | {"id": "q2", "options": ["a", "b"]}
BOTH_LEVELS = {"middle_only": True, "high_only": True}
UNKNOWN = {k: v for k, v in QUESTION.items() if k != "answer"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{}], "line 1, is not a passage .* KeyError: 'article'"),
        ([QUESTION | {"options": []}], "q1: the options must be a list of 2"),
        ([QUESTION | {"options": ["x"] * 27}], "must be a list of 2 to 26"),
        ([QUESTION | {"options": "ab"}], "Received: 'ab'"),
        ([QUESTION | {"options": ["x", None]}], "q1: None is not a string"),
        ([QUESTION | {"article": 5}], "question q1: 5 is not a string"),
        *(
            ([QUESTION | {"answer": answer}], "q1: the answer .* one option")
            for answer in ("D", "a", 3, -1, "", "Ice", 1.0, True, [])
        ),
        (
            # A letter, and the text of another option.
            [QUESTION | {"options": ["x", "A"], "answer": "A"}],
            "the answer 'A' must be",
        ),
        ([QUESTION, QUESTION], "two examples have the id 'q1'"),
        ([QUESTION, OTHER], "has questions with 2, 3 options"),
        ([QUESTION | {"options": ["x", "x"], "answer": "x"}], "'x' must be"),
        ([], "a.jsonl has no examples"),
        ([[]], "line 1 must be a JSON object"),
        ([UNKNOWN], "1 of 1 questions have no answer: q1"),
        (
            [PASSAGE | {"options": []}],
            "line 1, is not .* argument 3 is shorter",
        ),
        ([PASSAGE | {"answers": ["A", "B"]}], "argument 4 is longer"),
        ([PASSAGE, PASSAGE], "two examples have the id 'middle2.txt-0'"),
    ],
)
def test_questions_that_cannot_be_used(rows, message, words, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    with pytest.raises(ValueError, match=message):
        read_sets(words, eval_file=str(path))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "--data_dir or --eval_file must be given"),
        ({"max_qa_length": 157}, "`max_qa_length` must be .* at most 156"),
        ({"max_qa_length": 0}, "`max_qa_length` must be"),
        ({"dropout_prob": -0.1}, "`dropout_prob` must be"),
        ({"data_dir": "no"}, "no file RACE/dev/middle|hig"),
        (BOTH_LEVELS | {"data_dir": "."}, "--data_dir must be"),
        ({"eval_file": "no.jsonl"}, "no.jsonl"),
        ({"eval_file": "a.txt", "high_only": True}, "a.txt has no examples"),
    ],
)
def test_flags_that_cannot_be_used(
    values, message, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(json.dumps(PASSAGE))

    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_sets(words, **values)


def read_sets(tokenizer, **values):
    return sets_lib.read_sets(
        RaceConfig(**values),
        DataRequest(uses=["eval"], tokenizer=tokenizer, max_seq_length=160),
    )
