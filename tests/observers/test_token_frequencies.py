"""The level of token frequencies beside a pretraining, and what is said."""

import dataclasses
import logging
import types

import numpy as np
import pytest

from albert_tf.cli import program, run_pretraining
from albert_tf.data import example_codec, input_pipeline, record_source
from albert_tf.data.example_order import InputShard
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.observers import token_frequencies
from albert_tf.training import plan, pretrain
from albert_tf.training.callbacks import Result, Run
from albert_tf.training.pretrain_config import PretrainingConfig
from tests.training import runs


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Paths of records with static and dynamic masks."""
    return {
        masking: runs.build_records(
            tmp_path_factory.mktemp(masking),
            num_documents=12,
            seed=0,
            masking=masking,
        )
        for masking in ("dynamic", "static")
    }


def make_config(path="train", **changes):
    values = {
        "albert_config": runs.config(),
        "output_dir": "run",
        "input_file": path,
        "eval_file": path,
        "do_eval": True,
        "eval_batch_size": 5,
        "max_seq_length": runs.S,
    }
    return PretrainingConfig(**values | changes)


@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_no_constant_answer_is_better_than_the_level(
    masking, records, monkeypatch
):
    monkeypatch.setattr(token_frequencies, "_LEAST_TOKENS", 10)
    config = make_config(records[masking])
    source = record_source.open_records(records[masking])

    found = token_frequencies.measure(config, source)

    labels = np.concatenate(
        [
            batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]
            for batch in input_pipeline.evaluation_dataset(
                source, InputShard(), batch_size=3
            ).as_numpy_iterator()
        ]
    )
    if masking == "static":
        fields = [
            example_codec.decode_example(data)
            for data in source.get(np.arange(source.num_records))
        ]
        own = [f["masked_lm_ids"][f["masked_lm_weights"] > 0] for f in fields]
        assert sorted(labels.tolist()) == sorted(np.concatenate(own).tolist())
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    loss, accuracy = found
    assert loss.key == "masked_lm_loss_frequencies"
    assert loss.value == pytest.approx(-np.sum(shares * np.log(shares)))
    assert accuracy.value == pytest.approx(shares.max())


def test_few_tokens_and_other_objectives_have_no_level(records, monkeypatch):
    source = record_source.open_records(records["static"])
    of_few = token_frequencies.measure(make_config(records["static"]), source)
    monkeypatch.setattr(token_frequencies, "_LEAST_TOKENS", 10)
    of_order = token_frequencies.measure(
        make_config(records["static"], objectives=("sop",)), source
    )

    assert of_few == of_order == []


def scores_of(loss):
    """Scores of a model, where frequencies have a loss of 6.48."""
    key = "masked_lm_loss"
    level = Score(f"{key}_frequencies", 6.48, Role.SIMPLE, key)
    return Scores(entries=(Score(key, loss, Role.LOSS), level))


@pytest.mark.parametrize(
    ("loss", "is_on_plateau"), [(8.95, True), (6.45, True), (6.2, False)]
)
def test_a_run_on_the_plateau_says_what_helps_in_place_of_what_is_next(
    loss, is_on_plateau, monkeypatch, caplog
):
    result = Result(scores=scores_of(loss))
    config = types.SimpleNamespace(do_train=False, do_eval=False)
    following = []
    monkeypatch.setattr(run_pretraining.cli_flags, "given", lambda _: {})
    monkeypatch.setattr(plan, "pretraining", lambda _: config)
    monkeypatch.setattr(pretrain, "run", lambda _: result)
    monkeypatch.setattr(
        program, "say_what_is_next", lambda *given: following.append(given)
    )

    code = run_pretraining.run({})

    assert code == 0
    warnings = [x for x in caplog.records if x.levelno == logging.WARNING]
    assert len(warnings) == is_on_plateau
    assert len(following) == (not is_on_plateau)
    if is_on_plateau:
        text = warnings[0].getMessage()
        assert "has not left the plateau of token frequencies" in text
        assert f"{loss:.4g}, against 6.48" in text
        assert "recipes/budget.flags" in text and "32 tokens" in text
    assert token_frequencies.verdict(Scores()) is None


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({}, True),
        ({"train_batch_size": 2048}, False),
        ({"learning_rate": 1e-4}, False),
        ({"optimizer": "adamw"}, False),
    ],
)
def test_a_rate_for_large_batches_is_said(changes, is_said, caplog):
    caplog.set_level(logging.INFO)
    config = make_config(**{"train_batch_size": 32} | changes)
    callback = token_frequencies.SmallBatches()
    callback.run = Run(
        config=config, title="", metric="masked_lm_loss", is_training=True
    )

    callback.on_begin()
    callback.run = dataclasses.replace(callback.run, is_training=False)
    callback.on_begin()

    assert len(caplog.messages) == is_said
