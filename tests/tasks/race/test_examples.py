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

    assert examples.find_label(answer, options, "here") == label


@pytest.mark.parametrize("answer", ["D", "a", 3, -1, "", "ice", 1.0, True, []])
def test_an_answer_that_names_no_option_is_refused(answer):
    with pytest.raises(ValueError, match="q1: the answer.* matches no option"):
        examples.find_label(answer, ("snow", "coal", "grass"), "f, q1")


@pytest.mark.parametrize(
    ("answer", "options"), [("A", ("x", "A")), ("x", ("x", "x"))]
)
def test_an_answer_that_could_be_two_options_is_refused(answer, options):
    with pytest.raises(ValueError, match="matches more than one option"):
        examples.find_label(answer, options, "here")


def test_a_letter_that_is_its_own_option_names_it():
    assert examples.find_label("B", ("A", "B"), "here") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "2 to 26 strings. Received: 0 of them"),
        (["one"], "1 of them"),
        (["x"] * 27, "27 of them"),
        ("ab", "must be a list of.* 'ab'"),
        (None, "must be a list of.* None"),
        (["x", None], "option B must be a string. Received: None"),
    ],
)
def test_options_must_be_a_list_of_strings(options, message):
    with pytest.raises(ValueError, match=f"f, q1: .*{message}"):
        examples.check_options(options, "f, q1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "f has no questions"),
        ([{"guid": "x"}, {"guid": "x"}], "f: two questions have the id 'x'"),
        (
            [{}, {"guid": "two", "options": ("a", "b")}],
            "question two has 2 options, question 1 has 3",
        ),
    ],
)
def test_the_questions_of_a_set_must_agree(changes, message, make_example):
    with pytest.raises(ValueError, match=message):
        examples.check_examples([make_example(**c) for c in changes], "f")


def test_empty_texts_are_kept_with_a_warning(make_example, caplog):
    complete = make_example(guid="y")
    questions = [
        make_example(guid="x", question=" "),
        complete,
        make_example(guid="z", options=("a", "", "c")),
    ]

    with caplog.at_level(logging.WARNING):
        examples.check_examples([complete], "f")
        assert not caplog.records
        examples.check_examples(questions, "f")

    assert "f: 2 of 3 questions have an empty" in caplog.text
    assert caplog.text.rstrip().endswith("x, z")


def test_few_of_many_empty_texts_are_named(make_example, caplog):
    questions = [make_example(guid=f"q{i}", article="") for i in range(9)]

    with caplog.at_level(logging.WARNING):
        examples.check_examples(questions, "f")

    assert caplog.text.rstrip().endswith("q0, q1, q2, q3, q4, ...")


def test_a_missing_answer_is_named(make_example):
    questions = [make_example(), make_example(guid="q7", label=None)]

    with pytest.raises(
        ValueError, match="1 of 2 questions have no answer, for example quest"
    ):
        examples.known_labels(questions)
