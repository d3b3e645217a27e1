import numpy as np
import pytest

from albert_tf.tasks.squad import paragraphs
from albert_tf.tasks.squad.examples import Answer
from albert_tf.text import tokenizer


def encode_paragraph(text, pieces):
    (paragraph,) = paragraphs.encode_paragraphs([text], pieces)
    return paragraph


@pytest.fixture
def encode(words):
    return lambda text: encode_paragraph(text, words)


def test_a_paragraph_has_the_ids_of_its_text(encode, words):
    text = "The  Caf\u00e9 is\n\nopen. "

    found = encode(text)

    assert found.ids.tolist() == words.encode(text)
    assert found.span_text(0, len(found.ids) - 1) == text.strip()


def test_many_paragraphs_are_those_of_one_by_one(encode, words, monkeypatch):
    monkeypatch.setattr(paragraphs, "PARAGRAPHS_PER_CALL", 2)
    texts = ["The cat", "", " sat on the\u0301 ", "mat", "½"]

    found = list(paragraphs.encode_paragraphs(texts, words))

    assert [one.text for one in found] == texts
    for one, alone in zip(found, map(encode, texts), strict=True):
        for name in ("ids", "starts", "ends"):
            assert getattr(one, name).dtype == np.int32
            np.testing.assert_array_equal(
                getattr(one, name), getattr(alone, name)
            )


@pytest.mark.parametrize("answer", ["cat", "sat", "The cat", "mat", "cat sat"])
def test_whole_words_are_found_and_read_back(answer, encode):
    text = "The cat sat on the mat"
    found = encode(text)

    pieces = found.find_pieces(Answer(text=answer, start=text.index(answer)))

    assert found.span_text(*pieces) == answer


def test_white_space_around_an_answer_does_not_count(encode):
    found = encode("The cat  sat.")

    with_spaces = found.find_pieces(Answer(text=" cat  ", start=3))

    assert with_spaces == found.find_pieces(Answer(text="cat", start=4))


def test_part_of_a_piece_finds_the_whole(english):
    found = encode_paragraph("It is golden.", english)

    pieces = found.find_pieces(Answer(text="gold", start=6))

    assert found.span_text(*pieces) == "golden"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("cat", 5),  # other characters are there
        ("cats", 4),
        ("", 4),
        (" ", 3),
    ],
)
def test_an_answer_that_is_not_there_is_not_found(text, start, encode):
    found = encode("The cat sat.")

    assert found.find_pieces(Answer(text=text, start=start)) is None


def test_an_answer_of_nothing_that_became_a_piece_is_not_found(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    chinese = tokenizer.load_tokenizer(vocab_file=tmp_path / "vocab.txt")

    found = encode_paragraph("cat \u200b cat", chinese)

    assert found.ids.tolist() == [5, 5]
    assert found.find_pieces(Answer(text="\u200b", start=4)) is None


def test_an_empty_text_has_no_pieces(encode):
    found = encode("")

    assert len(found.ids) == len(found.starts) == len(found.ends) == 0
    assert found.find_pieces(Answer(text="", start=0)) is None


@pytest.mark.parametrize(
    ("name", "num_other_starts", "num_other_ends"),
    # `½` is three pieces, which we give its character each, and the original
    # the one behind it or none (twice in the same paragraph); the ends are
    # those and pieces behind which an accent of their own stands (`é` in two
    # code points), which we give them.
    [("v1", 0, 2), ("v2", 0, 0), ("edge", 6, 8)],
)
def test_characters_of_pieces_are_the_recorded_ones(
    name, num_other_starts, num_other_ends, recorded
):
    golden = recorded(name)
    starts, ends = [], []
    for number, rows in golden.rows.items():
        question = golden.questions[number]
        paragraph = question.paragraph
        for window, row in zip(question.windows, rows, strict=False):
            own = slice(window.start, window.end)
            found = slice(0, window.size)
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
