import json
import shutil

import pytest

from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import MultipleChoiceExample
from tests.tasks.race.conftest import QUESTION


@pytest.mark.parametrize("blank", ["_", "＿", "﹏", "____", "__ _  __", "_＿"])
def test_an_option_takes_the_place_of_every_blank(blank, make_example):
    # `＿` becomes `_` when text is normalised, which the reference does first.
    example = make_example(
        question=f"If {blank} is white, {blank} is not black.",
        options=("snow", r"\1"),
    )

    assert example.choice_texts() == [
        "If snow is white, snow is not black.",
        r"If \1 is white, \1 is not black.",
    ]


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def guids(examples):
    return [example.guid for example in examples]


@pytest.mark.parametrize("folder", [".", "RACE"])
def test_both_levels_are_read_middle_first(folder, race_folder):
    examples = examples_lib.read_split(race_folder / folder, "dev")

    assert guids(examples) == ["middle2.txt-0", "high3.txt-0", "high3.txt-1"]
    assert [e.level for e in examples] == ["middle", "high", "high"]
    last = examples[-1]
    assert last.article.startswith("The old bridge")
    assert last.question == "When was that"
    assert last.options == ("Then", "Now", "Never", "Once")
    assert last.label == 3


def test_files_that_macos_adds_are_not_read(race_folder):
    apart = examples_lib.read_split(race_folder, "dev")
    beside = race_folder / "RACE" / "dev" / "high" / "._3.txt"
    beside.write_bytes(b"\0\5\x16\7Mac OS X")

    assert examples_lib.read_split(race_folder, "dev") == apart


def test_concatenated_passages_are_those_of_the_files(race_folder):
    apart = examples_lib.read_split(race_folder, "dev")
    for level in (race_folder / "RACE" / "dev").iterdir():
        texts = [path.read_text("utf-8") for path in sorted(level.iterdir())]
        # Blank lines do not count.
        (level / "all.txt").write_text("\n\n".join(texts), encoding="utf-8")

    # Beside the files, and in their place.
    assert examples_lib.read_split(race_folder, "dev") == apart
    for path in (race_folder / "RACE" / "dev").rglob("[0-9].txt"):
        path.unlink()
    assert examples_lib.read_split(race_folder, "dev") == apart


def test_passages_without_an_id_are_named_by_their_place(race_folder):
    level = race_folder / "RACE" / "dev" / "high"
    passage = json.loads((level / "3.txt").read_text("utf-8"))
    del passage["id"]
    write(level / "3.txt", passage, passage)
    shutil.rmtree(level.with_name("middle"))

    examples = examples_lib.read_split(race_folder, "dev")

    assert len(set(guids(examples))) == 4
    assert guids(examples)[0] == "high3.txt-1-0"


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

    examples = examples_lib.read_questions(path)

    assert examples[0] == MultipleChoiceExample(
        guid="q1",
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

    (example,) = examples_lib.read_questions(path)

    assert example.label == label
