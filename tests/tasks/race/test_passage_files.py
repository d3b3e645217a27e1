import json
import shutil

import pytest

from albert_tf.tasks.race import passage_files
from albert_tf.tasks.race.examples import MultipleChoiceExample
from tests.tasks.race.conftest import QUESTION


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def guids(examples):
    return [example.guid for example in examples]


@pytest.mark.parametrize("folder", [".", "RACE"])
def test_both_levels_are_read_middle_first(folder, race_folder):
    examples = passage_files.read_split(race_folder / folder, "dev")

    assert guids(examples) == ["middle2.txt-0", "high3.txt-0", "high3.txt-1"]
    assert [e.level for e in examples] == ["middle", "high", "high"]
    last = examples[-1]
    assert last.passage_id == "high3.txt"
    assert last.article.startswith("The old bridge")
    assert last.question == "When was that"
    assert last.options == ("Then", "Now", "Never", "Once")
    assert last.label == 3


def test_concatenated_passages_are_those_of_the_files(race_folder):
    apart = passage_files.read_split(race_folder, "dev")
    for level in (race_folder / "RACE" / "dev").iterdir():
        texts = [path.read_text("utf-8") for path in sorted(level.iterdir())]
        # Blank lines do not count.
        (level / "all.txt").write_text("\n\n".join(texts), encoding="utf-8")

    # Beside the files, and in their place.
    assert passage_files.read_split(race_folder, "dev") == apart
    for path in (race_folder / "RACE" / "dev").rglob("[0-9].txt"):
        path.unlink()
    assert passage_files.read_split(race_folder, "dev") == apart


def test_passages_without_an_id_are_named_by_their_place(race_folder):
    level = race_folder / "RACE" / "dev" / "high"
    passage = json.loads((level / "3.txt").read_text("utf-8"))
    del passage["id"]
    write(level / "3.txt", passage, passage)
    shutil.rmtree(level.with_name("middle"))

    examples = passage_files.read_split(race_folder, "dev")

    assert len(set(guids(examples))) == 4
    assert guids(examples)[0] == "high3.txt-1-0"


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
    name, split, num_middle, num_high, num_questions, shared_data
):
    folder = shared_data / "data" / "race" / name

    examples = passage_files.read_split(folder, split)

    levels = [level for level, _ in {(e.level, e.passage_id) for e in examples}]
    assert levels.count("middle") == num_middle
    assert levels.count("high") == num_high
    assert len(examples) == num_questions
    assert {len(example.options) for example in examples} == {4}
    if not name:
        assert None not in {example.label for example in examples}


def test_a_line_is_a_question_or_a_passage(tmp_path, race_folder):
    passage = race_folder / "RACE" / "dev" / "high" / "3.txt"
    unnamed = {k: v for k, v in QUESTION.items() if k not in ("id", "answer")}
    path = write(
        tmp_path / "a.jsonl",
        QUESTION,
        unnamed,
        unnamed | {"answer": None},
        json.loads(passage.read_text("utf-8")) | {"answers": []},
    )

    examples = passage_files.read_questions(path)

    assert examples[0] == MultipleChoiceExample(
        guid="q1",
        passage_id="q1",
        article="Snow is white.",
        question="What is white?",
        options=("Snow", "Coal", "Grass"),
        label=0,
    )
    assert [(e.guid, e.level, e.label) for e in examples[1:]] == [
        ("2", "", None),
        ("3", "", None),
        ("high3.txt-0", "high", None),
        ("high3.txt-1", "high", None),
    ]


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"answer": "C"}, 2),
        ({"answer": " B "}, 1),
        ({"answer": 0}, 0),
        ({"answer": "Coal"}, 1),
        # A letter that is its own option.
        ({"answer": "B", "options": ["A", "B"]}, 1),
    ],
)
def test_an_answer_is_a_letter_an_index_or_the_option_itself(
    changes, label, tmp_path
):
    path = write(tmp_path / "a.jsonl", QUESTION | changes)

    (example,) = passage_files.read_questions(path)

    assert example.label == label
