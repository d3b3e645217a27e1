"""What pretraining and fine-tuning share before their loop: begin, or resume.

A run begins with random weights, those of a checkpoint, or the state of another
run, and resumes from its own newest checkpoint. What it remembers between two
updates, besides the weights, is a `RunState`.
"""

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf import checks
from albert_tf.checkpoints import (
    compatibility,
    discovery,
    heads,
    load,
    run_checkpoints,
)
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.checkpoints.train_state import Checkpointer
from albert_tf.tasks.task import Task
from albert_tf.training import devices, run_folder
from albert_tf.training import step as step_lib
from albert_tf.training.metric_log import MetricLog
from albert_tf.training.run_config import RunConfig
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.step import TrainStep
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)

_SHARED = "--output_dir must be a folder that all workers share."
# Another machine's new files may be seen later.
_SECONDS_TO_SEE = 30
_SECONDS_BETWEEN = 0.5
# What, beside the records, says which example is read when.
_ORDER_SETTINGS = ("random_seed", "read_order", "num_readers")
# The running level averages about this many steps; jumps are not judged before
# that many were seen.
HORIZON = 50
FIRST_STEPS = 10
# A jump is a loss above the running level by all of: half of the level; this
# many times the mean absolute deviation of single steps, so that small noisy
# batches pass; and one nat, so that one hard example of a nearly solved task
# passes.
RELATIVE_JUMP = 0.5
DEVIATIONS = 8.0
ABSOLUTE_JUMP = 1.0


@dataclasses.dataclass
class DivergenceDetector:
    """Compares the loss of each step with its running level.

    Args:
        first: Mean loss of the first steps.
        mean: Exponential moving average of the loss.
        deviation: Exponential moving average of its distance from `mean`.
        num_steps: Number of steps seen.
    """

    first: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    num_steps: int = 0

    def problem(self, loss: float, *, detects_jumps: bool = True) -> str | None:
        """Describes what is wrong with the loss of the next step, if anything.

        >>> DivergenceDetector().problem(float("nan"))
        'the loss is nan'
        """
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not detects_jumps or self.num_steps < HORIZON:
            return None
        if self.mean > self.first + max(
            ABSOLUTE_JUMP, RELATIVE_JUMP * self.first
        ):
            return (
                f"the running level of the loss, {self.mean:.4g}, is far above "
                f"that of the first steps, {self.first:.4g}"
            )
        margin = max(
            ABSOLUTE_JUMP,
            RELATIVE_JUMP * self.mean,
            DEVIATIONS * self.deviation,
        )
        if loss > self.mean + margin:
            return (
                f"the loss jumped to {loss:.4g} from a running level of "
                f"{self.mean:.4g}"
            )
        return None

    def update(self, loss: float) -> None:
        """Adds the loss of a step that has no problem."""
        self.num_steps += 1
        share = 1 / min(self.num_steps, HORIZON)
        distance = abs(loss - self.mean) if self.num_steps > 1 else 0.0
        self.mean += share * (loss - self.mean)
        if self.num_steps <= FIRST_STEPS:
            self.first = self.mean
        self.deviation += share * (distance - self.deviation)


