"""Callbacks: they observe a run, and may stop it.

A run depends on none of them. Standard callbacks write `metrics.jsonl`, events
of TensorBoard, the model card and the report: `registry.CALLBACKS` names them.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import files, registry
from albert_tf.metrics.scores import Score, Scores
from albert_tf.training.run_config import RunConfig

if TYPE_CHECKING:
    from albert_tf.devices.strategies import Workers
    from albert_tf.tasks.task_data import ExampleSet, Outputs, Sets

_LOGGER = logging.getLogger(__name__)

# Prefix of the keys of scores in log lines.
EVALUATION_PREFIX = "eval_"
# Key of `eval_results.json`: the scores of each of several seeds.
SEEDS = "seeds"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A run that callbacks observe.

    Args:
        config: Settings of the run; `config.output_dir` is its directory.
        title: Title of the run, such as "Fine-tuning: cola".
        metric: Key of the primary metric, which selects the best weights.
        is_training: Whether the run trains.
        step: Number of updates done when the run begins.
        is_resumed: Whether the run continues from one of its checkpoints.
        is_evaluated: Whether the evaluation of this checkpoint is done.
        sets: The examples of a fine-tuning; None for a pretraining.
    """

    config: RunConfig
    title: str
    metric: str
    is_training: bool = False
    step: int = 0
    is_resumed: bool = False
    is_evaluated: bool = True
    sets: "Sets[Any] | None" = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The result of a run.

    Args:
        scores: Scores of the evaluation; with several seeds, the medians.
        output_dir: Output directory of the run.
        weights: Folder of the weights that were evaluated.
        problem: Describes a trained model at chance level; None if it is above.
        evaluation: Facts of the evaluation for metadata and report.
        outputs: Outputs of the model for the first evaluation set, by name.
        by_seed: Scores of each of several seeds.
        failures: Reasons why seeds are left out of the medians, by seed.
        is_current: Whether the files of the directory show this result, or
            still an earlier one, such as the results of all seeds.
        created: Objects that callbacks have created, by name.
    """

    scores: Scores = dataclasses.field(default_factory=Scores)
    output_dir: str = ""
    weights: str = ""
    problem: str | None = None
    evaluation: Mapping[str, Any] | None = None
    outputs: "Outputs" = dataclasses.field(default_factory=dict)
    by_seed: Mapping[int, Scores] = dataclasses.field(default_factory=dict)
    failures: Mapping[int, str] = dataclasses.field(default_factory=dict)
    is_current: bool = True
    created: files.JsonObject = dataclasses.field(default_factory=dict)

    def as_json(self) -> files.JsonObject:
        """Returns the content of `eval_results.json`."""
        results: files.JsonObject = self.scores.flat()
        if self.by_seed:
            results[SEEDS] = {
                str(seed): {"degenerate": 0.0, **scores.flat()}
                for seed, scores in self.by_seed.items()
            }
            results["failed_seeds"] = {
                str(seed): reason for seed, reason in self.failures.items()
            }
        return results


class Callback:
    """Observes a run. Override the methods that you need.

        class Progress(albert_tf.Callback):
            def on_log(self, step, numbers):
                print(step, numbers.get("loss"))

        albert_tf.finetune(..., callbacks=[Progress()])

    `self.run` says which run it is: its `config`, such as
    `self.run.config.output_dir`, its `title`, and the `step` that it begins at.
    Seeds, folds and combinations of listed numbers are runs, one after another;
    with seeds or folds, one more run follows, which summarizes them. Of several
    machines, only the first one, the chief, calls its callbacks.

    If a method raises an error during the training, the run saves a checkpoint,
    stops, and raises the error: the same call resumes it. An error of `on_end`
    is raised after all files are written.
    """

    run: Run
    stop_requested = False

    def on_begin(self) -> None:
        """Called when a run begins, or resumes; nothing is computed yet."""

    def on_log(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Called with each line of `metrics.jsonl`.

        Args:
            step: Number of updates done.
            numbers: Means since the last line, such as `loss`; or the scores of
                an evaluation, whose keys begin with `eval_`.
        """

    def on_evaluation(self, step: int, scores: Scores) -> None:
        """Called with the scores of each evaluation during the training."""

    def additional_scores(
        self, evaluated: "ExampleSet", outputs: "Outputs", scores: Scores
    ) -> Iterable[Score]:
        """Returns scores to add to the evaluation of the best weights.

        All machines call this method.
        """
        return ()

    def on_end(
        self, result: Result | None, error: BaseException | None
    ) -> None:
        """Called when a run has ended.

        Args:
            result: Result of the run; None if it was not finished.
            error: The reason if the run was not finished: `TrainingDiverged`,
                `KeyboardInterrupt` if it was stopped, or another error.
        """

    def stop(self) -> None:
        """Stops the training after the current step, as Ctrl-C does.

        A checkpoint is saved, and `finetune` or `pretrain` raises
        `KeyboardInterrupt`. The same call resumes the run. Any thread may call
        this method.
        """
        self.stop_requested = True


