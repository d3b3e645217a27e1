import json

import pytest

from albert_tf.tasks.squad import examples
from albert_tf.tasks.squad.examples import Answer

CONTEXT = "Snow is white."


@pytest.fixture
def write(tmp_path):
    """Writes questions about `CONTEXT`; returns the path."""

    def write_file(*rows, title="Weather"):
        questions = [
            {"id": f"q{i}", "question": "What is white?"} | row
            for i, row in enumerate(rows)
        ]
        paragraph = {"context": CONTEXT, "qas": questions}
        article = {"title": title, "paragraphs": [paragraph]}
        return write_json({"version": "1.1", "data": [article]})

    def write_json(content):
        path = tmp_path / "squad.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    write_file.json = write_json
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


def test_a_byte_order_mark_is_dropped(write):
    path = write({})
    path.write_text("\ufeff" + path.read_text())

    assert len(examples.read_examples(path)) == 1


def test_real_files_are_read_whole(shared_data):
    folder = shared_data / "data" / "squad"

    first = examples.read_examples(folder / "dev-v1.1.json")
    second = examples.read_examples(folder / "dev-v2.0.reconstructed.json")

    assert len(first) == 7235
    assert len(second) == 7975
    # Counted in the file.
    assert sum(e.is_impossible for e in second) == 4131
    for example in first:
        for answer in example.answers:
            end = answer.start + len(answer.text)
            assert example.context[answer.start : end] == answer.text


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": 7}, "paragraph 1: `id` must be a string. Received: 7"),
        ({"question": None}, "question q0: `question` must be a string"),
        ({"answers": {}}, "question q0: `answers` must be a list"),
        ({"answers": [1]}, "q0: each entry of `answers` must be a JSON obj"),
        (
            {"answers": [{"text": "x"}]},
            "question q0: the field `answer_start` is mis",
        ),
        (
            {"answers": [{"text": "Snow", "answer_start": True}]},
            "`answer_start` must be a whole number",
        ),
        (
            {"answers": [{"text": "white!!", "answer_start": 8}]},
            "q0: the answer 'white!!' must lie in the context, which has 14",
        ),
        (
            {"answers": [{"text": "Snow", "answer_start": -1}]},
            "must lie in the context.*answer_start=-1",
        ),
        ({"is_impossible": 1}, "q0: `is_impossible` must be true or false"),
        (
            {
                "is_impossible": True,
                "answers": [{"text": "Snow", "answer_start": 0}],
            },
            "q0: the question is marked as impossible .* 1 ans",
        ),
    ],
)
def test_a_bad_question_is_named_with_its_file(row, words, write):
    path = write(row)

    with pytest.raises(ValueError, match=words) as error:
        examples.read_examples(path)
    assert f"{path}, article 'Weather', paragraph 1" in str(error.value)


def test_two_questions_with_one_id_are_refused(write):
    with pytest.raises(ValueError, match="another question has the id 'q0'"):
        examples.read_examples(write({}, {"id": "q0"}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "squad.json must be a JSON object"),
        ({"questions": []}, "the field `data` is missing; found 'questions'"),
        ({}, "the field `data` is missing; found no field"),
        ({"data": {}}, "`data` must be a list"),
        ({"data": []}, "squad.json has no questions"),
        ({"data": [{"title": "A"}]}, "'A': the field `paragraphs` is missing"),
        (
            {"data": [{"paragraphs": [{"context": "x"}]}]},
            "squad.json, paragraph 1: the field `qas` is",
        ),
        (
            {"data": [{"paragraphs": [{"qas": []}]}]},
            "paragraph 1: the field `context` is missing",
        ),
    ],
)
def test_another_layout_is_refused(content, words, write):
    with pytest.raises(ValueError, match=words):
        examples.read_examples(write.json(content))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_not_json_is_refused(text, tmp_path):
    (tmp_path / "squad.json").write_text(text)

    with pytest.raises(ValueError, match="squad.json is not JSON"):
        examples.read_examples(tmp_path / "squad.json")


def test_half_of_a_surrogate_pair_is_refused(write):
    with pytest.raises(
        ValueError, match=r"squad.json has \\ud83d, which is half of a"
    ):
        examples.read_examples(write({"question": "Why \ud83d?"}))
