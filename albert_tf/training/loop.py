"""The training loop: steps, log, checkpoints, evaluation, resume.

Data flow: batches -> `step.TrainStep` -> log lines, checkpoints, scores.
What the loop holds between two steps is a `RunState`; it is saved with the
weights, so that a killed run goes on as if it had lived.

Floor: training.
"""

import dataclasses
import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.train_state import Checkpointer
from albert_tf.tasks import task as tasks
from albert_tf.training import divergence, metric_log
from albert_tf.training.run_config import TrainingConfig
from albert_tf.training.step import TrainStep

_LOGGER = logging.getLogger(__name__)

MAX_ROLLBACKS = 10
ROLLBACK_RATE_FACTOR = 0.5
# Totals of a window that the log has no mean of.
_COUNTED = ("updates", "seconds", "examples", "tokens")
# What the progress bar shows.
_SHOWN = ("loss", "sequences_per_second")

Batches = Iterable[tasks.Batch]


class TrainingDiverged(ValueError):
    """The loss is not finite or has jumped; the message says where."""


@dataclasses.dataclass
class RunState:
    """What a run remembers beside weights and slots.

    Args:
        step: Updates done.
        skipped_batches: Batches that rollbacks left out; the data position
            is `step + skipped_batches`.
        learning_rate_multiplier: What rollbacks have made of the learning rate.
        num_rollbacks: How many there were.
        loss_scale: Scale and age, see `loss_scaling`.
        level: Running level of the loss.
        window: Totals over the steps since the last log line.
        best_score: Best evaluation score so far; None before the first.
        evaluations_since_best: How many there were without a better one.
    """

    step: int = 0
    skipped_batches: int = 0
    learning_rate_multiplier: float = 1.0
    num_rollbacks: int = 0
    loss_scale: list[float] = dataclasses.field(
        default_factory=divergence.initial
    )
    level: divergence.LossLevel = dataclasses.field(
        default_factory=divergence.LossLevel
    )
    window: dict[str, float] = dataclasses.field(default_factory=dict)
    best_score: float | None = None
    evaluations_since_best: int = 0

    @property
    def data_position(self) -> int:
        """Global batches taken from the stream of examples."""
        return self.step + self.skipped_batches

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunState":
        """Reads back what `dataclasses.asdict` made."""
        level = divergence.LossLevel(**values["level"])
        return cls(**{**values, "level": level})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop calls; each is the affair of the caller.

    Args:
        batches: From a data position, gives the batches that follow.
        training_scores: The task's, from the sums of a step to log values.
        evaluate: Scores of the model as it is; None not to evaluate.
        best_key: Which score the best checkpoint is chosen by.
        bar_key: Score that keeps an evaluation from being the best, and from
            counting against the patience before there is a best one; "" for
            none.
        evaluates_start: Whether a run that starts is evaluated first.
        patience: Evaluations without a better score after which the run is
            finished; 0 for any number.
        on_checkpoint: Called with the step before a checkpoint is written,
            after the evaluation; may raise to end the run without it.
        checks_jumps: Whether a jump of the loss is a divergence. Small
            batches jump: one hard example of a task that is all but learnt.
        any_worker: Whether something is true of any worker; all of them ask
            at the same steps.
    """

    batches: Callable[[int], Batches]
    training_scores: Callable[[Mapping[str, float]], dict[str, float]]
    evaluate: Callable[[], dict[str, float]] | None = None
    best_key: str = ""
    bar_key: str = ""
    evaluates_start: bool = True
    patience: int = 0
    on_checkpoint: Callable[[int], None] | None = None
    checks_jumps: bool = True
    any_worker: Callable[[bool], bool] = bool


class TrainingLoop:
    """Trains until `num_train_steps`, a signal, or a divergence.

    Args:
        config: Settings of the run.
        train_step: Runs updates.
        checkpointer: Writes and reads checkpoints.
        log: Takes the log lines.
        hooks: Data, scores.
        steps_per_loop: Updates in one call of the graph at most.
        is_chief: Whether this process writes checkpoints.
    """

    def __init__(
        self,
        config: TrainingConfig,
        *,
        train_step: TrainStep,
        checkpointer: Checkpointer,
        log: metric_log.MetricLog,
        hooks: Hooks,
        steps_per_loop: int = 1,
        is_chief: bool = True,
    ) -> None:
        self._config = config
        self._train_step = train_step
        self._checkpointer = checkpointer
        self._log = log
        self._hooks = hooks
        self._steps_per_loop = steps_per_loop
        self._is_chief = is_chief
        self._logged_names = ["learning_rate", "gradient_norm"]
        if config.precision == "float16":
            self._logged_names.append("loss_scale")
        self._is_told_to_stop = False
        self.state = RunState()

    def run(self, state: RunState | None) -> bool:
        """Trains from `state` on; returns whether the run is finished.

        It is not when SIGTERM came: then a checkpoint has been written.

        Args:
            state: Of the checkpoint that was restored; None for a run that
                starts, which is evaluated and saved first.

        Raises:
            TrainingDiverged: As `--on_divergence` wants it, or after
                `MAX_ROLLBACKS`.
        """
        previous = signal.signal(signal.SIGTERM, self._on_signal)
        try:
            if state is None:
                if self._hooks.evaluates_start:
                    self._evaluate()
                self._save()
            else:
                self.state = state
            bar = metric_log.progress_bar(
                total=self._config.num_train_steps, done=self.state.step
            )
            with bar:
                self._train(bar)
        finally:
            signal.signal(signal.SIGTERM, previous)
        return self._is_finished()

    def _on_signal(self, *_: Any) -> None:
        self._is_told_to_stop = True

    def _is_finished(self) -> bool:
        is_at_end = self.state.step >= self._config.num_train_steps
        return is_at_end or self._has_lost_patience()

    def _has_lost_patience(self) -> bool:
        patience = self._hooks.patience
        return 0 < patience <= self.state.evaluations_since_best

    def _is_checkpoint_due(self) -> bool:
        interval = self._config.save_checkpoints_steps
        return self._is_finished() or self.state.step % interval == 0

    def _train(self, bar: Any) -> None:
        batches = self._open_batches()
        while not self._is_finished():
            if self._hooks.any_worker(self._is_told_to_stop):
                self._stop()
                return
            try:
                self._run_chunk(batches, bar)
            except TrainingDiverged as problem:
                self._roll_back(problem)
                bar.n = self.state.step
                batches = self._open_batches()

    def _stop(self) -> None:
        if not self._is_checkpoint_due():
            self._save()
        _LOGGER.warning(
            "Stopped by a signal after step %d; a checkpoint is written. Run "
            "the same command to go on.",
            self.state.step,
        )

    def _open_batches(self) -> Iterator[tasks.Batch]:
        return iter(self._hooks.batches(self.state.data_position))

    def _run_chunk(self, batches: Iterator[tasks.Batch], bar: Any) -> None:
        """Runs updates up to the next log line, checkpoint or loop's end."""
        state, config = self.state, self._config
        count = min(
            self._steps_per_loop,
            config.log_steps - state.step % config.log_steps,
            config.save_checkpoints_steps
            - state.step % config.save_checkpoints_steps,
            config.num_train_steps - state.step,
        )
        start = time.perf_counter()
        rows, loss_scale = self._train_step.run(
            batches,
            tf.constant(state.step, tf.int64),
            tf.constant(count, tf.int32),
            tf.constant(state.learning_rate_multiplier, tf.float32),
            tf.constant(state.loss_scale, tf.float32),
        )
        values = rows.numpy()  # waits for the device
        seconds = (time.perf_counter() - start) / count
        state.loss_scale = loss_scale.numpy().tolist()
        for row in values:
            self._take_in(row, seconds, bar)
        if self._is_checkpoint_due():
            self._evaluate()
            if self._hooks.on_checkpoint:
                self._hooks.on_checkpoint(state.step)
            self._save()

    def _take_in(self, row: np.ndarray, seconds: float, bar: Any) -> None:
        """Checks and adds up one step; writes a log line when it is due."""
        state = self.state
        sums = dict(
            zip(self._train_step.result_names, row.tolist(), strict=True)
        )
        values = {name: sums[name] for name in ("examples", "tokens")}
        values["seconds"] = seconds
        is_finite = np.isfinite(sums["gradient_norm"])
        # An overflow of float16 has been answered: the update was skipped, and
        # the scale is halved. Its loss may be nan, and says nothing.
        if is_finite or sums["loss_scale"] <= divergence.SMALLEST_SCALE:
            scores = self._hooks.training_scores(sums)
            self._check(scores["loss"], sums["gradient_norm"])
            logged = {name: sums[name] for name in self._logged_names}
            values |= scores | logged | {"updates": 1.0}
        state.step += 1
        for name, value in values.items():
            state.window[name] = state.window.get(name, 0.0) + value
        if self._is_finished() or not state.step % self._config.log_steps:
            line = _log_line(state.window)
            state.window = {}
            self._log.write(state.step, line)
            self._show(line, bar)
        bar.update()

    def _show(self, line: Mapping[str, float], bar: Any) -> None:
        shown = {k: f"{line[k]:.4g}" for k in _SHOWN if k in line}
        bar.set_postfix(shown)
        if bar.disable and self._is_chief:
            facts = ", ".join(f"{k} {v}" for k, v in shown.items())
            _LOGGER.info("Step %d: %s", self.state.step, facts)

    def _check(self, loss: float, gradient_norm: float) -> None:
        problem = self.state.level.problem(
            loss, checks_jumps=self._hooks.checks_jumps
        )
        if not problem and not np.isfinite(gradient_norm):
            problem = f"the norm of the gradient is {gradient_norm}"
        if problem:
            more = "or pass --on_divergence=rollback"
            if self._config.on_divergence == "rollback":
                more = f"since {self.state.num_rollbacks} rollbacks did not do"
            raise TrainingDiverged(
                f"Training diverged at step {self.state.step + 1}, batch "
                f"{self.state.data_position}: {problem}. The last good "
                f"checkpoint is {self._checkpointer.latest()!r}. Lower "
                f"--learning_rate, lengthen --num_warmup_steps, {more}."
            )
        self.state.level.update(loss)

    def _roll_back(self, problem: TrainingDiverged) -> None:
        """Goes back to the last checkpoint, past the batches since then."""
        bad = self.state
        path = self._checkpointer.latest()
        if (
            self._config.on_divergence == "stop"
            or path is None
            or bad.num_rollbacks >= MAX_ROLLBACKS
        ):
            raise problem
        state = RunState.from_dict(self._checkpointer.restore(path))
        state.skipped_batches = bad.data_position + 1 - state.step
        state.learning_rate_multiplier = (
            bad.learning_rate_multiplier * ROLLBACK_RATE_FACTOR
        )
        state.num_rollbacks = bad.num_rollbacks + 1
        self.state = state
        self._log.rewind(state.step)
        incident = {
            "event": "rollback",
            "problem": str(problem).split(". ")[0],
            "skipped_batches": state.skipped_batches,
            "learning_rate_multiplier": state.learning_rate_multiplier,
        }
        self._log.write(state.step, incident)
        _LOGGER.warning("Back to step %d: %s", state.step, incident)
        # So that a kill right now does not bring the skipped batches back.
        if self._is_chief:
            self._checkpointer.replace_state(
                state.step, dataclasses.asdict(state)
            )

    def _evaluate(self) -> None:
        if self._hooks.evaluate is None:
            return
        scores = self._hooks.evaluate()
        self._log.write(
            self.state.step, {f"eval_{k}": v for k, v in scores.items()}
        )
        score = scores[self._hooks.best_key]
        best = self.state.best_score
        if scores.get(self._hooks.bar_key):
            self.state.evaluations_since_best += best is not None
            return
        self.state.evaluations_since_best += 1
        if best is None or score > best:
            self.state.best_score = score
            self.state.evaluations_since_best = 0
            if self._is_chief:
                self._checkpointer.save_best(
                    self.state.step, {"step": self.state.step, **scores}
                )

    def _save(self) -> None:
        if self._is_chief:
            self._checkpointer.save(
                self.state.step, dataclasses.asdict(self.state)
            )


def _log_line(window: Mapping[str, float]) -> dict[str, float]:
    """Means over the updates of a window; rates from the time it took."""
    seconds = window["seconds"]
    line = {
        name: value / window["updates"]
        for name, value in window.items()
        if name not in _COUNTED
    }
    return line | {
        "sequences_per_second": window["examples"] / seconds,
        "tokens_per_second": window["tokens"] / seconds,
    }
