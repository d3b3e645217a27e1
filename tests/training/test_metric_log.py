import datetime

import pytest
import tensorflow as tf

from albert_tf.metrics.scores import Score, Scores
from albert_tf.training import metric_log
from tests.training import runs


@pytest.fixture
def written(tmp_path):
    """A folder with the log of steps 5, 10 and 15."""
    log = metric_log.MetricLog(str(tmp_path), last_step=None)
    for step in (5, 10, 15):
        log.write(step, {"loss": 1 / step})
    log.close()
    return tmp_path


@pytest.mark.parametrize(("last_step", "kept"), [(None, []), (10, [5, 10])])
def test_a_run_drops_the_lines_it_will_write_again(last_step, kept, written):
    log = metric_log.MetricLog(str(written), last_step=last_step)
    log.write(15, {"loss": 7.0})

    assert [line["step"] for line in metric_log.read_lines(str(written))] == [
        *kept,
        15,
    ]
    assert metric_log.read_lines(str(written))[-1]["loss"] == 7.0


def test_lines_have_the_time_of_day(written):
    now = datetime.datetime.now(datetime.UTC)

    for line in metric_log.read_lines(str(written)):
        time = datetime.datetime.fromisoformat(line["time"])
        assert time.utcoffset() == datetime.timedelta(0)
        assert abs(now - time) < datetime.timedelta(minutes=5)


def test_scores_are_written_and_logged(tmp_path, caplog):
    caplog.set_level("INFO")
    log = metric_log.MetricLog(str(tmp_path), last_step=None)

    scores = Scores(
        entries=(
            Score("accuracy", 1 / 3),
            Score.of_label("f1", "a", 0.5),
            Score.of_label("f1", "b", 0.25),
        )
    )

    log.write_scores(3, scores, {"depth": 2}, metric="f1_of_b")

    assert runs.lines_of(tmp_path) == [
        {
            "step": 3,
            "eval_accuracy": 1 / 3,
            "eval_f1_of_a": 0.5,
            "eval_f1_of_b": 0.25,
            "depth": 2,
        }
    ]
    words = "Evaluation after step 3: accuracy 0.3333, f1_of_b 0.25"
    assert words in caplog.messages


def test_tensorboard_gets_every_number(tmp_path):
    log = metric_log.MetricLog(str(tmp_path), last_step=None)
    log.write(3, {"loss": 0.5, "event": "text"})
    log.close()

    (path,) = tmp_path.glob("events.out.tfevents.*")
    scalars = [
        (event.step, value.tag, float(tf.make_ndarray(value.tensor)))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]
    assert scalars == [(3, "loss", 0.5)]


def test_only_the_process_that_writes_files_writes(written):
    before = sorted(path.name for path in written.iterdir())
    log = metric_log.MetricLog(str(written), last_step=5, is_writer=False)

    log.write_scores(10, Scores(), {"loss": 1.0})
    log.close()

    assert sorted(path.name for path in written.iterdir()) == before
    assert [line["step"] for line in metric_log.read_lines(str(written))] == [
        5,
        10,
        15,
    ]


def test_lines_are_read_back_but_not_one_that_is_half_written(written):
    assert metric_log.read_lines(str(written / "nothing")) == []
    path = written / metric_log.FILE_NAME
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 20, "lo')

    assert runs.lines_of(written) == [
        {"step": step, "loss": 1 / step} for step in (5, 10, 15)
    ]
    # A run that resumes drops it.
    metric_log.MetricLog(str(written), last_step=20)
    assert path.read_bytes() == whole
