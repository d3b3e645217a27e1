"""A head that albert_tf does not know: the number of words of a text."""

import numpy as np

import albert_tf

MOST_WORDS = 20


class WordCount(albert_tf.PooledHead):
    """Counts words, in units of `MOST_WORDS`. Rows have a `text`."""

    name = "word_count"
    num_outputs = 1
    primary_metric = "within_one"

    def label(self, row):
        return [len(row["text"].split()) / MOST_WORDS]

    def answers(self, logits):
        return {"num_words": logits[:, 0] * MOST_WORDS}

    def scores(self, labels, logits):
        errors = np.abs(logits - labels)[:, 0] * MOST_WORDS
        score = albert_tf.Score("within_one", float(np.mean(errors < 1.01)))
        return albert_tf.Scores(entries=(score,))


SPEC = WordCount()
