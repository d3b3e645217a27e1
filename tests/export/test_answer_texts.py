import random

import tensorflow as tf

from albert_tf.export import answer_texts

TEXTS = [
    "  The house. ",
    "",
    "é 漢\u2028字\x1c👩‍👩‍👧 \0 x",
    " \t\n\xa0\u3000 ",
    "a",
]


def cut(texts, starts, ends):
    parts, *places = answer_texts.cut_out(
        tf.constant(texts, tf.string),
        tf.constant(starts, tf.int32),
        tf.constant(ends, tf.int32),
    )
    spans = zip(*(place.numpy().tolist() for place in places), strict=True)
    return [part.decode() for part in parts.numpy()], list(spans)


def test_parts_are_those_that_python_cuts_out_and_strips():
    rng = random.Random(3)
    for _ in range(8):
        bounds = [
            sorted(rng.choices(range(len(text) + 1), k=2)) for text in TEXTS
        ]
        starts, ends = zip(*bounds, strict=True)

        parts, spans = cut(TEXTS, starts, ends)

        for text, start, end, part, span in zip(
            TEXTS, starts, ends, parts, spans, strict=True
        ):
            assert part == text[start:end].strip()
            assert span == (-1, -1) if not part else text[slice(*span)] == part


def test_no_part_where_the_end_is_not_behind_the_start():
    assert cut(["abc", "abc"], [2, 1], [1, 1]) == (["", ""], [(-1, -1)] * 2)


def test_no_texts():
    assert cut([], [], []) == ([], [])
