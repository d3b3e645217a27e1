import datetime

import pytest
import tensorflow as tf

from albert_tf.observers import metric_log, tensorboard
from albert_tf.training.callbacks import Run
from tests.training import runs


def begun(kind, folder, **progress):
    """A callback of a training run in a folder, which has begun."""
    callback = kind()
    callback.run = Run(
        config=runs.run_config(output_dir=str(folder)),
        title="A run",
        metric="accuracy",
        **{"is_training": True} | progress,
    )
    callback.on_begin()
    return callback


@pytest.fixture
def written(tmp_path):
    """A folder with the log of steps 5, 10 and 15."""
    log = begun(metric_log.MetricLog, tmp_path)
    for step in (5, 10, 15):
        log.on_log(step, {"loss": 1 / step})
    return tmp_path


def steps_in(folder):
    return [line["step"] for line in metric_log.read_lines(str(folder))]


@pytest.mark.parametrize(
    ("progress", "steps"),
    [
        ({}, []),
        # A run that continues another run has no checkpoint yet.
        ({"step": 10}, []),
        ({"step": 10, "is_resumed": True}, [5, 10]),
        ({"is_training": False}, [5, 10, 15]),
    ],
)
def test_a_run_drops_the_lines_it_will_write_again(progress, steps, written):
    log = begun(metric_log.MetricLog, written, **progress)
    log.on_log(15, {"loss": 7.0})

    assert steps_in(written) == [*steps, 15]
    assert metric_log.read_lines(str(written))[-1]["loss"] == 7.0


def test_an_evaluation_that_will_be_repeated_is_dropped(written):
    log = begun(metric_log.MetricLog, written)
    for key in ("loss", "eval_loss"):
        log.on_log(5, {key: 1.0})

    again = {"step": 5, "is_resumed": True, "is_evaluated": False}
    begun(metric_log.MetricLog, written, **again)

    assert runs.lines_of(written) == [{"step": 5, "loss": 1.0}]


def test_lines_have_the_time_of_day(written):
    now = datetime.datetime.now(datetime.UTC)

    for line in metric_log.read_lines(str(written)):
        time = datetime.datetime.fromisoformat(line["time"])
        assert time.utcoffset() == datetime.timedelta(0)
        assert abs(now - time) < datetime.timedelta(minutes=5)


def test_tensorboard_gets_every_number(tmp_path):
    board = begun(tensorboard.TensorBoard, tmp_path)
    board.on_log(3, {"loss": 0.5, "event": "text"})
    board.on_end(None, KeyboardInterrupt())

    (path,) = tmp_path.glob("events.out.tfevents.*")
    scalars = [
        (event.step, value.tag, float(tf.make_ndarray(value.tensor)))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]
    assert scalars == [(3, "loss", 0.5)]


def test_lines_are_read_back_but_not_one_that_is_half_written(written):
    assert metric_log.read_lines(str(written / "nothing")) == []
    path = written / metric_log.FILE_NAME
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 20, "lo')

    assert runs.lines_of(written) == [
        {"step": step, "loss": 1 / step} for step in (5, 10, 15)
    ]
    # A run that resumes drops it.
    begun(metric_log.MetricLog, written, step=20, is_resumed=True)
    assert path.read_bytes() == whole
