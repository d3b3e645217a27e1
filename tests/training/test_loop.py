"""The loop on a task that trains in milliseconds."""

import os
import signal
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import run_checkpoints, tf1, train_state
from albert_tf.devices.strategies import Workers
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.observers import metric_log
from albert_tf.training import loop, resume
from albert_tf.training.callbacks import Callback, CallbackList
from albert_tf.training.callbacks import Run as ObservedRun
from albert_tf.training.pretrain_config import PretrainingConfig
from albert_tf.training.resume import RunState
from albert_tf.training.run_config import RunConfig
from tests.training import runs

SIZE, FEATURES = 4, 8
BAD_WEIGHT = np.inf  # gives inf / inf


class Killed(BaseException):
    """Stands for a kill: nothing in the loop may handle it."""


class Acts(Callback):
    """Does something after a line of the log is written, at a step."""

    def __init__(self, *, at_step=None, action=None):
        self._at_step, self._action = at_step, action

    def on_log(self, step, numbers):
        if step == self._at_step:
            self._action()


def kill():
    raise Killed


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def make_examples(num_batches, changes):
    """Global batches; `changes` by batch: factors of weights and inputs."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(num_batches, SIZE, FEATURES)).astype("float32")
    weights = np.ones((num_batches, SIZE), "float32")
    labels = (inputs[..., 0] > 0).astype("int32")
    for batch, (weight, factor) in changes.items():
        weights[batch] *= weight
        inputs[batch] *= factor
    return {"inputs": inputs, "label_ids": labels, "weights": weights}


class Run:
    """A run in a directory; made again, it resumes. Also batches, scores.

    Args:
        trainer: Holds config, task, optimizer and step.
        changes: See `make_examples`.
        scores: What evaluations return, by step: the accuracy, or it and the
            loss.
        in_evaluation_of: A step; `action` is done in its evaluation.
        acts: Arguments of `Acts`.
    """

    def __init__(
        self,
        trainer,
        *,
        changes=None,
        scores=None,
        patience=0,
        like_pretraining=True,
        in_evaluation_of=None,
        **acts,
    ):
        self.acts_in_evaluation_of = in_evaluation_of
        self.action = acts.get("action")
        self.folder = trainer.config.output_dir
        os.makedirs(self.folder, exist_ok=True)
        self.task = trainer.task
        self.examples = make_examples(200, changes or {})
        self.positions = []
        self.workers = Workers(tf.distribute.get_strategy())
        self.scores = scores
        checkpointer = train_state.Checkpointer(
            self.folder,
            model=trainer.task.model,
            optimizer=trainer.optimizer,
            trained=trainer.task.model.trainable_variables,
            keep_max=trainer.config.keep_checkpoint_max,
        )
        path = checkpointer.latest()
        self.start = path and RunState.from_dict(checkpointer.restore(path))
        observed = ObservedRun(
            config=trainer.config,
            title="A run",
            metric="accuracy",
            is_training=True,
        )
        self.loop = loop.TrainingLoop(
            trainer.config,
            resume.Training(
                train_step=trainer.step,
                workers=self.workers,
                checkpointer=checkpointer,
                state=self.start or RunState(),
                is_new=self.start is None,
            ),
            observers=CallbackList(observed, [Acts(**acts)], self.workers),
            batches_from=self.starting_at,
            evaluate=self.evaluate if scores else None,
            is_pretraining=like_pretraining,
            patience=patience,
        )

    def starting_at(self, phase, num_examples):
        position = num_examples // phase.batch_size
        self.positions.append(position)
        rest = {name: v[position:] for name, v in self.examples.items()}
        return tf.data.Dataset.from_tensor_slices(rest)

    def evaluate(self):
        if self.loop.state.step == self.acts_in_evaluation_of:
            self.action()
        found = self.scores[self.loop.state.step]
        accuracy, loss = found if isinstance(found, tuple) else (found, None)
        of_loss = [] if loss is None else [Score("loss", loss, Role.LOSS)]
        return Scores(entries=(Score("accuracy", accuracy), *of_loss))

    def go(self):
        return self.loop.run()

    def weights(self):
        return [
            keras.ops.convert_to_numpy(variable)
            for variable in self.task.model.trainable_variables
        ]

    def checkpoints(self):
        return sorted(os.listdir(os.path.join(self.folder, "checkpoints")))

    def stored(self, *names):
        """The arrays of a checkpoint."""
        prefix = run_checkpoints.MODEL_PREFIX
        return tf1.read(os.path.join(self.folder, *names, prefix))


@pytest.fixture
def run(tmp_path):
    """A function that makes a run in the directory of that name."""
    arguments = {"changes", "scores", "patience", "like_pretraining"}
    arguments |= {"at_step", "action", "in_evaluation_of"}

    def make(name, **options):
        own = {k: options.pop(k) for k in arguments & set(options)}
        settings = {
            "train_batch_size": SIZE,
            "num_train_steps": 12,
            "save_checkpoints_steps": 5,
            "log_steps": 4,
            "output_dir": str(tmp_path / name),
        }
        kind = RunConfig
        if "depth_schedule" in options:
            kind, settings["input_file"] = PretrainingConfig, "unused"
            settings["max_seq_length"] = runs.S
        config = runs.run_config(kind, **settings | options)
        return Run(runs.Trainer(config, task=runs.OrderTask()), **own)

    return make


def assert_same_weights(one, other):
    for a, b in zip(one.weights(), other.weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def assert_same_run(one, other):
    assert runs.lines_of(one.folder) == runs.lines_of(other.folder)
    assert_same_weights(one, other)
    assert one.loop.state.best_score == other.loop.state.best_score


def test_a_run_logs_every_window_and_finishes(run, caplog):
    caplog.set_level("INFO")
    whole = run("whole")

    assert whole.go()

    lines = runs.lines_of(whole.folder)
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert set(lines[0]) == {"step", "loss", "learning_rate", "gradient_norm"}
    assert whole.checkpoints() == [
        f"step-{step:08d}" for step in (0, 5, 10, 12)
    ]
    for line in metric_log.read_lines(whole.folder):
        # The task counts 3 tokens an example.
        assert line["sequences_per_second"] > 0
        assert line["tokens_per_second"] == pytest.approx(
            3 * line["sequences_per_second"]
        )
    # Without a terminal, the lines are logged.
    assert "Step 12: loss " in caplog.text

    # A finished run trains no more.
    again = run("whole")
    assert again.go()
    assert_same_run(again, whole)


def test_the_time_left_does_not_count_the_first_call_which_compiles(
    run, caplog, monkeypatch
):
    caplog.set_level("INFO")
    job, clock = run("run", log_steps=1, num_train_steps=32), [0.0]
    step, first = job.loop._train_step, [60.0]
    take_steps = step.run

    def train(*arguments):
        # A minute at first, then 2 seconds each.
        clock[0] += first.pop() if first else 2.0
        return take_steps(*arguments)

    monkeypatch.setattr(step, "run", train)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    assert job.go()

    lines = [one for one in caplog.messages if one.startswith("Step ")]
    assert "left" not in lines[0]
    assert lines[1].endswith("; 01:00 left")
    assert lines[-1].endswith("; 00:00 left")


def test_a_line_holds_the_means_of_its_window(run):
    each, windows = run("each", log_steps=1), run("windows", log_steps=5)
    each.go()
    windows.go()

    losses = [line["loss"] for line in runs.lines_of(each.folder)]
    means = [line["loss"] for line in runs.lines_of(windows.folder)]
    wanted = [np.mean(part) for part in (losses[:5], losses[5:10], losses[10:])]
    assert means == pytest.approx(wanted)


def test_several_steps_a_call_give_the_same_as_one(run):
    one, several = run("one"), run("several", iterations_per_loop=4)
    one.go()
    several.go()

    assert_same_run(one, several)


SIGNALS = (signal.SIGTERM, signal.SIGINT)
SCORES = {0: 0.1, 5: 0.7, 10: 0.5, 12: 0.6}


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture
def whole(run, whole_folder):
    """A run with evaluations that nothing has stopped; trained once."""
    finished = run("whole", scores=SCORES, output_dir=str(whole_folder))
    finished.go()
    return finished


@pytest.mark.parametrize("killed_at", [0, 5, 8, 12])
def test_a_killed_run_resumes_as_if_it_had_lived(killed_at, run, whole):
    # The window of steps 5 to 8 straddles the checkpoint of step 5. A run
    # that is killed before the first checkpoint is not evaluated twice.
    killed = run("killed", scores=SCORES, at_step=killed_at, action=kill)
    with pytest.raises(Killed):
        killed.go()

    resumed = run("killed", scores=SCORES)

    assert resumed.go()
    assert_same_run(resumed, whole)


@pytest.mark.parametrize("step", [5, 12])
def test_a_run_killed_in_an_evaluation_begins_with_it(step, run, whole):
    def kill_when_it_is_saved():
        while killed.checkpoints()[-1] != f"step-{step:08d}":
            time.sleep(0.01)
        raise Killed

    killed = run(
        "killed",
        scores=SCORES,
        in_evaluation_of=step,
        action=kill_when_it_is_saved,
    )
    with pytest.raises(Killed):
        killed.go()

    resumed = run("killed", scores=SCORES)

    assert resumed.start.step == step
    assert resumed.go()
    assert_same_run(resumed, whole)


def test_a_run_that_goes_on_without_evaluations_has_no_best_weights(run):
    run("run", scores=SCORES).go()

    run("run", num_train_steps=20).go()

    newest = os.path.join("checkpoints", "step-00000020")
    folder = run("run").folder
    assert run_checkpoints.trained_weights(folder).endswith(newest)
    run("run", num_train_steps=25, scores={25: 0.2}).go()
    assert run_checkpoints.trained_weights(folder).endswith("best")


def test_a_run_that_stopped_early_trains_on_after_it_had_no_evaluations(run):
    early = run("run", scores=dict.fromkeys(range(99), 0.5), patience=1)
    early.go()
    assert early.loop.state.step < 20

    run("run", num_train_steps=25).go()
    later = run("run", num_train_steps=30, scores={30: 0.2}, patience=1)
    later.go()

    assert later.loop.state.step == 30


@pytest.fixture
def heard_ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, even if a shell has it ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("heard_ctrl_c")
@pytest.mark.parametrize(
    ("step", "stop"),
    [*((step, terminate) for step in (0, 4, 5)), (8, press_ctrl_c)],
)
def test_a_signal_saves_and_the_next_run_resumes(step, stop, run, whole):
    handlers = [*map(signal.getsignal, SIGNALS)]
    stopped = run("stopped", scores=SCORES, at_step=step, action=stop)

    assert not stopped.go()
    assert [*map(signal.getsignal, SIGNALS)] == handlers
    assert stopped.checkpoints()[-1] == f"step-{step:08d}"

    resumed = run("stopped", scores=SCORES)
    assert resumed.go()
    assert_same_run(resumed, whole)


@pytest.mark.usefixtures("heard_ctrl_c")
@pytest.mark.parametrize("first", [press_ctrl_c, terminate])
def test_a_second_ctrl_c_ends_the_run_at_once(first, run):
    def press_twice():
        first()
        press_ctrl_c()

    stopped = run("run", at_step=4, action=press_twice)

    with pytest.raises(KeyboardInterrupt):
        stopped.go()
    assert stopped.checkpoints() == ["step-00000000"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_ignored_stays_ignored(run):
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run("run", at_step=4, action=press_ctrl_c).go()
    finally:
        signal.signal(signal.SIGINT, previous)


def test_a_signal_in_the_last_evaluation_is_not_lost(run, whole):
    stopped = run("run", scores=SCORES, in_evaluation_of=12, action=terminate)

    assert not stopped.go()
    assert_same_run(stopped, whole)
    assert run("run", scores=SCORES).go()


def test_a_signal_while_the_last_checkpoint_is_written_is_not_lost(
    run, whole, monkeypatch
):
    stopped = run("run", scores=SCORES)

    def stop_in_wait(function, *values):
        function(*values)
        if not values:
            terminate()

    monkeypatch.setattr(stopped.workers, "run_in_chief", stop_in_wait)

    assert not stopped.go()
    assert_same_run(stopped, whole)


def test_only_the_chief_writes_checkpoints(run, monkeypatch):
    worker = run("run", scores=SCORES)
    worker.workers.is_chief = False
    monkeypatch.setattr(worker.workers, "run_in_chief", lambda *_: None)

    assert worker.go()
    assert {"checkpoints", "best"}.isdisjoint(os.listdir(worker.folder))


def test_best_holds_the_weights_of_the_best_evaluation(whole):
    best = whole.stored("best")
    same = whole.stored("checkpoints", "step-00000005")
    last = whole.stored("checkpoints", "step-00000012")
    assert best.pop("global_step") == 5
    for name, value in best.items():
        np.testing.assert_array_equal(value, same[name])
    assert any(np.any(value != last[name]) for name, value in best.items())


@pytest.mark.parametrize("iterations_per_loop", [1, 5])
def test_a_loss_that_is_not_finite_stops_the_run(iterations_per_loop, run):
    changes = {7: (BAD_WEIGHT, 1.0)}
    bad = run("run", changes=changes, iterations_per_loop=iterations_per_loop)

    with pytest.raises(
        loop.TrainingDiverged,
        match=r"diverged at step 8: the loss is nan\. The last good "
        r"checkpoint is '.*step-00000005'\. Lower --learning_rate",
    ):
        bad.go()

    assert [line["step"] for line in runs.lines_of(bad.folder)] == [4]
    again = run("run")
    assert again.start.step == 5
    assert all(np.isfinite(weight).all() for weight in again.weights())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # The loss is about 1e29; the square of its gradient is no float32.
        (
            {"changes": {2: (1.0, 1e30)}},
            "step 3: the norm of the gradient is inf",
        ),
        # From 2^15, the 15 steps 3 to 17 halve the scale to 1; step 18 fails.
        (
            {
                "changes": {batch: (BAD_WEIGHT, 1.0) for batch in range(2, 50)},
                "precision": "float16",
                "num_train_steps": 50,
            },
            "step 18: the loss is nan",
        ),
        ({"scores": {0: 0.1, 5: (0.2, np.nan)}}, "before step 5.*loss=nan"),
    ],
)
def test_what_is_not_finite_stops_the_run(options, message, run):
    with pytest.raises(loop.TrainingDiverged, match=message):
        run("run", **options).go()


def test_a_loss_that_jumps_stops_a_run_that_detects_jumps(run):
    jump = {"changes": {70: (1.0, -1e4)}, "num_train_steps": 80}
    bad = run("run", **jump)

    with pytest.raises(
        loop.TrainingDiverged,
        match="step 71: the loss jumped to .* from a running level",
    ):
        bad.go()
    assert bad.checkpoints()[-1] == "step-00000070"
    assert run("other", like_pretraining=False, **jump).go()


def test_a_checkpoint_that_cannot_be_written_ends_the_run_soon(
    run, monkeypatch
):
    failing = run("run", num_train_steps=60, save_checkpoints_steps=20)
    write, record = train_state._write_folder, failing.loop._add_to_window

    def fail(path, *given):
        if path.endswith("step-00000020"):
            raise OSError(28, "No space left on device")
        write(path, *given)

    def record_late(*given):
        time.sleep(0.02)  # meanwhile, the thread that writes fails
        record(*given)

    monkeypatch.setattr(train_state, "_write_folder", fail)
    monkeypatch.setattr(failing.loop, "_add_to_window", record_late)

    with pytest.raises(OSError, match="No space left"):
        failing.go()
    # Not at the next checkpoint only.
    assert 20 <= failing.loop.state.step < 39


def test_a_skipped_update_of_float16_does_not_stop_the_run(run):
    # Batch 5, and the whole of the last window.
    changes = {batch: (BAD_WEIGHT, 1.0) for batch in (5, 8, 9, 10, 11)}
    half = run("run", changes=changes, precision="float16")

    assert half.go()

    first, second, last = runs.lines_of(half.folder)
    # The second window has a step at 2^15, one skipped, and two at 2^14.
    assert first["loss_scale"] == 2.0**15
    assert second["loss_scale"] == pytest.approx(2.0**15 * 2 / 3)
    assert last == {"step": 12}
    assert half.loop.state.detector.num_steps == 7


def test_training_ends_after_evaluations_without_a_better_score(run, caplog):
    caplog.set_level("INFO")
    scores = [0.1, 0.5, 0.4, 0.5, 0.9, 0.9, 0.9]
    options = {
        "scores": dict(zip(range(0, 14, 2), scores, strict=True)),
        "patience": 2,
        "save_checkpoints_steps": 2,
    }

    for _ in range(2):  # the second time, nothing is trained
        one = run("one", **options)
        assert one.go()
        assert one.loop.state.step == 6
        assert one.loop.state.best_score == 0.5
        # Of equal scores the later one is the best, but it is no progress.
        assert one.stored("best")["global_step"] == 6
    assert "Stopped early at step 6, after 2 evaluations" in caplog.text
    # The last window, of two steps, too.
    lines = runs.lines_of(one.folder)
    assert [line["step"] for line in lines if "loss" in line] == [4, 6]


@pytest.mark.parametrize(
    ("scores", "losses", "best"),
    [
        ([0.1] * 4, [9.1, 8.0, 7.8, 7.9], 4),
        ([0.1] * 4, [9.1, 8.0, 8.0, 8.0], 6),
        ([0.1] * 4, [9.1, 8.0, None, 8.1], 2),
        ([0.1, 0.2, 0.2, 0.1], [1.0, 9.0, 9.5, 0.5], 2),
    ],
)
def test_of_equal_scores_that_with_the_lower_loss_is_the_best(
    scores, losses, best, run
):
    pairs = zip(scores, losses, strict=True)
    one = run(
        "one",
        scores=dict(zip((0, 2, 4, 6), pairs, strict=True)),
        num_train_steps=6,
        save_checkpoints_steps=2,
    )

    one.go()

    assert one.stored("best")["global_step"] == best


@pytest.mark.parametrize(
    ("metric", "best"), [("loss", 10), ("accuracy", 5), (None, 5)]
)
def test_another_metric_may_select_the_best(metric, best, run):
    scores = {5: (0.9, 7.0), 10: (0.1, 3.0), 12: (0.2, 4.0)}
    one = run("one", scores=scores, best_metric=metric, like_pretraining=False)
    one.scores[0] = (0.0, 1.0)  # to know the names

    one.go()

    assert one.stored("best")["global_step"] == best


@pytest.mark.parametrize("like_pretraining", [True, False])
def test_an_unknown_metric_is_refused_before_the_first_step(
    like_pretraining, run
):
    one = run(
        "run",
        scores={0: (0.1, 9.0)},
        best_metric="f1",
        like_pretraining=like_pretraining,
    )

    with pytest.raises(
        ValueError, match="no score 'f1' .* --best_metric one of accuracy, loss"
    ):
        one.go()
    assert one.loop.state.step == 0


def deepening(run, name, **options):
    """A run of two phases, the second from step 6 on."""
    return run(name, depth_schedule="1@0,2@6", **options)


def test_the_lines_of_a_run_of_several_phases_say_which(run, caplog):
    caplog.set_level("INFO")
    whole = deepening(run, "whole", scores=SCORES)

    assert whole.go()

    lines = runs.lines_of(whole.folder)
    assert [(one["step"], one["depth"], "loss" in one) for one in lines] == [
        (0, 1, False),
        (4, 1, True),
        (5, 1, False),
        (6, 1, True),  # a window ends with its phase
        (8, 2, True),
        (10, 2, False),
        (12, 2, True),
        (12, 2, False),
    ]
    assert "Phase 1 of 2 begins after step 0: {'depth': 1}" in caplog.text
    assert "Phase 2 of 2 begins after step 6: {'depth': 2}" in caplog.text
    assert whole.positions == [0, 6]


@pytest.mark.parametrize(
    ("save_checkpoints_steps", "killed_at"), [(5, 6), (6, 8)]
)
def test_a_run_killed_near_a_phase_resumes(
    save_checkpoints_steps, killed_at, run
):
    options = {
        "save_checkpoints_steps": save_checkpoints_steps,
        "scores": dict.fromkeys(range(13), 0.5),
    }
    whole = deepening(run, "whole", **options)
    whole.go()
    killed = deepening(run, "killed", at_step=killed_at, action=kill, **options)
    with pytest.raises(Killed):
        killed.go()

    resumed = deepening(run, "killed", **options)

    assert resumed.go()
    assert_same_run(resumed, whole)


def test_only_the_last_phase_has_a_best_evaluation(run):
    scores = dict(zip(range(0, 13, 2), [9, 8, 7, 6, 1, 3, 2], strict=True))
    phased = deepening(run, "run", scores=scores, save_checkpoints_steps=2)

    phased.go()

    assert phased.stored("best")["global_step"] == 10
    assert phased.loop.state.best_score == 3


def test_patience_is_counted_from_the_last_phase_on(run):
    options = {
        "scores": dict.fromkeys(range(0, 13, 2), 0.5),
        "save_checkpoints_steps": 2,
        "patience": 1,
    }
    plain, phased = run("plain", **options), deepening(run, "new", **options)

    assert plain.go()
    assert phased.go()

    # The first evaluation is the best; the next one is no better.
    assert (plain.loop.state.step, phased.loop.state.step) == (2, 10)


def test_a_loss_that_a_new_phase_raises_is_no_divergence(run):
    changes = {"changes": {n: (1.0, -1e4) for n in range(70, 80)}}
    jump = changes | {"num_train_steps": 80}

    with pytest.raises(loop.TrainingDiverged, match="the loss jumped"):
        run("late", depth_schedule="1@0,2@10", **jump).go()
    assert run("new", depth_schedule="1@0,2@70", **jump).go()


def test_a_signal_to_another_worker_stops_this_one_too(run, monkeypatch):
    answers = iter([False, False, True])
    stopped = run("run")
    monkeypatch.setattr(stopped.workers, "any", lambda _: next(answers))

    assert not stopped.go()
    assert stopped.checkpoints() == ["step-00000000", "step-00000002"]
