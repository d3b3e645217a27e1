"""Prepares the training of a run, or resumes it from its saved state."""

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.train_state import Checkpointer
from albert_tf.devices import strategies
from albert_tf.devices.strategies import Workers
from albert_tf.training import run_folder
from albert_tf.training.run_config import RunConfig
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.step import INITIAL_LOSS_SCALE, TrainStep

_LOGGER = logging.getLogger(__name__)

_SHARED = "--output_dir must be a folder that all workers share."
_SECONDS_TO_SEE = 30  # new files of another machine may appear late

# The running level of the loss is a mean over about `HORIZON` steps; the first
# level is the mean of `FIRST_STEPS`. Before `HORIZON` steps, nothing is a jump.
HORIZON = 50
FIRST_STEPS = 10
# A jump exceeds the running level by all of these: a share of the level; a
# multiple of the mean absolute deviation of single steps, so that small noisy
# batches pass; and one nat, so that a hard example of a nearly solved task
# passes.
RELATIVE_JUMP = 0.5
DEVIATIONS = 8.0
ABSOLUTE_JUMP = 1.0


@dataclasses.dataclass
class DivergenceDetector:
    """Compares the loss of each step with the running level of the loss.

    `first` is the mean loss of the first steps, `mean` a moving average of the
    loss, and `deviation` a moving average of its distance from `mean`.
    """

    first: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    num_steps: int = 0

    def problem(self, loss: float, *, detects_jumps: bool = True) -> str | None:
        """Describes what is wrong with the next loss; None if nothing is.

        >>> DivergenceDetector().problem(float("nan"))
        'the loss is nan'
        """
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not detects_jumps or self.num_steps < HORIZON:
            return None
        rise = max(ABSOLUTE_JUMP, RELATIVE_JUMP * self.first)
        if self.mean > self.first + rise:
            return (
                f"the running level of the loss, {self.mean:.4g}, is far above "
                f"the level of the first steps, {self.first:.4g}"
            )
        margin = max(ABSOLUTE_JUMP, RELATIVE_JUMP * self.mean)
        margin = max(margin, DEVIATIONS * self.deviation)
        if loss > self.mean + margin:
            return (
                f"the loss jumped to {loss:.4g} from a running level of "
                f"{self.mean:.4g}"
            )
        return None

    def update(self, loss: float) -> None:
        """Updates the averages with the loss of a step without a problem."""
        self.num_steps += 1
        share = 1 / min(self.num_steps, HORIZON)
        distance = abs(loss - self.mean) if self.num_steps > 1 else 0.0
        self.mean += share * (loss - self.mean)
        if self.num_steps <= FIRST_STEPS:
            self.first = self.mean
        self.deviation += share * (distance - self.deviation)