@dataclasses.dataclass
class RunState:
    """What a run remembers besides weights and optimizer slots.

    Args:
        step: Number of updates done.
        examples_read: Number of training examples read, by the sequence
            length of their records.
        phase: Index of the phase of the last update.
        loss_scale: Scale, and number of steps since it changed; see
            `step.updated_loss_scale`.
        detector: Running level of the loss.
        window: Totals over the steps since the last log line.
        best_score: Best evaluation score so far; None before the first.
        best_loss: Loss of the best evaluation; None if unknown or not finite.
        evaluations_since_best: Number of evaluations since the first one with
            the best score.
        needs_evaluation: Whether the evaluation after the step is not done.
    """

    step: int = 0
    examples_read: dict[str, int] = dataclasses.field(default_factory=dict)
    phase: int = 0
    loss_scale: list[float] = dataclasses.field(
        default_factory=lambda: [step_lib.INITIAL_LOSS_SCALE, 0.0]
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
        """Restores what `dataclasses.asdict` returned."""
        try:
            detector = DivergenceDetector(**values["detector"])
            return cls(**{**values, "detector": detector})
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"The state.json of the newest checkpoint is damaged ({error})."
                " Remove its folder: the run then goes on from the one before."
            ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What the loop trains with, in an output directory that this run holds.

    Args:
        train_step: Computes updates; it has the optimizer.
        checkpointer: Saves them.
        log: Where their losses are written.
        state: That of the weights.
        is_new: Whether the run has no checkpoint yet.
    """

    train_step: TrainStep
    checkpointer: Checkpointer
    log: MetricLog
    state: RunState
    is_new: bool


@contextlib.contextmanager
def resume(
    config: RunConfig,
    *,
    folder: RunFolder,
    task: Task,
    workers: Workers,
    multipliers: Mapping[str, float] | None = None,
    continue_from: str | None = None,
    **load_options: bool,
) -> Iterator[Training]:
    """Prepares the training of a task, or resumes it; locks the directory.

    The weights come from the first of these that exists:
    1. the newest checkpoint in `output_dir`, with optimizer slots, step, data
       position and log window;
    2. `continue_from`: with optimizer slots, step and data position;
    3. `config.init_checkpoint`: weights only;
    4. the random initialization of the model.

    Args:
        config: Settings of the run.
        folder: Its output directory.
        task: Made in the scope of the strategy.
        workers: The processes of the run.
        multipliers: See `TrainStep`.
        continue_from: Output directory of another pretraining, whose weights,
            slots and step this one goes on from.
        **load_options: See `load.load_checkpoint`, for `init_checkpoint`.
    """
    with contextlib.ExitStack() as stack:
        workers.run_in_chief(stack.enter_context, folder.locked())
        # 1. Optimizer.
        train_step = TrainStep(config, task, workers.strategy, multipliers)

        # 2. Weights.
        checkpointer = Checkpointer(
            config.output_dir,
            model=task.model,
            optimizer=train_step.optimizer,
            keep_max=config.keep_checkpoint_max,
            trained=train_step.variables,
            metadata=_with_head(folder.metadata, task.model),
        )
        stack.callback(checkpointer.close)
        latest = checkpointer.latest()
        workers.check_same(
            {"newest checkpoint": run_checkpoints.step_of(latest)}, _SHARED
        )
        if latest:
            state = RunState.from_dict(checkpointer.restore(latest))
            _LOGGER.info("Resuming from %s.", latest)
        elif continue_from:
            state = _continue(
                continue_from, config, checkpointer, folder.fingerprint
            )
        else:
            _initialize(task.model, config.init_checkpoint, **load_options)
            state = RunState()
        workers.check_same_weights(task.model, step=state.step)

        # 3. Claim the directory: only now, so that a checkpoint that cannot be
        # loaded does not leave a directory of a run that never started.
        workers.run_in_chief(folder.claim, config)
        workers.check_same({"run.json": _is_claimed(folder.path)}, _SHARED)

        _LOGGER.info(
            "Training on %s replica(s) of type %s. The first step compiles the "
            "model, which may take a minute.",
            workers.strategy.num_replicas_in_sync,
            devices.device_type(workers.strategy),
        )
        _warn_of_short_runs(config)
        log = MetricLog(
            config.output_dir,
            last_step=state.step if latest else None,
            is_evaluated=not state.needs_evaluation,
            is_writer=workers.is_chief,
        )
        stack.callback(log.close)
        yield Training(
            train_step=train_step,
            checkpointer=checkpointer,
            log=log,
            state=state,
            is_new=latest is None,
        )


def _with_head(known: Metadata, model: keras.Model) -> Metadata:
    """Returns the metadata with the head's name, if it is known."""
    head = heads.of_model(type(model).__name__)
    if known.head or head is None:
        return known
    return dataclasses.replace(known, head=head.name)


def _warn_of_short_runs(config: RunConfig) -> None:
    end_of_warmup = config.start_warmup_step + config.num_warmup_steps
    if config.num_train_steps < end_of_warmup:
        _LOGGER.warning(
            "The training ends within its warm-up: the learning rate never "
            "reaches %g.",
            config.learning_rate,
        )


def _is_claimed(path: str) -> bool:
    """Returns whether the chief's claim is seen here; waits for it a little."""
    deadline = time.monotonic() + _SECONDS_TO_SEE
    while not run_checkpoints.read_fingerprint(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(_SECONDS_BETWEEN)
    return True


def _initialize(
    model: keras.Model, init_checkpoint: str | None, **load_options: bool
) -> None:
    if init_checkpoint:
        load.load_checkpoint(model, init_checkpoint, **load_options)
    else:
        _LOGGER.info(
            "Without --init_checkpoint, all weights are randomly initialised."
        )


def _continue(
    source: str,
    config: RunConfig,
    checkpointer: Checkpointer,
    fingerprint: Mapping[str, Any],
) -> RunState:
    """Sets weights and slots from the newest checkpoint of another run.

    So a pretraining can go over to longer sequences, larger batches or other
    records when that was not planned as a schedule of one run. The step, and
    the examples read of records that are still read in the same order, are
    those of the other run. Other records are read from their start.
    """
    theirs = run_checkpoints.read_fingerprint(source)
    path = run_checkpoints.latest_checkpoint(source)
    if path is None or not theirs or theirs.get("task"):
        raise ValueError(
            f"{source!r} is not the output directory of a pretraining with a "
            "checkpoint. Pass that of one as --continue_from."
        )
    compatibility.check_task(discovery.open(source), checkpointer.metadata)
    different = checks.differences(_learnt(theirs), _learnt(fingerprint))
    if different:
        raise ValueError(
            f"The run of {source!r} cannot go on with other settings of the "
            f"model or the optimizer: {checks.listed(different)}. Pass "
            "--init_checkpoint instead to start from its weights alone."
        )
    state = RunState.from_dict(checkpointer.restore(path))
    if state.step >= config.num_train_steps:
        raise ValueError(
            f"The run of {source!r} has done {state.step} steps, and "
            "--num_train_steps counts them. Pass a larger number. Received: "
            f"num_train_steps={config.num_train_steps}."
        )
    _LOGGER.info("Going on from %s.", path)
    has_same_order = all(
        theirs[name] == fingerprint[name] for name in _ORDER_SETTINGS
    )
    same_records = theirs["records"].items() & fingerprint["records"].items()
    lengths = [length for length, _ in same_records] if has_same_order else []
    return RunState(
        step=state.step,
        examples_read={
            length: num_examples if length in lengths else 0
            for length, num_examples in state.examples_read.items()
        },
        loss_scale=state.loss_scale,
    )


def _learnt(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what must be the same for weights and slots to mean the same."""
    return {
        **run_folder.model_of(fingerprint),
        "optimizer": fingerprint["optimizer"],
        "objectives": fingerprint["objectives"],
    }


def make_deterministic(config: RunConfig) -> None:
    """Makes operations bit-reproducible if `config.deterministic`."""
    if config.deterministic:
        keras.utils.set_random_seed(config.random_seed)
        tf.config.experimental.enable_op_determinism()
