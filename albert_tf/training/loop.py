"""The training loop: updates, log, checkpoints, evaluation.

Data flow: batches -> `step.TrainStep` -> log lines, checkpoints, scores.
Everything the loop remembers between two steps is a `RunState`. It is saved
with the weights, so that a killed run continues exactly where it stopped.

Evaluations use all layers. Before the last phase of a run (only a pretraining
may have several) they are logged, but do not select the best weights.
"""

import bisect
import collections
import contextlib
import dataclasses
import logging
import math
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import auto

from albert_tf.devices import strategies
from albert_tf.metrics.scores import Scores
from albert_tf.tasks.task import Batch
from albert_tf.training import step as step_lib
from albert_tf.training.callbacks import EVALUATION_PREFIX, CallbackList
from albert_tf.training.resume import DivergenceDetector, Training
from albert_tf.training.run_config import Phase, RunConfig

_LOGGER = logging.getLogger(__name__)

# Updates in one call of the graph, by device.
_STEPS_PER_CALL = {"CPU": 1, "GPU": 20, "TPU": 100}
# Totals of a log window that are not logged as means over its updates.
_COUNTED = ("updates", "seconds", "examples", "tokens")
_ADVICE = (
    "Lower --learning_rate or increase --num_warmup_steps, in another "
    "--output_dir."
)


class TrainingDiverged(ValueError):
    """The loss or its gradient is not finite, or the loss has jumped."""


# Takes a phase, and the number of examples already read at its length.
BatchesFrom = Callable[[Phase, int], Iterable[Batch]]


