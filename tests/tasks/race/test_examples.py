import logging

import pytest

from albert_tf.tasks.race import examples


def test_an_option_follows_the_question(make_example):
    example = make_example(question="What is white?", options=("Snow", "Coal"))

    assert example.choice_texts() == [
        "What is white? Snow",
        "What is white? Coal",
    ]


@pytest.mark.parametrize("blank", ["_", "＿", "﹏"])
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
    ("answer", "label"),
    [("A", 0), ("C", 2), (" B ", 1), (0, 0), (2, 2), ("coal", 1), (None, None)],
)
def test_an_answer_is_a_letter_an_index_or_the_option_itself(answer, label):
    options = ("snow", "coal", "grass")

    assert examples.make_label(answer, options, "here") == label


@pytest.mark.parametrize("answer", ["D", "a", 3, -1, "", "ice", 1.0, True, []])
def test_an_answer_that_names_no_option_is_refused(answer):
    with pytest.raises(ValueError, match="q1: the answer.* names none of"):
        examples.make_label(answer, ("snow", "coal", "grass"), "f, q1")


@pytest.mark.parametrize(
    ("answer", "options"), [("A", ("x", "A")), ("x", ("x", "x"))]
)
def test_an_answer_that_could_be_two_options_is_refused(answer, options):
    with pytest.raises(ValueError, match="names more than one of the options"):
        examples.make_label(answer, options, "here")


def test_a_letter_that_is_its_own_option_names_it():
    assert examples.make_label("B", ("A", "B"), "here") == 1


@pytest.mark.parametrize(
    ("options", "got"),
    [([], "0 of them"), (["one"], "1 of them"), ("ab", "'ab'"), (None, "None")],
)
def test_too_few_options_are_refused(options, got):
    with pytest.raises(
        ValueError, match=f"q1: the options must be a list.*{got}"
    ):
        examples.make_options(options, "f, q1")


def test_more_options_than_letters_are_refused():
    with pytest.raises(ValueError, match="2 to 26 texts. Received: 27 of them"):
        examples.make_options(["x"] * 27, "f, q1")


def test_an_option_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="q1: option B must be a text.*None"):
        examples.make_options(["x", None], "f, q1")


def test_the_number_of_options_of_a_set_is_found(make_example):
    found = examples.check_examples(
        [make_example(guid="1"), make_example(guid="2")], "here"
    )

    assert found == 3


def test_two_questions_with_one_id_are_refused(make_example):
    with pytest.raises(ValueError, match="f: there are two .* id 'x'"):
        examples.check_examples(
            [make_example(guid="x"), make_example(guid="x")], "f"
        )


def test_questions_with_other_numbers_of_options_are_refused(make_example):
    two = make_example(guid="two", options=("a", "b"))

    with pytest.raises(
        ValueError, match="question two has 2 options, question 1 has 3"
    ):
        examples.check_examples([make_example(), two], "f")


def test_an_empty_set_is_refused():
    with pytest.raises(ValueError, match="f: there is no question in it"):
        examples.check_examples([], "f")


def test_empty_texts_are_kept_and_told(make_example, caplog):
    questions = [
        make_example(guid="x", question=" "),
        make_example(guid="y"),
        make_example(guid="z", options=("a", "", "c")),
    ]

    with caplog.at_level(logging.WARNING):
        examples.check_examples(questions, "f")

    assert "f: 2 of 3 questions have an empty" in caplog.text
    assert caplog.text.rstrip().endswith("x, z")


def test_few_of_many_empty_texts_are_named(make_example, caplog):
    questions = [make_example(guid=f"q{i}", article="") for i in range(9)]

    with caplog.at_level(logging.WARNING):
        examples.check_examples(questions, "f")

    assert caplog.text.rstrip().endswith("q0, q1, q2, q3, q4, ...")


def test_complete_questions_are_not_warned_of(make_example, caplog):
    examples.check_examples([make_example()], "f")

    assert not caplog.records


def test_labels_are_returned_where_all_are_known(make_example):
    questions = [make_example(label=2), make_example(label=0)]

    assert examples.known_labels(questions) == [2, 0]


def test_a_missing_answer_is_named(make_example):
    questions = [make_example(), make_example(guid="q7", label=None)]

    with pytest.raises(
        ValueError, match="1 of 2 questions have no answer, question q7 among"
    ):
        examples.known_labels(questions)
