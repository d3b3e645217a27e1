"""Simple models that answer in a moment, to compare a trained model with.

Data flow: texts or words, and their labels -> [this file] -> logits of others.
scikit-learn's models are imported when one is trained.
"""

import functools
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

# Each example: two texts, of which the second may be empty; or its words.
Texts: TypeAlias = Sequence[Sequence[str]]

# Bounds of the time: about 20 seconds of a slow core.
_MOST_TO_ANSWER = 40_000_000
_MOST_CHARACTERS = 8_000_000
# Counted for n-grams of characters: the beginnings of the texts.
_MOST_IN_NGRAMS = 2_000_000
_MOST_WORDS = 150_000
_MOST_LOGITS = 1_000_000
# Up to so many, the exact solution is quick.
_FEW_LOGITS = 40_000
_LEAST_PROBABILITY = 1e-6


class Answers(NamedTuple):
    """Logits of the evaluated texts, and how many texts were trained on."""

    logits: np.ndarray
    num_trained: int


def answer_texts(
    texts: Texts, labels: np.ndarray, num_labels: int, evaluated: Texts
) -> Answers:
    """Trains on TF-IDF of words and characters; returns logits.

    Labels are classes, int `[N]`, with logits `[M, K]`; or 0 and 1 `[N, K]`;
    or numbers, float `[N]`, with logits `[M, 1]`. Classes have a logistic
    regression, numbers a ridge regression. If they are many, only some of the
    texts are trained on.
    """
    from sklearn import feature_extraction, linear_model, pipeline

    size = sum(len(text) for pair in evaluated for text in pair)
    if size > _MOST_TO_ANSWER:
        raise ValueError(f"There are {size:,} characters to answer.")
    rows = _some([sum(map(len, each)) for each in texts], _MOST_CHARACTERS)
    rows = rows[: _MOST_LOGITS // max(1, num_labels)]
    texts, labels = [texts[i] for i in rows], labels[rows]
    end = _MOST_IN_NGRAMS // max(1, len(texts), len(evaluated))
    count = functools.partial(
        feature_extraction.text.TfidfVectorizer, sublinear_tf=True
    )
    features = pipeline.make_union(
        count(ngram_range=(1, 2), token_pattern=r"\w+"),
        count(
            analyzer="char_wb",
            ngram_range=(2, 4),
            preprocessor=lambda text: text[:end].lower(),
        ),
    )
    # A pair without a second text is one text, and no empty one.
    features.fit([*filter(None, itertools.chain(*texts))])
    rows_of = _rows if any(second for _, second in texts) else _first_rows
    trained, others = (rows_of(features, each) for each in (texts, evaluated))
    if not num_labels:
        model = linear_model.Ridge().fit(trained, labels)
        return Answers(model.predict(others).reshape(-1, 1), len(rows))
    is_small = len(rows) * num_labels <= _FEW_LOGITS
    logits = _logits(trained, labels, num_labels, others, is_small)
    return Answers(logits, len(rows))


def answer_words(
    texts: Texts, labels: np.ndarray, num_labels: int, evaluated: Texts
) -> Answers:
    """Trains on words, neighbours, affixes and shapes; returns logits `[W, K]`.

    Labels are classes of all words, one text after another, int `[W]`, or
    negative if they are not known.
    """
    from sklearn import feature_extraction

    sizes = [len(words) for words in texts]
    rows = _some(sizes, _MOST_WORDS)
    starts = np.cumsum([0, *sizes])
    chosen = [labels[starts[i] : starts[i + 1]] for i in rows]
    hasher = feature_extraction.FeatureHasher(2**18, input_type="string")
    trained, others = (
        hasher.transform(itertools.chain(*map(_word_features, each)))
        for each in ([texts[i] for i in rows], evaluated)
    )
    labels = np.concatenate(chosen)
    known = np.flatnonzero(labels >= 0)
    logits = _logits(
        trained[known], labels[known], num_labels, others, is_small=False
    )
    return Answers(logits, len(rows))


def character_rows(*columns: Sequence[str]) -> list[Any]:
    """Returns TF-IDF of the characters of texts, sparse rows of length 1."""
    from scipy import sparse
    from sklearn.feature_extraction import text

    model = text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))
    model.fit([*itertools.chain(*columns)])
    return [sparse.csr_array(model.transform(texts)) for texts in columns]


def _some(sizes: Sequence[int], most: int) -> np.ndarray:
    """Returns random indices, in order, whose sizes add up to `most`."""
    order = np.random.default_rng(0).permutation(len(sizes))
    return order[np.cumsum(np.array(sizes)[order]) <= most]


def _first_rows(features: Any, texts: Texts) -> Any:
    """Returns the features of the first texts."""
    return features.transform([first for first, _ in texts])


def _rows(features: Any, texts: Texts) -> Any:
    """Returns the features of both texts, and of what they share."""
    from scipy import sparse

    columns = zip(*texts, strict=True)
    first, second = (features.transform(column) for column in columns)
    shared = first.multiply(second)
    cosine = sparse.csr_array(shared.sum(axis=1).reshape(-1, 1))
    parts = (first, second, shared, abs(first - second), cosine)
    return sparse.hstack(parts, format="csr")


def _logits(
    trained: Any,
    labels: np.ndarray,
    num_labels: int,
    others: Any,
    is_small: bool,
) -> np.ndarray:
    """Returns the logits of a logistic regression with balanced classes."""
    import threadpoolctl
    from sklearn import linear_model, multiclass

    model: Any = linear_model.LogisticRegression(
        C=10, class_weight="balanced", max_iter=100
    )
    if not is_small:
        model = linear_model.SGDClassifier(
            loss="log_loss",
            alpha=1e-5,
            class_weight="balanced",
            max_iter=10,
            tol=None,
            random_state=0,
        )
    if labels.ndim > 1:
        model = multiclass.OneVsRestClassifier(model)
    # Threads of BLAS take ten times the processor time for such products.
    with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
        # Of labels that all texts have, and of few iterations.
        warnings.simplefilter("ignore")
        model.fit(trained, labels)
    shares = model.predict_proba(others).clip(_LEAST_PROBABILITY)
    if labels.ndim > 1:
        return np.asarray(
            np.log(shares / (1 - shares).clip(_LEAST_PROBABILITY))
        )
    logits = np.full((len(shares), num_labels), np.log(_LEAST_PROBABILITY))
    logits[:, model.classes_] = np.log(shares)
    return logits


def _word_features(words: Sequence[str]) -> Iterator[list[str]]:
    shapes = [_shape(word) for word in words]
    lowered = ["", *map(str.lower, words), ""]
    for i, word in enumerate(words):
        before, low, after = lowered[i : i + 3]
        yield [
            *(
                "bias",
                f"w={low}",
                f"b={before}",
                f"a={after}",
                f"s={shapes[i]}",
            ),
            *(f"p{n}={low[:n]}" for n in (1, 2, 3)),
            *(f"e{n}={low[-n:]}" for n in (1, 2, 3)),
            f"ba={before}|{after}",
            f"bs={shapes[max(0, i - 1)]}|{shapes[i]}",
            f"o={word}",
        ]


def _shape(word: str) -> str:
    """Returns the kinds of characters, each run once.

    >>> _shape("ORD-297x")
    'X-0x'
    """
    kinds = re.sub(r"[^\W\d_]", lambda m: "X" if m[0].isupper() else "x", word)
    return re.sub(r"(.)\1+", r"\1", re.sub(r"\d", "0", kinds))