class TrainingLoop:
    """Trains until `num_train_steps`, a stop, or a divergence.

    A signal or a callback stops the training.

    Args:
        observers: The callbacks, which get each log line and each evaluation.
        evaluate: Returns the scores of the weights, at every checkpoint; None
            for no evaluations.
        is_pretraining: Evaluates a new run before its first step, and takes a
            jump of the loss for divergence. The small batches of a fine-tuning
            have jumps by chance.
        patience: Number of evaluations without a better score after which the
            training stops; 0 for no limit.
    """

    def __init__(
        self,
        config: RunConfig,
        training: Training,
        *,
        observers: CallbackList,
        batches_from: BatchesFrom,
        evaluate: Callable[[], Scores] | None = None,
        is_pretraining: bool = False,
        patience: int = 0,
    ) -> None:
        self._config = config
        self._train_step = training.train_step
        self._checkpointer = training.checkpointer
        self._observers = observers
        self._workers = training.workers
        self._batches_from = batches_from
        self._evaluate_model = evaluate
        self._metric = config.best_metric or observers.run.metric
        self._is_pretraining = is_pretraining
        self._patience = patience
        self._phases = config.phases
        self._steps_per_call = (
            config.iterations_per_loop
            or _STEPS_PER_CALL[strategies.device_type(self._workers.strategy)]
        )
        scaled = ["loss_scale"] * (config.precision == "float16")
        self._logged_names = ["learning_rate", "gradient_norm", *scaled]
        # Seconds per step of the latest calls; the first compiles, too.
        self._paces: collections.deque[float] = collections.deque(maxlen=20)
        self._has_signal = False
        self._is_new = training.is_new
        self.state = training.state
        if evaluate is None:
            # Earlier evaluations were of weights that are trained further.
            self.state.best_score = self.state.best_loss = None
            self.state.evaluations_since_best = 0
        self._bar = auto.tqdm(
            total=config.num_train_steps,
            initial=self.state.step,
            unit="step",
            disable=None if sys.stderr else True,  # off without a terminal
            dynamic_ncols=True,
        )

    def run(self) -> bool:
        """Trains; returns whether the run is finished.

        After SIGTERM, Ctrl-C or the request of a callback, a checkpoint is
        saved and the run is not finished.

        Raises:
            KeyboardInterrupt: After a second Ctrl-C, without a checkpoint.
            Exception: Of a callback, after a checkpoint.
            TrainingDiverged: The last good weights are in a checkpoint.
        """
        with self._handle_signals(), self._bar:
            self._observers.begin(
                step=self.state.step,
                is_resumed=not self._is_new,
                is_evaluated=not self.state.needs_evaluation,
            )
            if self._is_new:
                self._start()
            elif self.state.needs_evaluation:
                self._evaluate_checkpoint()
            batches = None
            while True:
                # 1. A finished or stopped run ends, between two updates.
                is_stopped = self._workers.any(self._wants_stop)
                if self._is_finished():
                    break
                if is_stopped:
                    if not self._is_checkpoint_due():
                        self._save()
                    break
                # A failed save ends the run now, not at the next save.
                self._checkpointer.raise_failure()

                # 2. Batches of the phase.
                if self._phase_index() != self.state.phase:
                    self._enter_next_phase()
                    batches = None
                if batches is None:
                    self._log_phase()
                    batches = iter(
                        self._batches_from(self._phase, self._examples_read())
                    )

                # 3. Updates.
                state, num_steps = self.state, self._num_steps_of_call()
                start = time.perf_counter()
                rows, loss_scale = self._train_step.run(
                    batches,
                    tf.constant(state.step, tf.int64),
                    tf.constant(num_steps, tf.int32),
                    tf.constant(state.loss_scale, tf.float32),
                    tf.constant(self._config.random_seed, tf.int64),
                    self._phase.depth,
                )
                values = rows.numpy()  # waits for the device
                seconds = (time.perf_counter() - start) / num_steps
                state.loss_scale = loss_scale.numpy().tolist()
                self._paces.append(seconds)

                # 4. Log, evaluation, checkpoint.
                for row in values:
                    self._add_to_window(row, seconds)
                self._end_call()
            self._workers.run_in_chief(self._checkpointer.wait)
        # A signal may have come while the last checkpoint was written.
        is_stopped = is_stopped or self._workers.any(self._wants_stop)
        self._report_end(is_stopped)
        self._observers.raise_error()
        return not is_stopped

    @property
    def _wants_stop(self) -> bool:
        return self._has_signal or self._observers.wants_stop

    @contextlib.contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Notes SIGTERM and Ctrl-C instead of ending the process."""
        previous = {
            stop: signal.signal(stop, self._note_signal)
            for stop in (signal.SIGTERM, signal.SIGINT)
            # Only the main thread may handle signals. A shell starts jobs in
            # the background with Ctrl-C ignored.
            if threading.current_thread() is threading.main_thread()
            and signal.getsignal(stop) != signal.SIG_IGN
        }
        try:
            yield
        finally:
            for stop, handler in previous.items():
                signal.signal(stop, handler)

    def _note_signal(self, stop: int, _: object) -> None:
        if self._has_signal and stop == signal.SIGINT:
            raise KeyboardInterrupt
        self._has_signal = True
        _LOGGER.warning(
            "Stopping after the current step, with a checkpoint. Ctrl-C ends "
            "the run at once."
        )

    def _start(self) -> None:
        self.state.phase = self._phase_index()
        if self._is_pretraining:
            self._evaluate_and_save_best()
        elif self._config.best_metric and self._evaluate_model:
            # An unknown metric is refused before the first update.
            self._evaluate_model().check_known(self._metric)
        self._save()

    def _report_end(self, is_stopped: bool) -> None:
        if is_stopped:
            _LOGGER.warning(
                "Stopped after step %d; a checkpoint is saved. Run the same "
                "command again to continue.",
                self.state.step,
            )
        elif self._is_at_end():
            _LOGGER.info(
                "Training is finished after %d steps.", self.state.step
            )
        else:
            _LOGGER.info(
                "Stopped early at step %d, after %d evaluations without a "
                "better score. A larger --early_stopping_patience goes on.",
                self.state.step,
                self.state.evaluations_since_best,
            )

    def _is_at_end(self) -> bool:
        return self.state.step >= self._config.num_train_steps

    def _is_finished(self) -> bool:
        stops_early = 0 < self._patience <= self.state.evaluations_since_best
        return self._is_at_end() or stops_early

    def _is_checkpoint_due(self) -> bool:
        interval = self._config.save_checkpoints_steps
        return self._is_finished() or self.state.step % interval == 0

    @property
    def _phase(self) -> Phase:
        return self._phases[self.state.phase]

    def _phase_index(self) -> int:
        starts = [phase.first_step for phase in self._phases]
        return bisect.bisect_right(starts, self.state.step) - 1

    def _enter_next_phase(self) -> None:
        self.state.phase = self._phase_index()
        # Other examples or another depth have another level of the loss.
        self.state.detector = DivergenceDetector()

    def _log_phase(self) -> None:
        if len(self._phases) > 1:
            _LOGGER.info(
                "Phase %s begins after step %d: %s. Evaluations always have "
                "the depth and length of the last phase.",
                f"{self.state.phase + 1} of {len(self._phases)}",
                self._phase.first_step,
                self._phase_fields(),
            )

    def _phase_fields(self) -> dict[str, float]:
        """Returns the values of the phase that not all phases share."""
        return {
            name: value
            for name, value in vars(self._phase).items()
            if name != "first_step"
            and any(getattr(other, name) != value for other in self._phases)
        }

    def _examples_read(self) -> int:
        return self.state.examples_read.get(str(self._phase.max_seq_length), 0)

    def _num_steps_of_call(self) -> int:
        """Returns the number of updates to run before anything else is due."""
        step, config = self.state.step, self._config
        later = [p.first_step for p in self._phases[self.state.phase + 1 :]]
        intervals = (config.log_steps, config.save_checkpoints_steps)
        return min(
            self._steps_per_call,
            *(interval - step % interval for interval in intervals),
            min([*later, config.num_train_steps]) - step,
        )

    def _end_call(self) -> None:
        """Logs the rest of a phase; evaluates and saves when due."""
        state = self.state
        ends_phase = self._is_at_end() or self._phase_index() != state.phase
        if ends_phase and state.window:
            self._write_window()
        if self._is_checkpoint_due():
            state.needs_evaluation = self._evaluate_model is not None
            self._save()
            if state.needs_evaluation:
                self._evaluate_checkpoint()

    def _evaluate_checkpoint(self) -> None:
        """Evaluates the newest checkpoint, which a killed run may have left."""
        state = self.state
        scores = self._evaluate_and_save_best()
        if self._is_finished() and state.window:
            # This evaluation stops the run early.
            self._write_window()
        state.needs_evaluation = False
        values = dataclasses.asdict(state)
        self._write(self._checkpointer.save_evaluated, values, scores)

    def _add_to_window(self, row: np.ndarray, seconds: float) -> None:
        """Checks one step and adds it to the log window; logs when due."""
        state = self.state
        state.examples_read[str(self._phase.max_seq_length)] = (
            self._examples_read() + self._phase.batch_size
        )
        totals = dict(
            zip(self._train_step.result_names, row.tolist(), strict=True)
        )
        values = {name: totals[name] for name in ("examples", "tokens")}
        values["seconds"] = seconds
        is_finite = np.isfinite(totals["gradient_norm"])
        # After an overflow of float16 the update was skipped and the scale
        # halved; the loss of such a step may be NaN and is meaningless.
        if is_finite or totals["loss_scale"] <= step_lib.SMALLEST_LOSS_SCALE:
            scores = self._train_step.task.training_scores(totals)
            self._check(scores["loss"], totals["gradient_norm"])
            logged = {name: totals[name] for name in self._logged_names}
            values |= scores | logged | {"updates": 1.0}
        state.step += 1
        for name, value in values.items():
            state.window[name] = state.window.get(name, 0.0) + value
        if not state.step % self._config.log_steps:
            self._write_window()
        self._bar.update()

    def _write_window(self) -> None:
        window = self.state.window
        line = _window_means(window) | self._phase_fields()
        self.state.window = {}
        self._observers.log(self.state.step, line)
        names = ("loss", "sequences_per_second")
        shown = {name: f"{line[name]:.4g}" for name in names if name in line}
        self._bar.set_postfix(shown)
        if self._bar.disable and self._workers.is_chief:
            text = ", ".join(f"{k} {v}" for k, v in shown.items())
            if paces := [*self._paces][1:]:
                num_left = self._config.num_train_steps - self.state.step
                rest = statistics.median(paces) * num_left
                text += f"; {self._bar.format_interval(rest)} left"
            _LOGGER.info("Step %d: %s", self.state.step, text)

    def _check(self, loss: float, gradient_norm: float) -> None:
        problem = self.state.detector.problem(
            loss, detects_jumps=self._is_pretraining
        )
        if not problem and not np.isfinite(gradient_norm):
            problem = f"the norm of the gradient is {gradient_norm}"
        if problem:
            raise TrainingDiverged(
                f"Training diverged at step {self.state.step + 1}: {problem}. "
                f"The last good checkpoint is {self._checkpointer.latest()!r}. "
                f"{_ADVICE} A pretraining can go on from the checkpoint with "
                "--continue_from and another --random_seed."
            )
        self.state.detector.update(loss)

    def _evaluate_and_save_best(self) -> dict[str, float]:
        if self._evaluate_model is None:
            return {}
        state, metric = self.state, self._metric
        scores = self._evaluate_model()
        values = scores.flat()
        line = {f"{EVALUATION_PREFIX}{k}": v for k, v in values.items()}
        self._observers.log(state.step, line | self._phase_fields())
        if self._workers.is_chief:
            _log_scores(state.step, scores, metric)
        self._observers.evaluated(state.step, scores)
        for name, value in values.items():
            if math.isnan(value):
                raise TrainingDiverged(
                    f"Training diverged before step {state.step}: the "
                    f"evaluation gives {name}=nan. {_ADVICE}"
                )
        scores.check_known(metric)
        if state.phase < len(self._phases) - 1:
            return values
        score, loss = scores[metric], scores.loss
        gain = math.inf
        if state.best_score is not None:
            best = scores.rank(metric, state.best_score)
            gain = scores.rank(metric) - best
        state.evaluations_since_best += 1
        if gain > 0:
            state.evaluations_since_best = 0
        elif gain < 0 or (
            state.best_loss is not None and loss > state.best_loss
        ):
            return values
        state.best_score = score
        state.best_loss = loss if math.isfinite(loss) else None
        self._write(self._checkpointer.save_best, values)
        return values

    def _save(self) -> None:
        self._write(self._checkpointer.save, dataclasses.asdict(self.state))

    def _write(
        self, write: Callable[..., None], *values: Mapping[str, Any]
    ) -> None:
        self._workers.run_in_chief(write, self.state.step, *values)


def _window_means(window: Mapping[str, float]) -> dict[str, float]:
    """Returns the means over a log window, and rates per second."""
    means = {
        name: total / window["updates"]
        for name, total in window.items()
        if name not in _COUNTED
    }
    means["sequences_per_second"] = window["examples"] / window["seconds"]
    means["tokens_per_second"] = window["tokens"] / window["seconds"]
    return means


def _log_scores(step: int, scores: Scores, metric: str) -> None:
    """Logs scores; a score of a single class only if it is the `metric`."""
    shown = ", ".join(
        f"{score.key} {score.value:.4g}"
        for score in scores.entries
        if not score.of or score.key == metric
    )
    _LOGGER.info("Evaluation after step %d: %s", step, shown)
