"""Parts of one run; whole runs are in test_finetune."""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import record_columns
from albert_tf.training import finetune_run


@pytest.mark.parametrize(
    ("jit_compile", "length", "expected"),
    [(False, 50, 16), (True, 50, 64), (True, 512, 64)],
)
def test_batches_are_padded_to_buckets(jit_compile, length, expected):
    job = types.SimpleNamespace(
        finetuning=types.SimpleNamespace(max_seq_length=length),
        training=types.SimpleNamespace(jit_compile=jit_compile),
    )

    padding = finetune_run.padding_for(job, tf.distribute.get_strategy())

    assert padding.bucket_width == expected
    assert padding.max_seq_length == length


def test_on_a_tpu_all_batches_have_one_length(monkeypatch):
    monkeypatch.setattr(
        finetune_run.distribution, "device_type", lambda _: "TPU"
    )
    job = types.SimpleNamespace(
        finetuning=types.SimpleNamespace(max_seq_length=50),
        training=types.SimpleNamespace(jit_compile=False),
    )

    padding = finetune_run.padding_for(job, tf.distribute.get_strategy())

    assert padding.static_length == 50


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0, 1] * 8, True), ([1] * 16, False), ([0, 1] * 7, False)],
)
def test_only_large_sets_of_several_labels_are_judged(
    labels, expected, word_data
):
    specs = word_data.array_specs
    columns = record_columns.collect(
        (
            {
                "input_ids": np.ones(3),
                "input_mask": np.ones(3),
                "segment_ids": np.ones(3),
                "label_ids": np.array(label),
            }
            for label in labels
        ),
        specs,
        max_seq_length=3,
    )
    records = types.SimpleNamespace(columns=columns)

    assert finetune_run._can_be_judged(records) == expected


def test_a_set_without_labels_is_judged(word_data):
    specs = word_data.array_specs[:1]
    columns = record_columns.collect(
        ({"input_ids": np.ones(3)} for _ in range(16)), specs, max_seq_length=3
    )

    assert finetune_run._can_be_judged(types.SimpleNamespace(columns=columns))
