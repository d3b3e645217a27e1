import json
import shutil

import numpy as np
import pytest

from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import ChoiceLengths, MultipleChoiceExample
from albert_tf.text import base
from tests.tasks.race.conftest import QUESTION

ROWS = ("input_ids", "input_mask", "segment_ids")


class WordTokenizer:
    """A word of n letters has the id 10 + n; `calls` says what was encoded."""

    special_ids = base.SpecialIds(pad=9, unk=1, cls=2, sep=3, mask=4)

    def __init__(self):
        self.calls = []

    def encode_batch(self, texts):
        self.calls.append(list(texts))
        rows = [[10 + len(word) for word in text.split()] for text in texts]
        ids = np.array([i for row in rows for i in row], np.int32)
        return ids, np.array([len(row) for row in rows], np.int64)


def records_of(examples, *lengths):
    long, short = lengths or (20, 10)
    return list(
        examples_lib.make_records(
            examples,
            WordTokenizer(),
            ChoiceLengths(max_seq_length=long, max_qa_length=short),
        )
    )


def padded(record, length):
    """The sequence arrays of a record as the reference has them."""
    size = record["input_ids"].shape[1]
    return {
        name: np.pad(record[name], [(0, 0), (0, length - size)])
        for name in ROWS
    }


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


@pytest.mark.parametrize(
    ("article", "question", "options", "lengths", "expected"),
    [
        # 8 = [CLS], [SEP], [SEP], the last 3 of the choice, and of the
        # article the first that fit.
        (
            *("a bb ccc dddd", "eeeee f", ("gg", "hhh iiii"), (8, 3)),
            [[2, 11, 12, 3, 15, 11, 12, 3], [2, 11, 12, 3, 11, 13, 14, 3]],
        ),
        # A short choice leaves room for more of the article.
        (
            *("a bb ccc dddd", "e", ("f", "gg hhh iiii"), (8, 4)),
            [[2, 11, 12, 13, 3, 11, 11, 3], [2, 11, 3, 11, 12, 13, 14, 3]],
        ),
        # Texts may be empty; id 9 is padding.
        ("", "", ("", "a"), (20, 10), [[2, 3, 3, 9], [2, 3, 11, 3]]),
    ],
)
def test_choices_are_cut_to_their_lengths(
    article, question, options, lengths, expected, make_example
):
    example = make_example(
        article=article, question=question, options=options, label=None
    )

    (record,) = records_of([example], *lengths)

    np.testing.assert_array_equal(record["input_ids"], expected)
    # Where the answer is not known.
    assert record["label_ids"] == 0


def test_more_questions_than_fit_one_call_come_in_order(make_example):
    count = examples_lib.QUESTIONS_PER_CALL + 3
    questions = [
        make_example(guid=str(i), article="a " * i, label=i % 3)
        for i in range(count)
    ]
    words = WordTokenizer()
    lengths = ChoiceLengths(max_seq_length=300, max_qa_length=50)

    found = list(examples_lib.make_records(questions, words, lengths))

    assert len(words.calls) == 2
    # [CLS], the article, [SEP], three words of question, the option, [SEP].
    sizes = [record["input_ids"].shape[1] for record in found]
    assert sizes == [i + 7 for i in range(count)]
    assert [int(record["label_ids"]) for record in found] == [
        i % 3 for i in range(count)
    ]


@pytest.mark.parametrize("name", ["race", "race_like_gaokao"])
@pytest.mark.parametrize(("long", "short"), [(256, 64), (128, 16), (448, 64)])
def test_features_equal_the_recorded_ones(
    name, long, short, english, shared_data
):
    folder = shared_data / "golden" / "race" / name
    wanted = np.load(folder / f"features_{long}_{short}.npz")
    questions = examples_lib.read_split(folder, "dev")
    lengths = ChoiceLengths(max_seq_length=long, max_qa_length=short)

    found = list(examples_lib.make_records(questions, english, lengths))

    # A run of underscores is one blank here; RACE's own files have none.
    is_same = ["__" not in example.question for example in questions]
    assert all(is_same) == (name == "race")
    for key in ROWS:
        rows = np.stack([padded(record, long)[key] for record in found])
        np.testing.assert_array_equal(rows[is_same], wanted[key][is_same])
    labels = [record["label_ids"] for record in found]
    np.testing.assert_array_equal(labels, wanted["label_id"])
    ids = [example.guid.rpartition("-")[0] for example in questions]
    assert ids == wanted["example_id"].tolist()


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
