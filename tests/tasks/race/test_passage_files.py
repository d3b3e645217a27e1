import json
import logging
import shutil

import pytest

from albert_tf.tasks.race import passage_files
from albert_tf.tasks.race.passage_files import FieldNames


def passage(**changes):
    return {
        "id": "high1.txt",
        "article": "Snow is white.",
        "questions": ["What is white?"],
        "options": [["Snow", "Coal"]],
        "answers": ["A"],
    } | changes


def write(path, *passages, indent=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(one, indent=indent) for one in passages)
    path.write_text(text, encoding="utf-8")
    return path


def guids(examples):
    return [example.guid for example in examples]


def test_both_levels_are_read_middle_first(race_folder):
    found = passage_files.read_split(race_folder, "dev")

    assert guids(found) == ["middle2.txt-0", "high3.txt-0", "high3.txt-1"]
    assert [example.level for example in found] == ["middle", "high", "high"]
    last = found[-1]
    assert last.passage_id == "high3.txt"
    assert last.article.startswith("The old bridge")
    assert last.question == "When was that"
    assert last.options == ("Then", "Now", "Never", "Once")
    assert last.label == 3


@pytest.mark.parametrize(
    ("chosen", "levels"),
    [
        ({"levels": ["middle"]}, {"middle"}),
        ({"levels": ["high"]}, {"high"}),
        ({}, {"middle", "high"}),
    ],
)
def test_levels_may_be_chosen(chosen, levels, race_folder):
    found = passage_files.read_split(race_folder, "dev", **chosen)

    assert {example.level for example in found} == levels


def test_the_folder_race_itself_will_do(race_folder):
    inside = passage_files.read_split(race_folder / "RACE", "dev")

    assert inside == passage_files.read_split(race_folder, "dev")


def test_questions_without_answers_are_read(race_folder):
    (found,) = passage_files.read_split(race_folder, "test")

    assert found.label is None


@pytest.mark.parametrize("answers", [None, []])
def test_empty_answers_are_unknown(answers, tmp_path):
    path = write(tmp_path / "a.txt", passage(answers=answers))

    (found,) = passage_files.read_passages(path)

    assert found.label is None


def test_concatenated_passages_are_those_of_the_files(race_folder):
    apart = passage_files.read_split(race_folder, "dev")
    for level in (race_folder / "RACE" / "dev").iterdir():
        texts = [path.read_text("utf-8") for path in sorted(level.iterdir())]
        shutil.rmtree(level)
        level.mkdir()
        (level / "all.txt").write_text("\n".join(texts), encoding="utf-8")

    assert passage_files.read_split(race_folder, "dev") == apart


def test_a_concatenation_beside_the_files_counts_once(race_folder):
    apart = passage_files.read_split(race_folder, "dev")
    level = race_folder / "RACE" / "dev" / "high"
    more = passage(id="high9.txt", options=[["Snow", "Coal", "Sky", "Sea"]])
    same = json.loads((level / "3.txt").read_text("utf-8"))
    write(level / "all.txt", same, more)

    found = passage_files.read_split(race_folder, "dev")

    assert guids(found) == [*guids(apart), "high9.txt-0"]


def test_a_copy_that_differs_is_refused(race_folder):
    level = race_folder / "RACE" / "dev" / "high"
    write(level / "all.txt", passage(id="high3.txt"))

    with pytest.raises(
        ValueError, match="all.txt: the passage id 'high3.txt' is taken"
    ):
        passage_files.read_split(race_folder, "dev")


def test_a_passage_twice_in_one_file_is_refused(race_folder):
    level = race_folder / "RACE" / "dev" / "high"
    write(level / "all.txt", passage(), passage())

    with pytest.raises(ValueError, match="all.txt, line 2: the passage id"):
        passage_files.read_split(race_folder, "dev")


def test_a_passage_twice_in_a_file_of_ones_own_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", passage(), passage())

    with pytest.raises(ValueError, match="two questions with the id 'high1.tx"):
        passage_files.read_passages(path)


def test_a_passage_over_several_lines_is_one(tmp_path):
    path = write(tmp_path / "a.txt", passage(), indent=2)

    (found,) = passage_files.read_passages(path)

    assert found.guid == "high1.txt-0"
    assert found.level == "high"


