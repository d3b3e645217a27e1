import json

import pytest

from albert_tf.tasks.race import question_files
from albert_tf.tasks.race.question_files import FieldNames

QUESTION = {
    "id": "q1",
    "article": "Snow is white.",
    "question": "What is white?",
    "options": ["Snow", "Coal", "Grass"],
    "answer": "C",
}
# Two questions would do, but MCTest has four.
STORY = [
    "mc.0",
    "Author: 1",
    r"Snow is\newlinewhite.\tabCoal is not.",
    *["one: What is white?", "Snow", "Coal", "Sky", "Sea"],
    *["multiple: What is not?", "Snow", "Coal", "Sky", "Sea"],
    *["What is it?", "one: of", "Coal", "Sky", "Sea"],
    *["one: Is it?", "Yes", "No", "Both", "None"],
]


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_story(path, answers="A\tB\tC\tD", columns=23):
    path.write_text("\t".join(STORY[:columns]) + "\n", "utf-8")
    if answers is not None:
        path.with_suffix(".ans").write_text(answers + "\n", "utf-8")
    return path


def test_a_line_of_json_is_a_question(tmp_path):
    path = write(tmp_path / "a.jsonl", QUESTION)

    (found,) = question_files.read_questions(path)

    assert found.guid == "q1"
    assert found.article == "Snow is white."
    assert found.question == "What is white?"
    assert found.options == ("Snow", "Coal", "Grass")
    assert found.label == 2
    assert found.level == ""


def test_fields_may_have_other_names(tmp_path):
    names = {
        "id": "name",
        "article": "context",
        "question": "stem",
        "options": "choices",
        "answer": "gold",
    }
    row = {new: QUESTION[old] for old, new in names.items()}
    path = write(tmp_path / "a.jsonl", row)

    found = question_files.read_questions(path, fields=FieldNames(**names))

    assert found == question_files.read_questions(
        write(tmp_path / "b.jsonl", QUESTION)
    )


@pytest.mark.parametrize(
    ("names", "got"),
    [({"id": ""}, "''"), ({"id": "article"}, "'article', .* 'article'")],
)
def test_field_names_must_differ(names, got):
    with pytest.raises(ValueError, match=f"need a name each.*{got}"):
        FieldNames(**names)


@pytest.mark.parametrize("answer", [{}, {"answer": None}])
def test_the_answer_may_be_unknown(answer, tmp_path):
    row = {k: v for k, v in QUESTION.items() if k != "answer"} | answer

    (found,) = question_files.read_questions(write(tmp_path / "a.jsonl", row))

    assert found.label is None


def test_lines_without_ids_are_numbered(tmp_path):
    row = {k: v for k, v in QUESTION.items() if k != "id"}
    path = write(tmp_path / "a.jsonl", row, row)

    found = question_files.read_questions(path)

    assert [example.guid for example in found] == ["1", "2"]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_lines_of_passages_are_told_by_their_questions(name, tmp_path):
    row = {
        "id": "middle5.txt",
        "article": "Snow is white.",
        "questions": ["What is white?", "What is not?"],
        "options": [["Snow", "Coal"], ["Snow", "Coal"]],
        "answers": ["A", "B"],
    }

    found = question_files.read_questions(write(tmp_path / name, row))

    assert [(e.guid, e.level, e.label) for e in found] == [
        ("middle5.txt-0", "middle", 0),
        ("middle5.txt-1", "middle", 1),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": ["Snow"]}, "question q1: the options must be"),
        ({"options": None}, "question q1: the options must be a list"),
        ({"answer": "D"}, "question q1: the answer must be a letter"),
        ({"question": 5}, "question q1: question must be a text"),
        ({"article": None}, "question q1: article must be a text"),
    ],
)
def test_a_question_that_is_not_complete_is_named(changes, message, tmp_path):
    path = write(tmp_path / "a.jsonl", QUESTION | changes)

    with pytest.raises(ValueError, match=f"a.jsonl, line 1, {message}"):
        question_files.read_questions(path)


