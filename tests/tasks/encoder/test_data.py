"""Pairs of texts: records, scores beside their baselines, predictions."""

import numpy as np
import pytest

from albert_tf.data import record_columns
from albert_tf.observers import simple_alternative
from albert_tf.tasks.encoder.data import SimilarityData
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.task_data import ExampleSet
from albert_tf.training import record_sets

TEXTS = [
    ("Snow is white.", "Snow is white"),
    ("The boy ran.", "A girl sat by the river."),
    ("It was cold.", "It was"),
]
SCORED = [
    ClassificationExample(guid=str(i), text_a=a, text_b=b, label=score)
    for i, ((a, b), score) in enumerate(
        zip(TEXTS, (5.0, 0.5, 3.0), strict=True)
    )
]
PAIRS = [
    ClassificationExample(guid=str(i), text_a=a, text_b=b, text_c="It rained.")
    for i, (a, b) in enumerate(TEXTS)
]


def make_data(words, has_scores, **changes):
    values = {"max_seq_length": 8, "has_scores": has_scores} | changes
    return SimilarityData(tokenizer=words, **values)


def vectors(*cosines):
    """Outputs whose second vectors have these cosines to the first ones."""
    own = np.array(cosines)
    second = np.stack([own, np.sqrt(1 - own**2)], axis=1)
    first = np.broadcast_to([1.0, 0.0], second.shape)
    # The lengths do not count.
    return {"vectors": np.stack([first * 3, second * 0.5], axis=1)}


def test_a_record_has_each_text_on_its_own_padded_to_the_longest(words):
    data = make_data(words, has_scores=False, num_texts=3)

    record = [*data.records(PAIRS, is_training=True)][1]

    special = words.special_ids
    rows = [
        [special.cls, *words.encode(text)[:6], special.sep]
        for text in (*TEXTS[1], "It rained.")
    ]
    for found, mask, row in zip(
        record["input_ids"], record["input_mask"], rows, strict=True
    ):
        assert found[: len(row)].tolist() == row
        assert {*found[len(row) :]} <= {special.pad}
        assert mask.sum() == len(row)
    assert record["input_ids"].shape == (3, max(map(len, rows)))
    hashes = [
        one["text_hashes"] for one in data.records(PAIRS, is_training=True)
    ]
    # Equal texts have equal ones, and no others.
    assert len({row[2] for row in hashes}) == 1
    assert len({*np.ravel(hashes).tolist()}) == 7


@pytest.mark.parametrize("other", ["the  BOY ran. ", "\uff34he boy ran."])
def test_texts_that_are_one_for_the_model_are_one(other, words):
    data = make_data(words, has_scores=False)
    pairs = [("The boy ran.", "He ran."), ("He ran.", other)]
    pairs = [
        ClassificationExample(guid="", text_a=a, text_b=b) for a, b in pairs
    ]

    records = [*data.records(pairs, is_training=True)]
    scores = data.scores(pairs, {"vectors": np.ones([2, 2, 3])})

    (first, second), (third, fourth) = (r["text_hashes"] for r in records)
    assert first == fourth != second == third
    # Each text has one candidate that is not the text itself.
    assert scores["recall_at_1"] == 1


def test_unknown_texts_differ_and_only_an_empty_one_has_no_hash(words):
    data = make_data(words, has_scores=False)
    texts = ["\u2603", "\u2604", " ", "It was"]
    pairs = [ClassificationExample(guid="", text_a=t) for t in texts]

    records = data.records(pairs, is_training=True)

    snow, comet, *others = (row["text_hashes"].tolist() for row in records)
    assert words.encode(texts[0]) == words.encode(texts[1])
    assert snow != comet
    assert [bool(one) for one, _ in (snow, comet, *others)] == [1, 1, 0, 1]


def test_pairs_of_the_same_texts_are_one_in_any_order(words):
    def columns(pairs, data):
        records = data.records(pairs, is_training=True)
        return record_columns.collect(
            records, data.array_specs, max_seq_length=8
        )

    def pair(*texts):
        names = ("text_a", "text_b", "text_c")
        return ClassificationExample(
            guid="", **dict(zip(names, texts, strict=False))
        )

    triplets = make_data(words, has_scores=False, num_texts=3)
    pairs = make_data(words, has_scores=False)
    [a, b], [c, d], _ = TEXTS
    trained = [pair(a, b, "It rained, it was cold, and it snowed."), pair(c, d)]
    others = [pair(b, a), pair(c, d), pair(a, c)]

    seen = {*triplets.keys_of(columns(trained, triplets))}
    keys = [*pairs.keys_of(columns(others, pairs))]
    folds = record_sets.fold_numbers(
        ExampleSet(examples=trained + others, data=pairs), 3
    )

    assert [key in seen for key in keys] == [True, True, False]
    assert folds[:2].tolist() == folds[2:4].tolist()
    assert {*folds.tolist()} == {0, 1, 2}