def test_passages_without_an_id_are_named_by_their_place(tmp_path):
    one = passage()
    del one["id"]
    level = tmp_path / "dev" / "high"
    write(level / "7.txt", one)
    write(level / "all.txt", one, one)

    found = passage_files.read_split(tmp_path, "dev")

    assert guids(found) == ["high7.txt-0", "highall.txt-1-0", "highall.txt-2-0"]


def test_other_files_are_let_alone(race_folder):
    before = passage_files.read_split(race_folder, "dev")
    level = race_folder / "RACE" / "dev" / "high"
    (level / "README.md").write_text("nothing")
    (level / "folder.txt").mkdir()

    assert passage_files.read_split(race_folder, "dev") == before


def test_a_missing_split_says_what_data_dir_must_be(race_folder):
    with pytest.raises(
        FileNotFoundError, match="RACE/none.*--data_dir must be"
    ):
        passage_files.read_split(race_folder, "none")


def test_a_missing_level_is_told(race_folder):
    with pytest.raises(
        FileNotFoundError, match=r"no file of questions.* wanted high/\*.txt"
    ):
        passage_files.read_split(race_folder, "train", levels=["high"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": [["one"]]}, "high1.txt, question 0: the options must be"),
        ({"options": []}, "1 questions, 0 lists of options, 1 answers"),
        ({"answers": ["A", "B"]}, "1 lists of options, 2 answers"),
        (
            {"questions": [], "options": [], "answers": []},
            "0 questions, 0 list",
        ),
        ({"answers": ["C"]}, "question 0: the answer must be a letter from A"),
        ({"questions": "Why?"}, "questions must be a list"),
        ({"questions": [None]}, "question 0: question must be a text"),
        ({"article": 3}, "passage high1.txt: article must be a text"),
    ],
)
def test_a_passage_that_is_not_complete_is_refused(changes, message, tmp_path):
    path = write(tmp_path / "a.txt", passage(**changes))

    with pytest.raises(ValueError, match=f"a.txt.*{message}"):
        passage_files.read_passages(path)


