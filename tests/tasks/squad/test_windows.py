import logging

import numpy as np
import pytest

from albert_tf.metrics import squad as metrics
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad import predictions, windows
from albert_tf.tasks.squad.examples import Answer, SquadExample
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import Questions, WindowLengths
from albert_tf.text import tokenizer

RECORDED_NAMES = {
    "start_positions": "start_position",
    "end_positions": "end_position",
}


def encode_paragraph(text, tokens):
    example = SquadExample(guid="1", question="", context=text)
    (question,) = Questions([example], tokens, WindowLengths()).split()
    return question.paragraph


@pytest.fixture
def encode(words):
    return lambda text: encode_paragraph(text, words)


@pytest.mark.parametrize(
    ("answer", "start", "expected"),
    [
        ("cat", 4, "cat"),
        ("sat", 9, "sat"),
        ("The cat", 0, "The cat"),
        ("cat  sat", 4, "cat  sat"),
        # White space around an answer does not count.
        (" cat  ", 3, "cat"),
        # Other characters are there, or none.
        ("cat", 5, None),
        ("cats", 4, None),
        ("", 4, None),
        (" ", 3, None),
    ],
)
def test_the_tokens_of_an_answer_are_found_and_read_back(
    answer, start, expected, encode
):
    found = encode("The cat  sat.")

    tokens = found.find_tokens(Answer(text=answer, start=start))

    assert (tokens and found.span_text(*tokens)) == expected


