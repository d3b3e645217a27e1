"""Tiny record files, written with TensorFlow's own messages."""

import dataclasses
import hashlib

import pytest
import tensorflow as tf

from albert_tf.data import pretraining_config, record_files, sidecar
from albert_tf.data.sidecar import BuildCounts
from albert_tf.text.special_tokens import SpecialIds

_CONFIG = pretraining_config.PretrainingDataConfig
_SETTINGS = {field.name for field in dataclasses.fields(_CONFIG)}


@pytest.fixture(scope="session")
def make_sidecar():
    """A function that makes a sidecar, of S = 8 and P = 2 unless changed.

    Its arguments are fields of the sidecar or of its config.
    """

    def make(**changes):
        settings = {"max_seq_length": 8, "max_predictions_per_seq": 2}
        settings |= {n: v for n, v in changes.items() if n in _SETTINGS}
        facts = {
            "config": _CONFIG(**settings),
            "corpus_files": [["corpus.txt", 99]],
            "blocks": [0, 1],
            "tokenizer_hash": "abc",
            "vocab_size": 100,
            "special_ids": SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4),
            "forbidden_ids": [0, 1, 2, 3, 4],
        }
        facts |= {n: v for n, v in changes.items() if n not in _SETTINGS}
        return sidecar.Sidecar(**facts)

    return make


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
def write_records(tmp_path, make_sidecar):
    """A function that writes a record file, and its sidecar if asked.

    Its arguments: file name, records (values by record name), `with_sidecar`,
    and changes of the sidecar. It returns the path.
    """

    def write(name, records, *, with_sidecar=True, **changes):
        path = str(tmp_path / name)
        data = record_files.frame_records([_serialize(r) for r in records])
        (tmp_path / name).write_bytes(data)
        if with_sidecar:
            measured = {
                "counts": BuildCounts(records=len(records)),
                "num_bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            sidecar.write(path, make_sidecar(**measured | changes))
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
