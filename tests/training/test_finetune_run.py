"""Parts of one run; whole runs are in test_finetune."""

import types

import pytest
import tensorflow as tf

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
