import functools

import numpy as np
import pytest

from albert_tf.metrics import squad

# By the rules of version 2.0.
score_optional = functools.partial(squad.score_answers, are_optional=True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The  Alps", "alps"),
        ("a cat, an owl; the pig!", "cat owl pig"),
        # Articles are words; punctuation goes without leaving a space.
        ("another theme", "another theme"),
        ("U.S.A. the-end", "usa theend"),
        # ASCII only.
        ("“Café”…", "“café”…"),
        ("The.", ""),
    ],
)
def test_case_punctuation_articles_and_spaces_do_not_count(text, wanted):
    assert squad.normalize_answer(text) == wanted


@pytest.mark.parametrize(
    ("prediction", "answer", "expected"),
    [
        ("東京都", "東京", 2 * 2 / (3 + 2)),
        ("ラーメン屋", "ラーメン", 2 * 4 / (5 + 4)),
        ("กรุงเทพ", "กรุงเทพ", 1),
        # Words of other scripts in the same text stay whole.
        ("NHKの朝", "NHK", 2 * 1 / (3 + 1)),
        ("the tall man", "a man", 2 * 1 / (2 + 1)),
        # Korean has spaces.
        ("서울시", "서울", 0),
    ],
)
def test_characters_are_words_in_scripts_without_spaces(
    prediction, answer, expected
):
    assert squad.f1(prediction, [answer]) == pytest.approx(expected)


def test_nothing_left_on_both_sides_is_exact_but_shares_no_word():
    scores = squad.score_answers(["the"], [["a"]])
    assert (scores.f1, scores.exact) == ([0], [1])


@pytest.mark.parametrize(
    ("prediction", "answers", "score"),
    [
        ("", [], 1),
        # No answer where there is one, and an answer where there is none.
        ("", ["cat"], 0),
        ("dog", [], 0),
        # True answers of punctuation do not count.
        ("cat", ["?", "cat"], 1),
        ("", ["?"], 1),
    ],
)
def test_version_2_scores_a_missing_answer(prediction, answers, score):
    scores = score_optional([prediction], [answers])
    assert scores.exact.tolist() == scores.f1.tolist() == [score]


def test_every_point_of_the_curve_is_the_score_below_its_threshold():
    rng = np.random.default_rng(0)
    has_answer = rng.random(60) < 0.5
    scores = np.where(has_answer, rng.random(60), 0)
    odds = rng.integers(0, 30, 60).astype(float)

    curve = squad.threshold_curve(scores, has_answer, odds)

    for threshold, score in curve:
        kept = np.where(odds < threshold, scores, ~has_answer)
        assert score == pytest.approx(100 * kept.mean())
    assert len(curve) == len(set(odds)) + 1


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
    assert squad.segments(text, "zh") == expected


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
    found = squad.f1("的" * 300 + "x", ["y" + "的" * 250], language="zh")

    assert found == pytest.approx(2 * 250 / (301 + 251))


def test_version_2_tells_questions_with_and_without_an_answer_apart():
    scores = score_optional(
        ["cat", "big dog", "", "owl"], [["cat"], ["dog"], [], []]
    )
    has_answer = np.array([True, True, False, False])

    assert squad.summarize(scores, has_answer) == {
        "exact": 50,
        "f1": pytest.approx(100 * (2 + 2 / 3) / 4),
        "HasAns_exact": 50,
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "NoAns_exact": 50,
        "NoAns_f1": 50,
    }


def test_scores_of_a_set_are_percentages():
    scores = squad.score_answers(["cat", "big dog"], [["cat"], ["dog"]])

    # F1 of the second: 2 * (1/2) * 1 / (3/2).
    assert squad.summarize(scores) == {
        "exact_match": 50,
        "f1": pytest.approx(100 * (1 + 2 / 3) / 2),
    }
