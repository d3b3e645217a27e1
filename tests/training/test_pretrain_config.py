"""Settings of a pretraining run that are invalid are reported at once."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.training.pretrain_config import PretrainingConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"objectives": ()}, "`objectives` .* mlm, sop, each"),
        ({"objectives": ("mlm", "nsp")}, "objectives=mlm,nsp"),
        ({"objectives": ("sop", "sop")}, "objectives=sop,sop"),
        ({"read_order": "sets"}, "`read_order` must be .*'sets'"),
        (
            {"input_file": "gs://a/b"},
            "Pass --read_order=files, or copy.*input_file='gs://a/b'",
        ),
        (
            {"eval_file": "a,gs://a/b", "do_eval": True},
            "Pass --read_order=files, or copy.*eval_file='a,gs://a/b'",
        ),
        ({"do_train": False}, "There is nothing to do. Pass --do_train"),
        ({"best_metric": "masked_lm_loss"}, "`best_metric` needs evaluations"),
        ({"masked_lm_prob": 0.0}, "`masked_lm_prob` must be"),
        (
            {"length_schedule": "65@0,64@5"},
            "not exceed the 64 position .*max_seq_length=65",
        ),
        (
            {"continue_from": "a", "init_checkpoint": "b"},
            "both name weights to start from",
        ),
        ({"depth_schedule": "6@0"}, "num_hidden_layers=12"),
        (
            {
                "depth_schedule": "6@0,12@5",
                "albert_config": AlbertConfig(
                    vocab_size=9, num_hidden_groups=2
                ),
            },
            "share all their weights.*='all', num_hidden_groups=2",
        ),
        (
            {
                "depth_schedule": "6@0,12@5",
                "albert_config": AlbertConfig(
                    vocab_size=9, parameter_sharing="attention"
                ),
            },
            "share all their weights.*='attention', num_hidden_groups=1",
        ),
    ],
)
def test_an_invalid_setting_is_named(values, message):
    defaults = {
        "albert_config": AlbertConfig(vocab_size=9, max_position_embeddings=64),
        "input_file": "records",
        "max_seq_length": 64,
    }
    with pytest.raises(ValueError, match=message):
        PretrainingConfig(**defaults | values)