@dataclasses.dataclass
class RunState:
    """The state of a run besides weights and optimizer slots.

    Args:
        examples_read: Numbers of training examples read, by sequence length.
        phase: Index of the phase of the last update.
        loss_scale: Loss scale, and number of steps since it changed; see
            `step.updated_loss_scale`.
        window: Totals over the steps since the last log line.
        best_score: Best evaluation score so far; None before the first.
        best_loss: Loss of the best evaluation; None if unknown or not finite.
        evaluations_since_best: Evaluations since the first with the best score.
        needs_evaluation: Whether the checkpoint still has to be evaluated.
    """

    step: int = 0
    examples_read: dict[str, int] = dataclasses.field(default_factory=dict)
    phase: int = 0
    loss_scale: list[float] = dataclasses.field(
        default_factory=lambda: [INITIAL_LOSS_SCALE, 0.0]
    )
    detector: DivergenceDetector = dataclasses.field(
        default_factory=DivergenceDetector
    )
    window: dict[str, float] = dataclasses.field(default_factory=dict)
    best_score: float | None = None
    best_loss: float | None = None
    evaluations_since_best: int = 0
    needs_evaluation: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunState":
        """Makes a state of the values that `dataclasses.asdict` returned."""
        detector = DivergenceDetector(**values["detector"])
        return cls(**{**values, "detector": detector})

    def continued(self, lengths: Collection[str]) -> "RunState":
        """Returns the first state of a new run that continues this one.

        Only records of these sequence lengths continue where this run stopped
        reading; others are read from their start.
        """
        read = {n: k for n, k in self.examples_read.items() if n in lengths}
        return RunState(
            step=self.step, examples_read=read, loss_scale=self.loss_scale
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """The parts that the loop needs; `is_new`: there is no checkpoint yet."""

    train_step: TrainStep
    workers: Workers
    checkpointer: Checkpointer
    state: RunState
    is_new: bool


@contextlib.contextmanager
def prepare_training(
    config: RunConfig,
    *,
    folder: RunFolder,
    train_step: TrainStep,
    workers: Workers,
    start: Checkpoint | None = None,
    continue_from: str | None = None,
    **load_options: bool,
) -> Iterator[Training]:
    """Prepares the training of a task, or resumes it; locks the directory.

    It begins with the first of these that exists: the newest checkpoint in
    `output_dir`; the newest checkpoint of `continue_from`; the weights of
    `start`, with the `load_options` of `load.load_checkpoint`; the random
    initialization of the model.
    """
    with contextlib.ExitStack() as stack:
        workers.run_in_chief(stack.enter_context, folder.locked())
        # 1. Weights, and the state of the optimizer.
        model = train_step.task.model
        checkpointer = Checkpointer(
            config.output_dir,
            model=model,
            optimizer=train_step.optimizer,
            keep_max=config.keep_checkpoint_max,
            trained=train_step.variables,
            metadata=folder.metadata,
        )
        stack.callback(checkpointer.close)
        latest = checkpointer.latest()
        newest = run_checkpoints.steps(config.output_dir)[-1:]
        workers.check_same({"newest checkpoint": newest}, _SHARED)
        if latest:
            state = RunState.from_dict(checkpointer.restore(latest))
            _LOGGER.info("Resuming from %s.", latest)
        elif continue_from:
            path, lengths = folder.check_continues(continue_from)
            restored = RunState.from_dict(checkpointer.restore(path))
            if restored.step >= config.num_train_steps:
                raise ValueError(
                    f"The run of {continue_from!r} has done {restored.step} "
                    "steps, and --num_train_steps counts them. Pass a larger "
                    "number."
                )
            state = restored.continued(lengths)
            _LOGGER.info("Going on from %s.", path)
        else:
            state = RunState()
            if start:
                load.load_checkpoint(model, start, **load_options)
            else:
                _LOGGER.info("All weights are randomly initialised.")
        workers.check_same_weights(model, step=state.step)

        # 2. Claim the directory. If a checkpoint cannot be loaded, this is not
        # reached, so that the directory does not look like a run.
        workers.run_in_chief(folder.claim, config)
        workers.check_same({"run.json": _is_claimed(folder.path)}, _SHARED)

        _LOGGER.info(
            "Training on %s replica(s) of type %s. The first step compiles the "
            "model, which may take a minute.",
            workers.strategy.num_replicas_in_sync,
            strategies.device_type(workers.strategy),
        )
        _warn_of_short_runs(config)
        yield Training(
            train_step=train_step,
            workers=workers,
            checkpointer=checkpointer,
            state=state,
            is_new=latest is None,
        )


def _warn_of_short_runs(config: RunConfig) -> None:
    end_of_warmup = config.start_warmup_step + config.num_warmup_steps
    if config.num_train_steps < end_of_warmup:
        _LOGGER.warning(
            "The training ends within its warm-up: the learning rate never "
            "reaches %g.",
            config.learning_rate,
        )


def set_weights(
    model: keras.Model, weights: Checkpoint, workers: Workers
) -> None:
    """Sets the weights that a run evaluates, in all workers."""
    load.load_checkpoint(model, weights)
    workers.check_same_weights(model)
    _LOGGER.info(
        "Using the weights of %s, of step %d.", weights.path, weights.step
    )


def _is_claimed(path: str) -> bool:
    """Waits for the claim of the chief; returns whether it is visible here."""
    deadline = time.monotonic() + _SECONDS_TO_SEE
    while not run_folder.read_fingerprint(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def make_deterministic(config: RunConfig) -> None:
    """Makes operations bit-reproducible if `config.deterministic`."""
    if config.deterministic:
        keras.utils.set_random_seed(config.random_seed)
        tf.config.experimental.enable_op_determinism()
