"""Compares a pretraining with a model that only knows token frequencies.

Data flow: masked tokens that are evaluated -> [this file] -> scores, advice.
"""

import logging

import numpy as np
from scipy import special

from albert_tf.data import input_pipeline
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_source import RecordSource
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training.callbacks import Callback
from albert_tf.training.pretrain_config import PretrainingConfig

_LOGGER = logging.getLogger(__name__)

NAME = "frequencies"
_LOSS, _ACCURACY = "masked_lm_loss", "masked_lm_accuracy"
# Fewer have a lower entropy than the text.
_LEAST_TOKENS = 2000
# In nats: a model that uses the context is better by more.
_MARGIN = 0.1
_PAPER_BATCH_SIZE = 4096
_SMALL_BATCH_SIZE = 1024


class SmallBatches(Callback):
    """Says that LAMB's default rate is meant for larger batches."""

    def on_begin(self) -> None:
        """Logs one line."""
        config = self.run.config
        if (
            self.run.is_training
            and isinstance(config, PretrainingConfig)
            and config.optimizer == "lamb"
            and config.learning_rate == OptimizerConfig.learning_rate
            and config.train_batch_size < _SMALL_BATCH_SIZE
        ):
            _LOGGER.info(
                "LAMB's default rate, %g, is meant for batches of %d, not of "
                "%d: recipes/budget.flags has settings for small batches.",
                config.learning_rate,
                _PAPER_BATCH_SIZE,
                config.train_batch_size,
            )


def measure(config: PretrainingConfig, records: RecordSource) -> list[Score]:
    """Returns loss and accuracy of the frequencies of evaluated masked tokens.

    No other prediction that is the same for all tokens has a lower loss. Too
    few tokens have no scores.
    """
    counts = np.zeros(config.albert_config.vocab_size)
    if "mlm" in config.objectives:
        for batch in input_pipeline.evaluation_dataset(
            records,
            InputShard(),
            batch_size=config.eval_batch_size,
            max_steps=config.num_eval_steps,
            by_files=config.read_order == "files",
        ):
            ids = batch["masked_lm_ids"].numpy().ravel()
            weights = batch["masked_lm_weights"].numpy().ravel()
            counts += np.bincount(ids, weights, len(counts))
    if counts.sum() < _LEAST_TOKENS:
        return []
    shares = counts / counts.sum()
    values = {_LOSS: special.entr(shares).sum(), _ACCURACY: shares.max()}
    return [
        Score(f"{key}_{NAME}", float(value), Role.SIMPLE, key)
        for key, value in values.items()
    ]


def verdict(scores: Scores) -> tuple[int, str] | None:
    """Returns a warning, with its level, if a model knows frequencies alone."""
    level = scores.simple.get(_LOSS)
    if level is None or scores[_LOSS] < level - _MARGIN:
        return None
    return logging.WARNING, (
        f"The model has not left the plateau of token frequencies: {_LOSS} "
        f"{scores[_LOSS]:.4g}, against {level:.4g} of frequencies alone. Pass "
        "--flagfile=recipes/budget.flags, or train on texts of 32 tokens "
        "first and continue from there (see docs/troubleshooting.md)."
    )
