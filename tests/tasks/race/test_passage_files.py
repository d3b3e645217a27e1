import json
import logging
import re
import shutil

import pytest

from albert_tf.tasks.race import passage_files
from albert_tf.tasks.race.examples import MultipleChoiceExample
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


@pytest.mark.parametrize("folder", [".", "RACE"])
def test_both_levels_are_read_middle_first(folder, race_folder):
    found = passage_files.read_split(race_folder / folder, "dev")

    assert guids(found) == ["middle2.txt-0", "high3.txt-0", "high3.txt-1"]
    assert [example.level for example in found] == ["middle", "high", "high"]
    last = found[-1]
    assert last.passage_id == "high3.txt"
    assert last.article.startswith("The old bridge")
    assert last.question == "When was that"
    assert last.options == ("Then", "Now", "Never", "Once")
    assert last.label == 3


def test_concatenated_passages_are_those_of_the_files(race_folder):
    apart = passage_files.read_split(race_folder, "dev")
    for level in (race_folder / "RACE" / "dev").iterdir():
        texts = [path.read_text("utf-8") for path in sorted(level.iterdir())]
        shutil.rmtree(level)
        level.mkdir()
        # Blank lines do not count.
        (level / "all.txt").write_text("\n\n".join(texts), encoding="utf-8")

    assert passage_files.read_split(race_folder, "dev") == apart


def test_a_concatenation_beside_the_files_counts_once(race_folder):
    apart = passage_files.read_split(race_folder, "dev")
    level = race_folder / "RACE" / "dev" / "high"
    more = passage(id="high9.txt", options=[["Snow", "Coal", "Sky", "Sea"]])
    same = json.loads((level / "3.txt").read_text("utf-8"))
    write(level / "all.txt", same, more)

    found = passage_files.read_split(race_folder, "dev")

    assert guids(found) == [*guids(apart), "high9.txt-0"]


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        (
            [passage(id="high3.txt")],
            "all.txt: another passage, in .*3.txt, has the id 'high3.txt'",
        ),
        ([passage(), passage()], "all.txt, line 2: another passage, in .*all"),
    ],
)
def test_a_copy_that_differs_is_refused(passages, message, race_folder):
    write(race_folder / "RACE" / "dev" / "high" / "all.txt", *passages)

    with pytest.raises(ValueError, match=message):
        passage_files.read_split(race_folder, "dev")


@pytest.mark.parametrize("answers", [None, []])
def test_a_passage_over_several_lines_is_one(answers, tmp_path):
    path = write(tmp_path / "a.txt", passage(answers=answers), indent=2)

    (found,) = passage_files.read_questions(path)

    assert (found.guid, found.level) == ("high1.txt-0", "high")
    # Empty answers are not known.
    assert found.label is None


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


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("none", "RACE/none.*--data_dir must be"),
        ("train", r"no file high/\*.txt in .*train"),
    ],
)
def test_a_missing_split_or_level_is_named(split, message, race_folder):
    with pytest.raises(FileNotFoundError, match=message):
        passage_files.read_split(race_folder, split, levels=["high"])


@pytest.mark.parametrize(
    ("content", "message"),
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
        ({"questions": [None]}, "question 0: question must be a string"),
        ({"article": 3}, "passage high1.txt: article must be a string"),
        (
            {"article": "Snow \ud83d"},
            r" has \\ud83d, which is half of a surrogate pair",
        ),
        # Not a passage, or two.
        ("{", " is not JSON"),
        ("[]", " must be a JSON object"),
        ("", " has no questions"),
        (
            json.dumps(passage()) + '\n{"article": "Snow."}',
            "line 2: .*Missing: questions, options",
        ),
        (
            json.dumps(passage()) + "\n" + json.dumps(passage()),
            "two questions have the id 'high1.txt-0'",
        ),
    ],
)
def test_a_damaged_passage_is_refused(content, message, tmp_path):
    path = tmp_path / "a.txt"
    if isinstance(content, dict):
        content = json.dumps(passage(**content))
    path.write_text(content)

    with pytest.raises(ValueError, match=f"a.txt.*{message}"):
        passage_files.read_questions(path)


