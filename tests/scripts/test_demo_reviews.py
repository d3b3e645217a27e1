import collections

import pytest
from sklearn import feature_extraction, linear_model

import demo_reviews


@pytest.fixture(scope="module")
def parts():
    return demo_reviews.train_and_dev()


def test_there_are_as_many_reviews_as_promised(parts):
    train, dev = parts

    assert len(train) == demo_reviews.NUM_TRAIN
    assert len(dev) == demo_reviews.NUM_DEV


def test_no_sentence_comes_twice(parts):
    sentences = [review.sentence for part in parts for review in part]

    assert len(set(sentences)) == len(sentences)


def test_neither_label_is_rare(parts):
    for part in parts:
        counts = collections.Counter(review.label for review in part)
        assert set(counts) == {"positive", "negative"}
        assert min(counts.values()) > 0.4 * len(part)


def test_the_same_seed_gives_the_same_reviews(parts):
    assert demo_reviews.train_and_dev() == parts
    assert demo_reviews.train_and_dev(seed=1) != parts


def test_every_word_of_the_evaluation_can_be_learnt(parts):
    train, dev = (
        {word for review in part for word in review.sentence.split()}
        for part in parts
    )

    assert dev <= train


def test_counting_words_helps_and_is_not_enough(parts):
    train, dev = parts
    words = feature_extraction.text.CountVectorizer()
    features = words.fit_transform([review.sentence for review in train])
    model = linear_model.LogisticRegression(max_iter=1000)
    model.fit(features, [review.label for review in train])

    accuracy = model.score(
        words.transform([review.sentence for review in dev]),
        [review.label for review in dev],
    )

    assert 0.6 < accuracy < 0.9


def test_runs_of_words_tell_the_labels_apart(parts):
    # So the labels can be learnt by who reads the order of the words.
    train, dev = parts
    words = feature_extraction.text.CountVectorizer(ngram_range=(1, 3))
    features = words.fit_transform([review.sentence for review in train])
    model = linear_model.LogisticRegression(C=100, max_iter=1000)
    model.fit(features, [review.label for review in train])

    accuracy = model.score(
        words.transform([review.sentence for review in dev]),
        [review.label for review in dev],
    )

    assert accuracy > 0.95


def test_a_table_has_a_header_and_two_columns(parts):
    lines = demo_reviews.to_tsv(parts[1]).splitlines()

    assert lines[0] == "sentence\tlabel"
    assert len(lines) == 1 + demo_reviews.NUM_DEV
    assert {line.count("\t") for line in lines} == {1}
    assert lines[1] == f"{parts[1][0].sentence}\t{parts[1][0].label}"


def test_description_counts_the_labels():
    reviews = [
        demo_reviews.Review(sentence=f"It is {i}.", label=label)
        for i, label in enumerate(["positive", "negative", "positive"])
    ]

    found = demo_reviews.describe(reviews)

    assert found == "3 reviews, 2 positive and 1 negative"
