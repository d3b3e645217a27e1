import numpy as np
import pytest

from albert_tf.tasks.squad import paragraphs, windows
from albert_tf.tasks.squad.windows import Window, WindowLengths


@pytest.mark.parametrize("name", ["doc_stride", "max_query_length"])
def test_lengths_must_be_positive(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
        WindowLengths(**{name: 0})


def test_a_window_must_have_room_for_the_paragraph():
    with pytest.raises(ValueError, match="`max_seq_length` must be greater"):
        WindowLengths(max_seq_length=19, max_query_length=16)

    assert WindowLengths(max_seq_length=20, max_query_length=16)


@pytest.mark.parametrize(
    ("num_pieces", "size", "stride", "wanted"),
    [
        (0, 4, 2, [(0, 0)]),
        (4, 4, 2, [(0, 4)]),
        (5, 4, 2, [(0, 4), (2, 3)]),
        (6, 4, 2, [(0, 4), (2, 4)]),
        (9, 4, 2, [(0, 4), (2, 4), (4, 4), (6, 3)]),
        # A stride beyond the window would leave pieces out.
        (9, 4, 100, [(0, 4), (4, 4), (8, 1)]),
    ],
)
def test_windows_cover_the_paragraph(num_pieces, size, stride, wanted):
    found = windows.split_windows(num_pieces, size=size, stride=stride)

    assert [(window.start, window.size) for window in found] == wanted


def test_a_piece_belongs_where_it_has_most_context():
    # 0 1 2 3 4 5
    #     2 3 4 5 6 7: piece 4 is 1 from the edge, and 2 from it here.
    owners = windows.best_windows(
        8, [Window(start=0, size=6), Window(start=2, size=6)]
    )

    # Piece 3 is 2 and 1 from the edges.
    assert owners.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_of_equal_contexts_the_first_window_is_taken():
    # Pieces 2 and 3 are 1 and 0, or 0 and 1, from the edges.
    same = windows.best_windows(
        5, [Window(start=0, size=4), Window(start=1, size=4)]
    )

    # Piece 2: 1 from both.
    assert same.tolist() == [0, 0, 0, 1, 1]


def test_the_length_of_a_window_counts_a_little():
    # Piece 5 is on the edge of both.
    owners = windows.best_windows(
        6, [Window(start=0, size=6), Window(start=4, size=2)]
    )

    assert owners.tolist() == [0] * 6


def test_every_piece_has_an_owner_that_holds_it():
    found = windows.split_windows(50, size=9, stride=4)

    owners = windows.best_windows(50, found)

    for piece, number in enumerate(owners):
        assert found[number].start <= piece < found[number].end


def test_questions_keep_their_order_and_share_the_paragraph(
    make_example, words
):
    asked = [
        make_example(guid="q1"),
        make_example(guid="q2", question="What is coal?"),
        make_example(guid="q3", context="It is white."),
    ]

    found = list(windows.split_questions(asked, words, WindowLengths()))

    assert [question.example for question in found] == asked
    assert found[0].paragraph is found[1].paragraph
    for question in found:
        assert question.question_ids.tolist() == words.encode(
            question.example.question
        )
        assert question.offset == len(question.question_ids) + 2


def test_a_paragraph_is_encoded_once(make_example, words, monkeypatch):
    encoded = []
    encode = paragraphs.encode_paragraphs
    monkeypatch.setattr(
        paragraphs,
        "encode_paragraphs",
        lambda texts, by: encoded.extend(texts) or encode(texts, by),
    )
    monkeypatch.setattr(windows, "QUESTIONS_PER_CALL", 2)
    asked = [make_example(guid=f"q{i}") for i in range(5)]

    found = list(windows.split_questions(asked, words, WindowLengths()))

    assert len(found) == 5
    assert encoded == [asked[0].context]


def test_a_long_question_loses_its_end(make_example, make_question, words):
    example = make_example(question="snow " * 100)

    found = make_question(example, max_query_length=7)

    assert found.question_ids.tolist() == words.encode(example.question)[:7]


def test_windows_leave_room_for_the_question(make_example, make_question):
    found = make_question(
        make_example(context="snow is white " * 9), max_seq_length=32
    )

    assert len(found.windows) > 1
    for window in found.windows:
        assert found.offset + window.size + 1 <= 32


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
            own = slice(question.offset, question.offset + window.size)
            found[own] = owners[window.start : window.end] == place
            np.testing.assert_array_equal(found, wanted)
            num_compared += 1

    assert num_compared == len(golden.arrays["unique_id"])