@pytest.mark.parametrize(
    ("name", "split", "num_middle", "num_high", "num_questions"),
    # SOURCES.md: 15 passages, 61 questions; 68 passages, 268 questions.
    [
        ("", "train", 2, 3, 22),
        ("", "dev", 3, 2, 17),
        ("", "test", 3, 2, 22),
        ("race_like_gaokao", "train", 0, 59, 231),
        ("race_like_gaokao", "dev", 0, 9, 37),
    ],
)
def test_real_passages_are_read_whole(
    name, split, num_middle, num_high, num_questions, shared_data, caplog
):
    folder = shared_data / "data" / "race" / name

    with caplog.at_level(logging.WARNING):
        found = passage_files.read_split(folder, split)

    passages = {(example.level, example.passage_id) for example in found}
    levels = [level for level, _ in passages]
    assert (levels.count("middle"), levels.count("high")) == (
        num_middle,
        num_high,
    )
    assert len(found) == num_questions
    assert {len(example.options) for example in found} == {4}
    if not name:
        assert None not in {example.label for example in found}
        assert not caplog.records


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


def write_story(path, answers="A\tB\tC\tD", columns=23):
    path.write_text("\t".join(STORY[:columns]) + "\n", "utf-8")
    if answers is not None:
        path.with_suffix(".ans").write_text(answers + "\n", "utf-8")
    return path


@pytest.mark.parametrize(
    "names",
    [
        {},
        {
            "id": "name",
            "article": "context",
            "question": "stem",
            "options": "choices",
            "answer": "gold",
        },
    ],
)
def test_a_line_of_json_is_a_question_whatever_its_fields_are(names, tmp_path):
    row = {names.get(key, key): value for key, value in QUESTION.items()}
    path = write(tmp_path / "a.jsonl", row)
    fields = {f"{key}_field": name for key, name in names.items()}

    (found,) = passage_files.read_questions(path, fields=FieldNames(**fields))

    assert found == MultipleChoiceExample(
        guid="q1",
        passage_id="q1",
        article="Snow is white.",
        question="What is white?",
        options=("Snow", "Coal", "Grass"),
        label=2,
    )


@pytest.mark.parametrize(
    ("names", "got"),
    [
        ({"id_field": ""}, "''"),
        ({"id_field": "article"}, "'article', .* 'article'"),
    ],
)
def test_field_names_must_differ(names, got):
    with pytest.raises(ValueError, match=f"must have its own name.*{got}"):
        FieldNames(**names)


def test_ids_and_answers_may_be_missing(tmp_path):
    row = {k: v for k, v in QUESTION.items() if k not in ("id", "answer")}
    path = write(tmp_path / "a.jsonl", row, row | {"answer": None})
    path.write_text(f"\n{path.read_text()}\n\n")

    found = passage_files.read_questions(path)

    assert [(e.guid, e.label) for e in found] == [("2", None), ("3", None)]


def test_lines_of_passages_are_told_by_their_questions(tmp_path):
    rows = passage(), passage(id="middle5.txt", answers=["B"])

    found = passage_files.read_questions(write(tmp_path / "a.jsonl", *rows))

    assert [(e.guid, e.level, e.label) for e in found] == [
        ("high1.txt-0", "high", 0),
        ("middle5.txt-0", "middle", 1),
    ]


@pytest.mark.parametrize(
    ("answer", "label"),
    [("A", 0), ("C", 2), (" B ", 1), (0, 0), (2, 2), ("Coal", 1), (None, None)],
)
def test_an_answer_is_a_letter_an_index_or_the_option_itself(
    answer, label, tmp_path
):
    path = write(tmp_path / "a.jsonl", QUESTION | {"answer": answer})

    (found,) = passage_files.read_questions(path)

    assert found.label == label


