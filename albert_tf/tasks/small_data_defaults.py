"""Number of updates and learning rate for small data, by number of examples.

Source: measured; docs/own_data.md has the scores of ten tables.
"""

import logging

from albert_tf.settings import SettingValues
from albert_tf.tasks.planning import PlanRequest

_LOGGER = logging.getLogger(__name__)

# A file with fewer questions is not the file of SQuAD or RACE.
FEW_QUESTIONS = 2000
_EPOCHS, _LEAST_STEPS, _MOST_STEPS, _LEAST_EPOCHS = 20, 500, 1000, 3
_WARMUP_PROPORTION = 0.1
# The original's rate, and the width of the model that it suits.
_LEARNING_RATE, _HIDDEN_SIZE = 5e-5, 768


def run_settings(
    num_examples: int, *, train_batch_size: int, hidden_size: int
) -> SettingValues:
    """Returns settings for a number of training examples.

    20 epochs, but from 500 to 1,000 updates, and in any case 3 epochs. The
    rate that suits Adam falls with the width of the model (Yang et al. 2022,
    "Tensor Programs V", table 3).

    >>> run_settings(1000, train_batch_size=32, hidden_size=256)
    {'learning_rate': 0.00015, 'num_train_steps': 625, 'warmup_proportion': 0.1}
    """
    epoch = num_examples / train_batch_size
    steps = min(max(_EPOCHS * epoch, _LEAST_STEPS), _MOST_STEPS)
    return {
        "learning_rate": round(_LEARNING_RATE * _HIDDEN_SIZE / hidden_size, 7),
        "num_train_steps": int(max(steps, _LEAST_EPOCHS * epoch)),
        "warmup_proportion": _WARMUP_PROPORTION,
    }


def plan_step(request: PlanRequest) -> SettingValues:
    """Returns settings for a table, or for few questions in a file."""
    settings, train = request.settings, request.sets.train
    if not train or settings["preset"]:
        return {}
    num_examples = len(train.examples)
    has_file = settings.get("train_file") or "train" in request.rows_in_memory
    is_small = has_file and num_examples < FEW_QUESTIONS
    if not (is_small or request.task_config.is_table):
        return {}
    proposed = run_settings(
        num_examples,
        train_batch_size=settings["train_batch_size"],
        hidden_size=request.albert_config.hidden_size,
    )
    result = request.undecided(proposed)
    if used := [f"--{n}={proposed[n]}" for n in proposed if n in result]:
        _LOGGER.info(
            "For %d examples, by default: %s", num_examples, ", ".join(used)
        )
    return result