def test_an_answer_of_nothing_that_became_a_token_is_not_found(tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    chinese = tokenizer.load_tokenizer(vocab_file=tmp_path / "vocab.txt")

    found = encode_paragraph("cat \u200b cat", chinese)

    assert found.ids.tolist() == [5, 5]
    assert found.find_tokens(Answer(text="\u200b", start=4)) is None


@pytest.mark.parametrize(
    ("name", "num_other_starts", "num_other_ends"),
    # `½` is three tokens, which we give its character each, and the original
    # the one behind it or none (twice in the same paragraph); the ends are
    # those and tokens behind which an accent of their own stands (`é` in two
    # code points), which we give them.
    [("v1", 0, 2), ("v2", 0, 0), ("edge", 6, 8)],
)
def test_characters_of_tokens_are_the_recorded_ones(
    name, num_other_starts, num_other_ends, recorded
):
    golden = recorded(name)
    starts, ends = [], []
    for number, rows in golden.rows.items():
        question = golden.questions[number]
        paragraph = question.paragraph
        for window, row in zip(question.windows, rows, strict=False):
            own = slice(window.start, window.stop)
            found = slice(0, len(window))
            recorded_starts = golden.arrays["tok_start_to_orig_index"][row]
            # The original's words begin with the space before them.
            starts += [
                (start, there + _num_spaces(paragraph.text[there:start]))
                for start, there in zip(
                    paragraph.starts[own], recorded_starts[found], strict=True
                )
            ]
            last = golden.arrays["tok_end_to_orig_index"][row]
            ends += zip(paragraph.ends[own] - 1, last[found], strict=True)

    assert sum(ours != theirs for ours, theirs in starts) == num_other_starts
    assert sum(ours != theirs for ours, theirs in ends) == num_other_ends


def _num_spaces(text):
    return len(text) - len(text.lstrip())


@pytest.mark.parametrize(
    ("num_tokens", "size", "stride", "wanted"),
    [
        (0, 4, 2, [(0, 0)]),
        (4, 4, 2, [(0, 4)]),
        (5, 4, 2, [(0, 4), (2, 3)]),
        (6, 4, 2, [(0, 4), (2, 4)]),
        (9, 4, 2, [(0, 4), (2, 4), (4, 4), (6, 3)]),
        # A stride beyond the window would leave tokens out.
        (9, 4, 100, [(0, 4), (4, 4), (8, 1)]),
    ],
)
def test_windows_cover_the_paragraph(num_tokens, size, stride, wanted):
    found = windows.split_windows(num_tokens, size=size, stride=stride)

    assert [(window.start, len(window)) for window in found] == wanted


def test_questions_keep_their_order_and_share_the_paragraph(
    make_example, words, monkeypatch
):
    monkeypatch.setattr(windows, "QUESTIONS_PER_CALL", 2)
    asked = [
        make_example(guid="q1"),
        make_example(guid="q2", question="What is coal?"),
        make_example(guid="q3", context="It is white."),
    ]

    questions = Questions(asked, words, WindowLengths())
    found = questions.windowed

    assert questions.num_windows == 3

    assert list(questions) == [question.example for question in found] == asked
    assert found[0].paragraph is found[1].paragraph
    for question in found:
        assert question.question_ids.tolist() == words.encode(
            question.example.question
        )
        assert question.offset == len(question.question_ids) + 2


def test_windows_leave_room_for_a_question_cut_at_its_end(
    make_example, make_question, words
):
    example = make_example(question="snow " * 9, context="snow is white " * 9)

    found = make_question(example, max_seq_length=32, max_query_length=7)

    assert found.question_ids.tolist() == words.encode(example.question)[:7]
    sizes = [found.offset + len(window) + 1 for window in found.windows]
    assert len(sizes) > 1
    assert max(sizes) == 32


@pytest.mark.parametrize("name", ["v1", "v2", "edge"])
def test_windows_with_most_context_are_the_recorded_ones(name, recorded):
    golden = recorded(name)
    num_compared = 0
    for number, rows in golden.rows.items():
        question = golden.questions[number]
        owners = windows.best_windows(
            len(question.paragraph.ids), question.windows
        )
        if not rows.size:
            # Dropped by the original, which cannot align Hangul.
            assert question.example.guid == "shared-edge-2-0"
            continue
        for place, (window, row) in enumerate(
            zip(question.windows, rows, strict=True)
        ):
            wanted = golden.arrays["token_is_max_context"][row]
            found = np.full(len(wanted), -1)
            own = slice(question.offset, question.offset + len(window))
            found[own] = owners[window.start : window.stop] == place
            np.testing.assert_array_equal(found, wanted)
            num_compared += 1

    assert num_compared == len(golden.arrays["unique_id"])


def test_an_empty_paragraph_has_a_window(make_example, make_question, words):
    question = make_question(make_example(context="", answers=()))

    (record,) = windows.make_records(
        [question], words.special_ids, is_training=True
    )

    special = words.special_ids
    assert record["input_ids"][-2:].tolist() == [special.sep, special.sep]
    assert record["p_mask"].sum() == len(record["p_mask"]) - 1
    # As every question without an answer.
    assert record["is_impossible"] == 1
    assert record["start_positions"] == record["end_positions"] == 0


def test_what_cannot_be_aligned_is_counted_and_listed(
    make_example, make_question, words, caplog
):
    answers = {
        "good": Answer(text="white", start=12),
        "lost": Answer(text="white", start=13),
        "also_lost": Answer(text="black", start=12),
    }
    asked = [
        make_question(make_example(guid=guid, answers=(answer,)))
        for guid, answer in answers.items()
    ]

    with caplog.at_level(logging.WARNING):
        records = list(
            windows.make_records(asked, words.special_ids, is_training=True)
        )

    assert len(records) == 1
    assert "2 of 3 questions are skipped" in caplog.text
    assert "lost ('white'), also_lost ('black')" in caplog.text


def test_a_part_of_a_token_is_trained_on_as_the_whole(make_example, english):
    # The first answer is not in its place.
    answers = (Answer(text="old", start=0), Answer(text="gold", start=6))
    example = make_example(context="It is golden.", answers=answers)
    questions = Questions([example], english, WindowLengths()).split()

    (record,) = windows.make_records(
        questions, english.special_ids, is_training=True
    )

    (token,) = {int(record[f"{end}_positions"]) for end in ("start", "end")}
    assert english.decode([record["input_ids"][token]]) == "golden"


def test_of_several_answers_the_first_of_whole_tokens_is_taken(
    make_example, make_question
):
    answers = (
        Answer(text="coal", start=0),
        Answer(text="black", start=31),
        Answer(text="white", start=12),
    )
    question = make_question(make_example(answers=answers))

    tokens = windows.find_answer(question)

    assert question.paragraph.span_text(*tokens) == "black"


@pytest.mark.parametrize(
    ("name", "num_windows"), [("v1", 169), ("v2", 180), ("edge", 10)]
)
def test_records_equal_the_recorded_ones(name, num_windows, recorded, english):
    golden = recorded(name)
    num_compared = 0
    for number, rows in golden.rows.items():
        question = golden.training_questions[number]
        records = list(
            windows.make_records(
                [question], english.special_ids, is_training=True
            )
        )
        if not rows.size:
            # Differs: the original drops it, since the tokens of Hangul have
            # other characters than the text. Ours has its window.
            assert question.example.guid == "shared-edge-2-0"
            assert len(records) == 1
            continue
        for record, row in zip(records, rows, strict=True):
            for key, values in record.items():
                wanted = golden.arrays[RECORDED_NAMES.get(key, key)][row]
                if values.ndim:
                    padding = np.full(192 - len(values), key == "p_mask")
                    values = np.concatenate([values, padding])
                np.testing.assert_array_equal(values, wanted, err_msg=key)
            num_compared += 1

    assert num_compared == num_windows == len(golden.arrays["unique_id"])


def test_true_answers_survive_the_windows(shared_data, english):
    path = shared_data / "data" / "squad" / "dev-v1.1.json"
    asked = examples_lib.read_examples(path)
    special, limits = english.special_ids, SpanLimits(max_answer_length=384)
    answers = {}
    for question in Questions(asked, english, WindowLengths()).split():
        starts, ends = [], []
        for record in windows.make_records(
            [question], special, is_training=True
        ):
            is_start, is_end = np.zeros((2, len(record["input_ids"])))
            if not record["is_impossible"]:
                is_start[record["start_positions"]] = 1
                is_end[record["end_positions"]] = 1
            starts.append(is_start)
            ends.append(is_end)
        spans = predictions.spans_of_logits(
            question, {"start_logits": starts, "end_logits": ends}, limits
        )
        best = predictions.best_spans(question, spans, limits)
        answers[question.example.guid] = best.text
        start, end = best.characters
        assert question.example.context[start:end] == best.text or start < 0

    wrong = {
        example.guid
        for example in asked
        if not metrics.exact_match(
            answers[example.guid], [a.text for a in example.answers]
        )
    }
    assert len(asked) == 7235
    # "four" of "fourth", and no other annotator's answer.
    assert wrong == {"56dfa1d34a1a83140091ebd4"}