class CallbackList:
    """The callbacks of one run: the standard ones, then the user's.

    As a context manager, it calls `on_end` if the run is stopped or fails.
    """

    def __init__(
        self, run: Run, callbacks: Sequence[Callback], workers: "Workers"
    ) -> None:
        self.run = run
        self._workers = workers
        self._standard: list[Callback] = [
            registry.load(reference)()
            for reference in registry.CALLBACKS.values()
        ]
        self._callbacks = callbacks
        self._has_begun = False
        self._error: Exception | None = None

    def __enter__(self) -> "CallbackList":
        return self

    def __exit__(
        self, _: object, error: BaseException | None, __: object
    ) -> None:
        self.end(None, error or KeyboardInterrupt())

    @property
    def wants_stop(self) -> bool:
        """Whether a callback has asked to stop the run, or has failed."""
        is_requested = any(each.stop_requested for each in self._callbacks)
        return is_requested or self._error is not None

    def raise_error(self) -> None:
        """Raises the first error of a callback, if there is one."""
        if self._error:
            raise self._error

    def begin(self, **progress: Any) -> None:
        """Calls `on_begin`; `progress` replaces fields of `Run`."""
        self._has_begun = True
        run = dataclasses.replace(self.run, **progress)
        for callback in (*self._standard, *self._callbacks):
            callback.run = run
            if self._workers.is_chief:
                callback.on_begin()

    def log(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Calls `on_log` with a line of the log."""
        # Each gets a copy: a callback cannot change the numbers of others.
        self._call(lambda callback: callback.on_log(step, {**numbers}))

    def evaluated(self, step: int, scores: Scores) -> None:
        """Calls `on_evaluation` with scores computed during the training."""
        self._call(lambda callback: callback.on_evaluation(step, scores))

    def _call(self, method: Callable[[Callback], None]) -> None:
        if not self._workers.is_chief:
            return
        for callback in self._standard:
            # Raised at once: the steps after the newest checkpoint, whose
            # lines may be incomplete, are repeated.
            method(callback)
        for callback in self._callbacks:
            self._attempt(method, callback)

    def _attempt(
        self, method: Callable[[Callback], None], callback: Callback
    ) -> None:
        """Calls a method of a callback; keeps the first error for later."""
        try:
            method(callback)
        except Exception as error:
            name = type(callback).__name__
            _LOGGER.error("The callback %s has failed: %r", name, error)
            self._error = self._error or error

    def additional_scores(
        self,
        evaluated: "ExampleSet",
        outputs: "Outputs",
        scores: Scores,
        **start_outputs: Any,
    ) -> list[Score]:
        """Returns baselines of an evaluation, and scores of callbacks."""
        baselines = evaluated.data.baselines(
            evaluated.examples, **start_outputs
        )
        return [
            *(Score.baseline(*row) for row in baselines.items()),
            *(
                score
                for callback in (*self._standard, *self._callbacks)
                for score in callback.additional_scores(
                    evaluated, outputs, scores
                )
            ),
        ]

    def end(
        self, result: Result | None, error: BaseException | None = None
    ) -> None:
        """Calls `on_end`, once.

        If the run has a result, the first error of a callback is raised after
        all callbacks are called.
        """
        if not self._has_begun:
            return
        self._has_begun = False
        if self._workers.is_chief:
            for callback in (*self._standard, *self._callbacks):
                self._attempt(lambda each: each.on_end(result, error), callback)
        if result:
            self.raise_error()