def test_a_letter_that_is_its_own_option_names_it(tmp_path):
    row = QUESTION | {"options": ["A", "B"], "answer": "B"}

    (found,) = passage_files.read_questions(write(tmp_path / "a.jsonl", row))

    assert found.label == 1


@pytest.mark.parametrize("answer", ["D", "a", 3, -1, "", "Ice", 1.0, True, []])
def test_an_answer_that_names_no_option_is_refused(answer, tmp_path):
    path = write(tmp_path / "a.jsonl", QUESTION | {"answer": answer})

    got = re.escape(repr(answer))
    with pytest.raises(ValueError, match=f"q1: .*: {got}, which matches no op"):
        passage_files.read_questions(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"options": []}], "q1: .* 2 to 26 strings. Received: 0 of them"),
        (
            [{"options": ["Snow"]}],
            "line 1, question q1: .*: 1 of them",
        ),
        ([{"options": ["x"] * 27}], "27 of them"),
        ([{"options": "ab"}], "options must be a list of.* 'ab'"),
        ([{"options": None}], "options must be a list of.* None"),
        (
            [{"options": ["x", None]}],
            "q1: option B must be a string. Received: None",
        ),
        (
            [{"options": ["x", "A"], "answer": "A"}],
            "matches more than one option",
        ),
        (
            [{"options": ["x", "x"], "answer": "x"}],
            "matches more than one option",
        ),
        ([{"question": 5}], "line 1, question q1: question must be a string"),
        ([{"article": None}], "line 1, question q1: article must be a string"),
        ([{}, {}], "two questions have the id 'q1'"),
        (
            [{}, {"id": "q2", "options": ["a", "b"], "answer": "A"}],
            "question q2 has 2 options, question q1 has 3",
        ),
        ([], "a.jsonl has no questions"),
    ],
)
def test_a_question_that_is_not_complete_is_named(rows, message, tmp_path):
    path = write(tmp_path / "a.jsonl", *(QUESTION | row for row in rows))

    with pytest.raises(ValueError, match=message):
        passage_files.read_questions(path)


def test_a_missing_field_is_named_with_those_that_are_there(tmp_path):
    row = {"id": "q1", "text": "Snow.", "question": "What?", "options": []}
    path = write(tmp_path / "a.jsonl", row)

    with pytest.raises(
        ValueError,
        match="question q1: the field 'article' is missing; found id, text, .*"
        "--article_field",
    ):
        passage_files.read_questions(path)


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

    labels = {e.label for e in passage_files.read_questions(path)}

    assert labels == {None}


@pytest.mark.parametrize(
    ("columns", "answers", "message"),
    [
        (22, "A\tB\tC\tD", "a.tsv, story 1: .*Received: 22 and 4"),
        (23, "A\tB", "a.tsv, story 1: .*Received: 23 and 2"),
        (23, "A\tB\tX\tD", "story 1, question 2: the answer must"),
        (
            23,
            "A\tB\tC\tD\nA\tB\tC\tD",
            "answers for 2 stories, .* has 1 stories",
        ),
    ],
)
def test_a_story_that_is_not_complete_is_refused(
    columns, answers, message, tmp_path
):
    path = write_story(tmp_path / "a.tsv", answers, columns)

    with pytest.raises(ValueError, match=message):
        passage_files.read_questions(path)


def test_the_real_stories_are_read_whole(shared_data):
    folder = shared_data / "data" / "race" / "mctest"
    # SOURCES.md: 4 questions a story, 4 options a question.
    for name, num_stories in {
        "mc160.train": 70,
        "mc160.dev": 30,
        "mc160.test": 60,
        "mc500.train": 300,
        "mc500.dev": 50,
        "mc500.test": 150,
    }.items():
        found = passage_files.read_questions(folder / f"{name}.tsv")

        assert len(found) == 4 * num_stories
        assert len({example.passage_id for example in found}) == num_stories
        assert {example.label for example in found} == {0, 1, 2, 3}
        for example in found:
            assert "\\newline" not in example.article
            assert not example.question.startswith(("one:", "multiple:"))
