"""What callbacks are told, and what they may do."""

import os
import threading

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import run_checkpoints
from albert_tf.devices.strategies import Workers
from albert_tf.metrics.scores import Score
from albert_tf.training import callbacks, loop, pretrain
from tests.training import runs

# Five updates in one call of the graph.
SHORT = {"log_steps": 5, "iterations_per_loop": 5}


class Recorder(albert_tf.Callback):
    """Records each call: the directory of the run, the method, a detail."""

    def __init__(self, **actions):
        self.calls, self._actions = [], actions

    def _note(self, method, detail):
        folder = os.path.basename(self.run.config.output_dir)
        self.calls.append((folder, method, detail))
        if action := self._actions.get(f"{method}_{detail}"):
            action(self)

    def on_begin(self):
        self._note("begin", self.run.step)

    def on_log(self, step, numbers):
        self._note("log", step)

    def on_evaluation(self, step, scores):
        self._note("evaluation", step)

    def on_end(self, result, error):
        self._note("end", type(result or error).__name__)

    def without(self, *methods):
        return [call[1:] for call in self.calls if call[1] not in methods]


def fail(_):
    raise RuntimeError("No network.")


def test_a_run_is_told_from_its_beginning_to_its_end(job):
    class Lines(albert_tf.Callback):
        lines = ()

        def on_log(self, step, numbers):
            self.lines = [*self.lines, {"step": step, **numbers}]
            # The standard callbacks are called first.
            written = runs.lines_of(self.run.config.output_dir)
            assert len(written) == len(self.lines)

        def additional_scores(self, evaluated, outputs, scores):
            yield Score("cost", 100 * (1 - np.float32(scores["accuracy"])))
            yield Score("unknown", float("nan"))  # is reported as 0

    class Greedy(albert_tf.Callback):
        def on_log(self, step, numbers):
            numbers.clear()

    one = job(num_train_steps=20, save_checkpoints_steps=10, **SHORT)
    recorder, observer = Recorder(), Lines()

    scores = one.run(callbacks=[Greedy(), recorder, observer])

    assert recorder.calls == [
        ("run", method, detail)
        for method, detail in [
            ("begin", 0),
            ("log", 5),
            ("log", 10),
            ("log", 10),  # the scores of the evaluation
            ("evaluation", 10),
            ("log", 15),
            ("log", 20),
            ("log", 20),
            ("evaluation", 20),
            ("end", "Result"),
        ]
    ]
    assert recorder.run.title == "Fine-tuning: words"
    rates = ("sequences_per_second", "tokens_per_second")
    assert [
        {k: v for k, v in line.items() if k not in rates}
        for line in observer.lines
    ] == runs.lines_of(one.output_dir)
    assert scores["cost"] == pytest.approx(100 * (1 - scores["accuracy"]))
    assert scores["unknown"] == 0


def test_a_run_that_a_callback_ends_resumes_with_the_same_numbers(
    job, tmp_path, deterministic
):
    settings = {"num_train_steps": 20, "save_checkpoints_steps": 10} | SHORT
    whole = job(**settings)
    whole.run()
    one = whole.replace(output_dir=str(tmp_path / "ended"))
    recorder, other = Recorder(log_5=fail), Recorder()

    with pytest.raises(RuntimeError, match="No network"):
        one.run(callbacks=[recorder, other])

    told = [("begin", 0), ("log", 5), ("end", "RuntimeError")]
    assert recorder.without() == other.without() == told
    assert run_checkpoints.steps(one.output_dir) == [0, 5]
    recorder = Recorder()
    one.run(callbacks=[recorder])
    assert recorder.without("evaluation", "log") == [
        ("begin", 5),
        ("end", "Result"),
    ]
    assert runs.lines_of(one.output_dir) == runs.lines_of(whole.output_dir)
    found, expected = (
        runs.arrays_of(each.output_dir, 20) for each in (one, whole)
    )
    for array in expected:
        np.testing.assert_array_equal(found[array], expected[array])


def test_an_error_at_the_end_is_raised_after_all_files_are_written(job):
    one = job(num_train_steps=10, **SHORT)
    first, second = Recorder(end_Result=fail), Recorder()

    with pytest.raises(RuntimeError):
        one.run(callbacks=[first, second])

    assert second.calls[-1][1:] == ("end", "Result")
    names = {"eval_results.json", "README.md", "report.html"}
    assert names < set(os.listdir(one.output_dir))


def test_each_seed_and_then_the_best_one_is_a_run(job):
    two = job(num_train_steps=10, num_seeds=2, **SHORT)
    stopping, recorder = Recorder(log_5=albert_tf.Callback.stop), Recorder()

    assert two.run(callbacks=[stopping]) is None
    assert two.run(callbacks=[recorder])["num_seeds"] == 2

    assert {folder for folder, *_ in stopping.calls} == {"seed-12345"}
    assert stopping.calls[-1][1:] == ("end", "KeyboardInterrupt")
    assert [call for call in recorder.calls if call[1] in ("begin", "end")] == [
        ("seed-12345", "begin", 5),
        ("seed-12345", "end", "Result"),
        ("seed-12346", "begin", 0),
        ("seed-12346", "end", "Result"),
        ("run", "begin", 10),
        ("run", "end", "Result"),
    ]


def test_a_diverged_run_ends_with_its_error(job):
    class Spoilt(runs.WordTask):
        def training_scores(self, sums):
            return {"loss": float("nan")}

    one = job(make_task=Spoilt, num_train_steps=10, **SHORT)
    recorder = Recorder()

    with pytest.raises(loop.TrainingDiverged):
        one.run(callbacks=[recorder])

    assert recorder.calls[-1][1:] == ("end", "TrainingDiverged")


def test_another_thread_may_stop_a_run(job):
    endless = job(num_train_steps=100_000, log_steps=5)
    recorder = Recorder()
    recorder.on_begin = threading.Timer(0.5, recorder.stop).start

    assert endless.run(callbacks=[recorder]) is None

    (step,) = run_checkpoints.steps(endless.output_dir)[-1:]
    assert 0 < step < 100_000


def test_a_run_in_another_thread_cannot_handle_signals(job):
    results = []
    one = job(num_train_steps=5, **SHORT)
    thread = threading.Thread(target=lambda: results.append(one.run()))

    thread.start()
    thread.join()

    assert results[0]["global_step"] == 5


def test_the_chief_alone_calls_callbacks(tmp_path):
    workers = Workers(None)
    workers.is_chief = False
    run = callbacks.Run(
        config=runs.run_config(output_dir=str(tmp_path)), title="", metric=""
    )
    recorder = Recorder()

    with callbacks.CallbackList(run, [recorder], workers) as observers:
        observers.begin()
        observers.log(5, {"loss": 1.0})
        assert not observers.wants_stop

    assert recorder.calls == []
    # For the additional scores, which all compute.
    assert recorder.run == run
    assert not any(tmp_path.iterdir())


def test_a_pretraining_has_callbacks(make_pretraining_job, tmp_path):
    config = make_pretraining_job(tmp_path / "run")
    recorder = Recorder(evaluation_3=albert_tf.Callback.stop)

    assert pretrain.run(config, [recorder]) is None
    recorder.stop_requested = False
    result = pretrain.run(config, [recorder])

    assert recorder.without("log") == [
        ("begin", 0),
        ("evaluation", 0),
        ("evaluation", 3),
        ("end", "KeyboardInterrupt"),
        ("begin", 3),
        ("evaluation", 6),
        ("end", "Result"),
    ]
    assert result.scores.step in (0, 3, 6)
    assert recorder.run.title == "Pretraining"
