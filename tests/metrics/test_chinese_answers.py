import pytest

from albert_tf.metrics import chinese_answers, squad


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("北京大学", ["北", "京", "大", "学"]),
        # CMRC's punctuation goes; other characters stay.
        ("《红楼梦》，曹雪芹。", [*"红楼梦曹雪芹"]),
        ("“A-B”……", ["ab", "…", "…"]),
        ("1990年3.5万人", ["1990", "年", "3.5", "万", "人"]),
        ("The NBA球员 don't", ["the", "nba", "球", "员", "don't"]),
        ("3d打印", ["3d", "打", "印"]),
        ("", []),
    ],
)
def test_chinese_is_divided_into_characters_other_text_into_words(
    text, expected
):
    assert chinese_answers.segments(text) == expected


def test_exact_match_ignores_the_punctuation_of_cmrc():
    exact = squad.exact_match("《红楼梦》", ["红楼梦。"], language="zh")

    assert exact == 1
    assert squad.exact_match("红楼", ["红楼梦"], language="zh") == 0
    # Articles are words of English alone.
    assert squad.exact_match("the 梦", ["梦"], language="zh") == 0


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        # 3 of 5 and 3 of 4 characters in a row.
        ("在北京大学", ["京大学里"], 2 * 3 / (5 + 4)),
        # All are shared, but only 2 in a row.
        ("大学北京", ["北京大学"], 2 * 2 / 8),
        ("北京", ["上海", "北京市"], 2 * 2 / 5),
        ("1990年", ["1990"], 2 * 1 / 3),
    ],
)
def test_f1_is_that_of_the_longest_run_of_characters(
    prediction, answers, expected
):
    found = squad.f1(prediction, answers, language="zh")

    assert found == pytest.approx(expected)
    scores = squad.score_answers([prediction], [answers], language="zh")
    assert scores.f1 == [found]


def test_the_longest_run_is_found_in_long_answers():
    # Frequent characters count, too.
    words, wanted = ["的"] * 300 + ["x"], ["y"] + ["的"] * 250

    assert chinese_answers.overlap(words, wanted) == 250