def test_correlations_beside_common_words_and_the_start(words):
    data = make_data(words, has_scores=True)

    scores = data.scores(SCORED, vectors(0.9, 0.1, 0.2)).flat()
    baselines = data.baselines(SCORED)
    both = data.baselines(SCORED, vectors(0.1, 0.9, 0.2))

    assert scores["spearman"] == pytest.approx(1)
    of_rows = data.score_of_rows(SCORED, vectors(0.9, 0.1, 0.2), None)
    assert of_rows(np.array([0, 1, 2])) == pytest.approx(1)
    assert of_rows(np.array([0, 0])) == 0
    expected = np.corrcoef([0.9, 0.1, 0.2], [5, 0.5, 3])[0, 1]
    assert scores["pearson"] == pytest.approx(expected)
    # Common words: 1, 1/8, 2/3.
    assert baselines == pytest.approx({"spearman": 1, "word_overlap": 1})
    assert both == pytest.approx(baselines | {"before_training": -1})


def test_recalls_beside_those_of_common_words(words):
    data = make_data(words, has_scores=False)
    outputs = {"vectors": np.eye(3)[[[0, 0], [1, 2], [2, 1]]]}

    scores = data.scores(PAIRS, outputs).flat()
    baselines = data.baselines(PAIRS, outputs)

    # The first is found; of the others, the other text, and not alone.
    assert scores == pytest.approx(
        {
            "mrr_at_10": (1 + 1 / 3 + 1 / 3) / 3,
            "recall_at_1": 1 / 3,
            "recall_at_10": 1,
        }
    )
    of_rows = data.score_of_rows(PAIRS, outputs, None)
    assert of_rows(np.array([0, 0, 1])) == pytest.approx((2 + 1 / 3) / 3)
    assert baselines["mrr_at_10"] == baselines["word_overlap"] == 1
    assert baselines["before_training"] == scores["mrr_at_10"]


def test_the_report_has_the_queries_that_found_another_text(words):
    texts = [("a", "It was"), ("b", "Snow is"), ("c", "A girl"), ("b", "He")]
    pairs = [
        ClassificationExample(guid=str(i), text_a=a, text_b=b)
        for i, (a, b) in enumerate(texts)
    ]
    first = [[1, 0.0], [0, 1], [1, 0], [0, 1]]
    # Nearest to c: It was. Nearest to the first b: its own other text, then a.
    second = [[1, 0.1], [0.5, 1], [-1, 0.9], [0, 1]]
    outputs = {"vectors": np.stack([first, second], axis=1)}

    def rows(data):
        [section] = data.report_sections(pairs, outputs, None)
        return section["title"], section["rows"]

    title, found = rows(make_data(words, has_scores=False))
    _, of_folds = rows(make_data(words, has_scores=False, folds=(0, 1, 2, 1)))

    assert title == "The worst of 1 failed queries"
    assert found == [("2", "4", "c", "A girl", "It was")]
    assert of_folds == []
    assert make_data(words, has_scores=True).report_sections([], {}, None) == []


@pytest.mark.parametrize(
    ("has_scores", "rows", "keys"),
    [
        (True, SCORED, {"spearman_tfidf", "pearson_tfidf"}),
        (
            False,
            PAIRS,
            {"mrr_at_10_tfidf", "recall_at_1_tfidf", "recall_at_10_tfidf"},
        ),
    ],
)
def test_characters_of_words_stand_beside_vectors(
    words, monkeypatch, has_scores, rows, keys
):
    data = make_data(words, has_scores=has_scores)
    evaluated = ExampleSet(examples=rows, data=data)
    outputs = vectors(0.9, 0.8, 0.7)
    scores = data.scores(rows, outputs)
    observer = simple_alternative.SimpleAlternative()

    found = observer.additional_scores(evaluated, outputs, scores)
    monkeypatch.setattr(simple_alternative, "_MOST_PAIRS", 2)
    of_many = observer.additional_scores(evaluated, outputs, scores)

    assert {score.key for score in found} == keys
    assert found[0].value == 1
    assert not of_many
