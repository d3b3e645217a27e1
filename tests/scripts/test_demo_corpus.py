import pytest

import demo_corpus

TOPIC = """\
The "assert" statement
**********************

Assert statements are a *convenient way* to insert **debugging
assertions** into a program: [2]

   assert_stmt ::= "assert" expression ["," expression]

The simple form, "assert expression", is the shorter one.  It’s common.
It is equivalent to the following code:

   if __debug__:
       if not expression: raise AssertionError

* Such assertions, e.g. in tests, are checked at once.

+----------------------------+
| A table is not a sentence. |
+----------------------------+

>>> print("This is a session.")

Calls f(x)[0], g(y)[1] and h(z)[2] are mostly code.

[2] This is what a footnote looks like in a topic.
"""


def test_prose_is_kept_without_markup_and_the_rest_is_left_out():
    found = list(demo_corpus.prose_sentences(TOPIC))

    assert found == [
        "Assert statements are a convenient way to insert debugging "
        "assertions into a program:",
        "The simple form, assert expression, is the shorter one.",
        "It is equivalent to the following code:",
        "Such assertions, e.g. in tests, are checked at once.",
    ]


def test_a_sentence_that_two_topics_share_stays_with_the_shorter_one():
    shared = "This sentence is in both of them."
    topics = {
        "long": f"The long one begins like this. {shared} It ends like this.",
        "short": f"The short one begins like this. {shared}",
        "lone": "There is only one sentence here.",
    }

    found = list(demo_corpus.documents(topics))

    assert found == [
        ["The short one begins like this.", shared],
        ["The long one begins like this.", "It ends like this."],
    ]


@pytest.fixture(scope="module")
def corpus():
    return demo_corpus.train_and_held_out()


def test_python_carries_enough_text(corpus):
    train, held_out = corpus

    num_words = sum(len(s.split()) for part in train for s in part)
    assert num_words > 20_000
    # About a tenth of the topics.
    assert 0.05 < len(held_out) / (len(train) + len(held_out)) < 0.15


def test_no_held_out_sentence_is_trained_on(corpus):
    train, held_out = ({s for part in parts for s in part} for parts in corpus)

    assert held_out
    assert not train & held_out


def test_text_has_one_sentence_a_line_and_empty_lines_between_documents():
    text = demo_corpus.to_text([["One.", "Two."], ["Three."]])

    assert text == "One.\nTwo.\n\nThree.\n"


def test_description_counts_topics_sentences_words():
    found = demo_corpus.describe([["One two.", "Three."], ["Four."]])

    assert found == "2 topics, 3 sentences, 4 words"