def test_a_missing_field_is_named_with_those_that_are_there(tmp_path):
    row = {"id": "q1", "text": "Snow.", "question": "What?", "options": []}
    path = write(tmp_path / "a.jsonl", row)

    with pytest.raises(
        ValueError,
        match="question q1: there is no field 'article', only id, text, .*"
        "--article_field",
    ):
        question_files.read_questions(path)


def test_two_lines_with_one_id_are_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", QUESTION, QUESTION)

    with pytest.raises(ValueError, match="two questions with the id 'q1'"):
        question_files.read_questions(path)


def test_lines_with_other_numbers_of_options_are_refused(tmp_path):
    other = QUESTION | {"id": "q2", "options": ["a", "b"], "answer": "A"}
    path = write(tmp_path / "a.jsonl", QUESTION, other)

    with pytest.raises(ValueError, match="question q2 has 2 options, question"):
        question_files.read_questions(path)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_questions_is_refused(text, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(text)

    with pytest.raises(ValueError, match="a.jsonl: there is no question in it"):
        question_files.read_questions(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*none.jsonl"):
        question_files.read_questions(tmp_path / "none.jsonl")


def test_a_story_has_four_questions(tmp_path):
    found = question_files.read_questions(write_story(tmp_path / "a.tsv"))

    assert [example.label for example in found] == [0, 1, 2, 3]
    assert [example.guid for example in found] == [
        f"mc.0-{i}" for i in range(4)
    ]
    assert {example.article for example in found} == {
        "Snow is\nwhite.\tCoal is not."
    }
    assert [example.question for example in found] == [
        "What is white?",
        "What is not?",
        "What is it?",
        "Is it?",
    ]
    # Only a question is marked.
    assert found[2].options == ("one: of", "Coal", "Sky", "Sea")


def test_a_story_without_answers_can_be_predicted(tmp_path):
    path = write_story(tmp_path / "a.tsv", answers=None)

    found = question_files.read_questions(path)

    assert {example.label for example in found} == {None}


def test_answers_of_another_number_of_stories_are_refused(tmp_path):
    path = write_story(tmp_path / "a.tsv", answers="A\tB\tC\tD\nA\tB\tC\tD")

    with pytest.raises(ValueError, match=r"answers for 2 stories.* has 1 stor"):
        question_files.read_questions(path)


@pytest.mark.parametrize(
    ("columns", "answers", "got"),
    [(22, "A\tB\tC\tD", "22 and 4"), (23, "A\tB", "23 and 2")],
)
def test_a_story_that_is_not_complete_is_refused(
    columns, answers, got, tmp_path
):
    path = write_story(tmp_path / "a.tsv", answers, columns)

    with pytest.raises(ValueError, match=f"a.tsv, story 1: .*Received: {got}"):
        question_files.read_questions(path)


def test_an_answer_beyond_the_options_of_a_story_is_named(tmp_path):
    path = write_story(tmp_path / "a.tsv", answers="A\tB\tX\tD")

    with pytest.raises(
        ValueError, match="story 1, question 2: the answer must"
    ):
        question_files.read_questions(path)


@pytest.mark.parametrize(
    ("name", "num_stories"),
    [
        ("mc160.train", 70),
        ("mc160.dev", 30),
        ("mc160.test", 60),
        ("mc500.train", 300),
        ("mc500.dev", 50),
        ("mc500.test", 150),
    ],
)
def test_the_real_stories_are_read_whole(name, num_stories, shared_data):
    # SOURCES.md: 4 questions a story, 4 options a question.
    path = shared_data / "data" / "race" / "mctest" / f"{name}.tsv"

    found = question_files.read_questions(path)

    assert len(found) == 4 * num_stories
    assert len({example.passage_id for example in found}) == num_stories
    assert {example.label for example in found} == {0, 1, 2, 3}
    assert not [
        e for e in found if "\\newline" in e.article or "\t" in e.question
    ]
    assert not [
        e for e in found if e.question.startswith(("one:", "multiple:"))
    ]
