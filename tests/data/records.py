"""Tiny records, their sidecars, and what masked rows hold."""

import dataclasses
import types

import numpy as np
import tensorflow as tf
from scipy import stats

from albert_tf.data import graph_masking
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.shards import Shard
from albert_tf.text.vocabulary_file import SpecialIds

# The words of `twelve_documents`.
LETTERS = ("a", "b", "c", "d")
PAD, CLS, SEP, MASK, FIRST_ID, VOCAB_SIZE = 0, 2, 3, 4, 5, 100
SPECIAL_IDS = SpecialIds(pad=PAD, unk=1, cls=CLS, sep=SEP, mask=MASK)
TOKENIZER = types.SimpleNamespace(
    vocab_size=VOCAB_SIZE,
    special_ids=SPECIAL_IDS,
    forbidden_ids=np.arange(FIRST_ID),
)

_SETTINGS = {field.name for field in dataclasses.fields(PretrainingDataConfig)}


def make_shard(path="train", **changes):
    """Makes a shard, of S = 8 and P = 2 unless changed.

    Its arguments are fields of the shard or settings of its build.
    """
    settings = {"max_seq_length": 8, "max_predictions_per_seq": 2}
    settings |= {n: v for n, v in changes.items() if n in _SETTINGS}
    config = PretrainingDataConfig(**settings)
    facts = {
        "config": config.record_settings(),
        "origin": config.origin(),
        "tokenizer_hash": "abc",
        "vocab_size": VOCAB_SIZE,
        "special_ids": SPECIAL_IDS,
        "forbidden_ids": [*range(FIRST_ID)],
        "blocks": [0, 1],
        "part": [0, 1],
    }
    facts |= {n: v for n, v in changes.items() if n not in _SETTINGS}
    return Shard(path=path, **facts)


def static_record(number, *, max_seq_length=8, num_slots=2):
    """Record `number`: `[CLS] n [MASK] [SEP] 6 [SEP]`; the masked token is 7.

    S is 8 and P is 2, unless given.
    """

    def padded(values, length, fill=0):
        return values + [fill] * (length - len(values))

    ids = [CLS, number, MASK, SEP, 6, SEP]
    return {
        "input_ids": padded(ids, max_seq_length),
        "input_mask": padded([1] * 6, max_seq_length),
        "segment_ids": padded([0] * 4 + [1] * 2, max_seq_length),
        "token_boundary": padded([1] * 6, max_seq_length),
        "masked_lm_positions": padded([2], num_slots),
        "masked_lm_ids": padded([7], num_slots),
        "masked_lm_weights": padded([1.0], num_slots, 0.0),
        "next_sentence_labels": [number % 2],
    }


def pair(ids, *, size_a, boundary=None, label=0):
    """A dynamic record; every token starts a word unless given."""
    return {
        "pair_ids": ids,
        "token_boundary": [1] * len(ids) if boundary is None else boundary,
        "segment_a_length": [size_a],
        "pair_label": [label],
    }


def dynamic_record(number):
    """Pair `number`: A is `n 11 12`, B is `13 14`; 12 continues a word."""
    ids = [number, 11, 12, 13, 14]
    return pair(ids, size_a=3, boundary=[1, 1, 0, 1, 1])


def twelve_documents():
    """Returns documents of about 60 characters: 4 sentences of 8 letters."""
    rng = np.random.default_rng(0)
    return [
        "\n".join(" ".join(rng.choice(list(LETTERS), 8)) for _ in range(4))
        for _ in range(12)
    ]


def stack(records):
    """Returns the columns of decoded records of one length."""
    return {name: np.stack([r[name] for r in records]) for name in records[0]}


def assert_equal(batches, others):
    """Compares batches, or records, array by array."""
    for batch, other in zip(batches, others, strict=True):
        assert batch.keys() == other.keys()
        for name in batch:
            np.testing.assert_array_equal(batch[name], other[name])


def serialize(record):
    """Returns a record as TensorFlow's own message writes it."""
    example = tf.train.Example()
    for name, column in record.items():
        feature = example.features.feature[name]
        if any(isinstance(value, float) for value in column):
            feature.float_list.value.extend(column)
        else:
            feature.int64_list.value.extend(column)
    return example.SerializeToString()


def draw(rows, *, indices=None, epoch=0, seed=11, **changes):
    """Draws a batch from pairs; S = 64 and P = 10 unless changed."""
    sizes = {"max_seq_length": 64, "max_predictions_per_seq": 10}
    settings = {"masking": "dynamic"} | sizes | changes
    indices = np.arange(len(rows)) if indices is None else np.array(indices)
    columns = {name: [list(row[name]) for row in rows] for name in rows[0]}
    pairs = {
        name: tf.ragged.constant(columns[name], dtype=tf.int64)
        for name in ("pair_ids", "token_boundary")
    }
    for name in ("segment_a_length", "pair_label"):
        pairs[name] = tf.constant(columns[name], tf.int64)
    batch = graph_masking.draw_batch(
        pairs,
        epochs=tf.constant(np.full(len(rows), epoch), tf.int64),
        indices=tf.constant(indices, tf.int64),
        seed=seed,
        shard=make_shard(**settings),
    )
    return {name: tensor.numpy() for name, tensor in batch.items()}


def places(batch):
    """The masked places: rows and positions."""
    rows, slots = np.nonzero(batch["masked_lm_weights"])
    return rows, batch["masked_lm_positions"][rows, slots]


def restored(batch):
    """The rows with the masked tokens put back."""
    ids = batch["input_ids"].copy()
    ids[places(batch)] = batch["masked_lm_ids"][batch["masked_lm_weights"] == 1]
    return ids


def is_masked(batch):
    masked = np.zeros(batch["input_ids"].shape, bool)
    masked[places(batch)] = True
    return masked


def num_replaced(batch):
    """How many tokens are hidden by [MASK], kept, and replaced by another."""
    shown = batch["input_ids"][places(batch)]
    original = restored(batch)[places(batch)]
    is_mask, is_kept = shown == MASK, shown == original
    return np.array([is_mask.sum(), is_kept.sum(), (~is_mask & ~is_kept).sum()])


def assert_replaced_80_10_10(batch, *, num_allowed):
    """A random one of the allowed tokens may be the original."""
    found, chance = num_replaced(batch), 0.1 / num_allowed
    expected = np.array([0.8, 0.1 + chance, 0.1 - chance]) * found.sum()
    assert stats.chisquare(found, expected).pvalue > 1e-3


def assert_slots_are_filled_in_order(batch):
    """Used slots come first, by position; the others are 0."""
    used, positions = batch["masked_lm_weights"] == 1, "masked_lm_positions"
    assert (used[:, :-1] >= used[:, 1:]).all()
    assert (np.diff(batch[positions], axis=1)[used[:, 1:]] > 0).all()
    for name in (positions, "masked_lm_ids", "masked_lm_weights"):
        assert not batch[name][~used].any()
