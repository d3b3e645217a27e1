"""Tiny record files, written with TensorFlow's own messages."""

import hashlib

import pytest
import tensorflow as tf

from albert_tf.data import record_files, sidecar

_FACTS = {
    "masking": "static",
    "max_seq_length": 8,
    "max_predictions_per_seq": 2,
    "num_prediction_slots": 2,
    "pair_objective": "sop",
    "masked_lm_prob": 0.15,
    "ngram": 3,
    "favor_shorter_ngram": True,
    "do_whole_word_mask": True,
    "tokenizer_hash": "abc",
    "vocab_size": 100,
    "special_ids": {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4},
    "forbidden_ids": [0, 1, 2, 3, 4],
    "flags": {},
}


def _serialize(values):
    example = tf.train.Example()
    for name, column in values.items():
        feature = example.features.feature[name]
        if any(isinstance(value, float) for value in column):
            feature.float_list.value.extend(column)
        else:
            feature.int64_list.value.extend(column)
    return example.SerializeToString()


@pytest.fixture
def write_records(tmp_path):
    """A function that writes a record file, and its sidecar if asked.

    Its arguments: file name, records (values by record name), `with_sidecar`,
    and what the sidecar says differently. It returns the path.
    """

    def write(name, records, *, with_sidecar=True, **facts):
        path = str(tmp_path / name)
        data = record_files.frame_records([_serialize(r) for r in records])
        (tmp_path / name).write_bytes(data)
        if with_sidecar:
            measured = {
                "counts": {"records": len(records)},
                "num_bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            values = _FACTS | measured | facts
            sidecar.write(path, sidecar.Sidecar(**values))
        return path

    return write


@pytest.fixture
def static_record():
    """A function that makes record `number`: `[CLS] n [MASK] [SEP] 6 [SEP]`.

    The masked token is 7. S is 8 and P is 2, unless given.
    """

    def make(number, *, max_seq_length=8, num_slots=2):
        def padded(values, length, fill=0):
            return values + [fill] * (length - len(values))

        return {
            "input_ids": padded([2, number, 4, 3, 6, 3], max_seq_length),
            "input_mask": padded([1] * 6, max_seq_length),
            "segment_ids": padded([0] * 4 + [1] * 2, max_seq_length),
            "token_boundary": padded([1] * 6, max_seq_length),
            "masked_lm_positions": padded([2], num_slots),
            "masked_lm_ids": padded([7], num_slots),
            "masked_lm_weights": padded([1.0], num_slots, 0.0),
            "next_sentence_labels": [number % 2],
        }

    return make


@pytest.fixture
def dynamic_record():
    """A function that makes pair `number`: A is `n 11 12`, B is `13 14`."""

    def make(number):
        return {
            "pair_ids": [number, 11, 12, 13, 14],
            "token_boundary": [1, 1, 0, 1, 1],
            "segment_a_length": [3],
            "pair_label": [0],
        }

    return make
