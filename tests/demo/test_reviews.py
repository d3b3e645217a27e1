import collections

import pytest
from sklearn import feature_extraction, linear_model

from demo import reviews


@pytest.fixture(scope="module")
def parts():
    return reviews.train_and_dev()


def test_parts_have_their_sizes_both_labels_and_no_sentence_twice(parts):
    train, dev = parts
    sentences = [sentence for sentence, _ in train + dev]

    assert (len(train), len(dev)) == (reviews.NUM_TRAIN, reviews.NUM_DEV)
    assert len(set(sentences)) == len(sentences)
    for part in parts:
        counts = collections.Counter(label for _, label in part)
        assert set(counts) == {"positive", "negative"}
        assert min(counts.values()) > 0.4 * len(part)
    assert reviews.train_and_dev() == parts
    assert reviews.train_and_dev(seed=1) != parts


@pytest.mark.parametrize(
    ("longest_run", "low", "high"),
    # Counting words helps and is not enough; runs of words are, so that a
    # model that reads their order can learn the labels.
    [(1, 0.6, 0.9), (3, 0.95, 1.01)],
)
def test_labels_depend_on_the_order_of_words(parts, longest_run, low, high):
    (train, labels), (dev, dev_labels) = (
        zip(*part, strict=True) for part in parts
    )
    words = feature_extraction.text.CountVectorizer(
        ngram_range=(1, longest_run)
    )
    model = linear_model.LogisticRegression(C=100, max_iter=1000)
    model.fit(words.fit_transform(train), labels)

    accuracy = model.score(words.transform(dev), dev_labels)

    assert low < accuracy < high