def test_missing_keys_are_named(tmp_path):
    path = write(tmp_path / "a.txt", passage(), {"article": "Snow."})

    with pytest.raises(
        ValueError, match="line 2: .*Missing: questions, option"
    ):
        passage_files.read_passages(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "a.txt: not JSON"), ("[]", "wanted a JSON object.*list")],
)
def test_what_is_no_json_object_is_refused(text, message, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(text)

    with pytest.raises(ValueError, match=message):
        passage_files.read_passages(path)


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.touch()

    with pytest.raises(ValueError, match="a.txt: there is no question in it"):
        passage_files.read_passages(path)


@pytest.mark.parametrize(
    ("split", "middle", "high"),
    [("train", 2, 3), ("dev", 3, 2), ("test", 3, 2)],
)
def test_the_real_race_is_read_whole(split, middle, high, shared_data):
    # SOURCES.md: 15 passages, 61 questions.
    found = passage_files.read_split(shared_data / "data" / "race", split)

    passages = {(example.level, example.passage_id) for example in found}
    levels = [level for level, _ in passages]
    assert (levels.count("middle"), levels.count("high")) == (middle, high)


def test_the_real_race_has_all_its_questions(shared_data, caplog):
    with caplog.at_level(logging.WARNING):
        found = [
            example
            for split in passage_files.SPLITS
            for example in passage_files.read_split(
                shared_data / "data" / "race", split
            )
        ]

    assert len(found) == 61
    assert {len(example.options) for example in found} == {4}
    assert None not in {example.label for example in found}
    assert not caplog.records


@pytest.mark.parametrize(
    ("split", "num_passages", "num_questions"),
    [("train", 59, 231), ("dev", 9, 37), ("test", 9, 38)],
)
def test_the_gaokao_set_is_read_whole(
    split, num_passages, num_questions, shared_data
):
    # SOURCES.md.
    folder = shared_data / "data" / "race" / "race_like_gaokao"
    if not (folder / split).is_dir():
        pytest.skip(f"{folder} has no {split}")

    found = passage_files.read_split(folder, split)

    assert len(found) == num_questions
    assert len({example.passage_id for example in found}) == num_passages
    assert {example.level for example in found} == {"high"}


def test_half_of_a_surrogate_pair_is_refused(tmp_path):
    path = write(tmp_path / "all.txt", passage(article="Snow \ud83d"))

    with pytest.raises(ValueError, match=r"all.txt: \\ud83d is half of a"):
        passage_files.read_passages(path)


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


def question_files_write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_story(path, answers="A\tB\tC\tD", columns=23):
    path.write_text("\t".join(STORY[:columns]) + "\n", "utf-8")
    if answers is not None:
        path.with_suffix(".ans").write_text(answers + "\n", "utf-8")
    return path


def test_a_line_of_json_is_a_question(tmp_path):
    path = question_files_write(tmp_path / "a.jsonl", QUESTION)

    (found,) = passage_files.read_questions(path)

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
    path = question_files_write(tmp_path / "a.jsonl", row)

    found = passage_files.read_questions(path, fields=FieldNames(**names))

    assert found == passage_files.read_questions(
        question_files_write(tmp_path / "b.jsonl", QUESTION)
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

    (found,) = passage_files.read_questions(
        question_files_write(tmp_path / "a.jsonl", row)
    )

    assert found.label is None


def test_lines_without_ids_are_numbered(tmp_path):
    row = {k: v for k, v in QUESTION.items() if k != "id"}
    path = question_files_write(tmp_path / "a.jsonl", row, row)

    found = passage_files.read_questions(path)

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

    found = passage_files.read_questions(
        question_files_write(tmp_path / name, row)
    )

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
    path = question_files_write(tmp_path / "a.jsonl", QUESTION | changes)

    with pytest.raises(ValueError, match=f"a.jsonl, line 1, {message}"):
        passage_files.read_questions(path)


def test_a_missing_field_is_named_with_those_that_are_there(tmp_path):
    row = {"id": "q1", "text": "Snow.", "question": "What?", "options": []}
    path = question_files_write(tmp_path / "a.jsonl", row)

    with pytest.raises(
        ValueError,
        match="question q1: there is no field 'article', only id, text, .*"
        "--article_field",
    ):
        passage_files.read_questions(path)


def test_two_lines_with_one_id_are_refused(tmp_path):
    path = question_files_write(tmp_path / "a.jsonl", QUESTION, QUESTION)

    with pytest.raises(ValueError, match="two questions with the id 'q1'"):
        passage_files.read_questions(path)


def test_lines_with_other_numbers_of_options_are_refused(tmp_path):
    other = QUESTION | {"id": "q2", "options": ["a", "b"], "answer": "A"}
    path = question_files_write(tmp_path / "a.jsonl", QUESTION, other)

    with pytest.raises(ValueError, match="question q2 has 2 options, question"):
        passage_files.read_questions(path)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_questions_is_refused(text, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(text)

    with pytest.raises(ValueError, match="a.jsonl: there is no question in it"):
        passage_files.read_questions(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*none.jsonl"):
        passage_files.read_questions(tmp_path / "none.jsonl")


def test_a_story_has_four_questions(tmp_path):
    found = passage_files.read_questions(write_story(tmp_path / "a.tsv"))

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

    found = passage_files.read_questions(path)

    assert {example.label for example in found} == {None}


def test_answers_of_another_number_of_stories_are_refused(tmp_path):
    path = write_story(tmp_path / "a.tsv", answers="A\tB\tC\tD\nA\tB\tC\tD")

    with pytest.raises(ValueError, match=r"answers for 2 stories.* has 1 stor"):
        passage_files.read_questions(path)


@pytest.mark.parametrize(
    ("columns", "answers", "got"),
    [(22, "A\tB\tC\tD", "22 and 4"), (23, "A\tB", "23 and 2")],
)
def test_a_story_that_is_not_complete_is_refused(
    columns, answers, got, tmp_path
):
    path = write_story(tmp_path / "a.tsv", answers, columns)

    with pytest.raises(ValueError, match=f"a.tsv, story 1: .*Received: {got}"):
        passage_files.read_questions(path)


def test_an_answer_beyond_the_options_of_a_story_is_named(tmp_path):
    path = write_story(tmp_path / "a.tsv", answers="A\tB\tX\tD")

    with pytest.raises(
        ValueError, match="story 1, question 2: the answer must"
    ):
        passage_files.read_questions(path)


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

    found = passage_files.read_questions(path)

    assert len(found) == 4 * num_stories
    assert len({example.passage_id for example in found}) == num_stories
    assert {example.label for example in found} == {0, 1, 2, 3}
    assert not [
        e for e in found if "\\newline" in e.article or "\t" in e.question
    ]
    assert not [
        e for e in found if e.question.startswith(("one:", "multiple:"))
    ]
