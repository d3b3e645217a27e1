import numpy as np
import pytest

from albert_tf.tasks.race import passage_files, question_types


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Who was lost?", "who"),
        ("With whom did Ann go?", "who"),
        ("Whose book is it?", "who"),
        ("What's the best title(  )?", "what"),
        ("57．What do students need？", "what"),
        ("According to the text, when did it rain?", "when"),
        ("Where did it rain", "where"),
        ("Why did Tom say what he said?", "why"),
        ("How many people came?", "how"),
        ("Which of these is true?", "other"),
        ("Is it true?", "other"),
        ("We can learn what _ is.", "cloze"),
        ("What is ＿ ?", "cloze"),
        ("The reason why he left was that", "cloze"),
        ("This story is about", "cloze"),
        ("", "cloze"),
    ],
)
def test_type_of_a_question(question, wanted):
    assert question_types.question_type(question) == wanted


def test_accuracy_is_told_by_type_in_a_fixed_order(make_example):
    questions = [
        make_example(question="How is it?", label=1),
        make_example(question="Who is it?", label=2),
        make_example(question="Who was it?", label=0),
    ]
    logits = np.array([[0, 1, 2], [0, 1, 2], [0, 1, 2]])

    found = question_types.accuracy_by_question_type(questions, logits)

    assert list(found) == ["who", "how"]
    assert found == {
        "who": {"num_questions": 2, "num_correct": 1, "accuracy": 0.5},
        "how": {"num_questions": 1, "num_correct": 0, "accuracy": 0.0},
    }


def test_accuracy_by_type_needs_answers(make_example):
    with pytest.raises(ValueError, match="1 of 1 questions have no answer"):
        question_types.accuracy_by_question_type(
            [make_example(label=None)], np.zeros([1, 3])
        )


def test_every_real_question_has_one_type(shared_data):
    questions = [
        example
        for split in passage_files.SPLITS
        for example in passage_files.read_split(
            shared_data / "data" / "race", split
        )
    ]
    logits = np.eye(4)[[example.label for example in questions]]

    found = question_types.accuracy_by_question_type(questions, logits)

    assert sum(row["num_questions"] for row in found.values()) == 61
    assert {row["accuracy"] for row in found.values()} == {1.0}
    with_blank = sum("_" in example.question for example in questions)
    assert found["cloze"]["num_questions"] >= with_blank > 20
