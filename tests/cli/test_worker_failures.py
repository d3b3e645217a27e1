"""Where one of several workers fails, all end, soon and with one clear line."""

import json

import pytest

from tests.cli import processes

pytestmark = pytest.mark.slow

SCRIPT = "run_pretraining.py"


def assert_all_end(ends, victim=None, words="error: "):
    """All but the victim end with code 1 and one line with these words."""
    for index, one in enumerate(ends):
        if index != victim:
            assert one.code == 1, ends
            assert one.last_line.startswith("error: "), ends
            assert words in one.last_line, ends
            assert one.said.count("\nerror: ") == 1, ends
            assert "Traceback" not in one.said, ends


@pytest.fixture
def flags(pretraining_flags):
    return (*pretraining_flags, "--output_dir=run")


@pytest.mark.parametrize(
    ("number", "victim", "hook"),
    [
        (2, 0, (processes.FIRST_CHECK, 1, "SIGKILL")),
        (2, 1, (processes.STEP, 3, "SIGKILL")),
        (2, 1, (processes.STEP, 3, "SIGSTOP")),
        (2, 0, (processes.STEP, 3, "SIGSTOP")),
        (4, 2, (processes.STEP, 3, "SIGKILL")),
        # In the thread that writes.
        (2, 0, (processes.SAVE, 2, "SIGKILL")),
        # Before the training, which handles it, SIGTERM ends a process soon.
        (2, 1, (processes.FIRST_CHECK, 1, "SIGTERM")),
    ],
)
def test_a_worker_that_dies_ends_all(
    number, victim, hook, flags, run_workers, tmp_path
):
    hooks = {victim: hook}

    ends = run_workers(SCRIPT, flags, tmp_path, number=number, hooks=hooks)

    assert_all_end(ends, victim)
    if hook[-1] == "SIGTERM":
        # It has told the others itself.
        assert_all_end(ends, victim, f"Worker {victim} (127.0.0.1:")
    elif victim and number == 2:
        assert_all_end(ends, victim, f"/job:worker/replica:0/task:{victim}")


@pytest.mark.parametrize("victim", [0, 1])
def test_the_error_of_a_worker_is_that_of_all(
    victim, flags, run_workers, tmp_path
):
    hooks = {victim: (processes.WRITE, 3, "fail")}

    ends = run_workers(SCRIPT, flags, tmp_path, hooks=hooks)

    assert ends[victim].last_line == "error: a file: No space left on device"
    assert_all_end(ends, victim, f"Worker {victim} (127.0.0.1:")
    assert_all_end(ends, victim, "has failed: [Errno 28] No space left")


def test_a_worker_that_does_not_come_ends_all(flags, run_workers, tmp_path):
    script = tmp_path / "soon.py"
    script.write_text(
        "from albert_tf.cli import run_pretraining\n"
        "from albert_tf.devices import workers\n"
        "workers.CONNECT_SECONDS = 5\n"
        "run_pretraining.main()\n"
    )

    ends = run_workers(script, flags, tmp_path, number=3, absent={2})

    for one in ends:
        assert one.code == 1, ends
        assert "It ends if they do not come within 5 seconds" in one.said
    assert not (tmp_path / "run").exists()


def test_other_flags_end_all_before_the_first_step(
    flags, run_workers, tmp_path
):
    own_flags = {1: ("--learning_rate=0.02",)}

    ends = run_workers(SCRIPT, flags, tmp_path, own_flags=own_flags)

    assert_all_end(ends, None, "Worker 1 (127.0.0.1:")
    assert_all_end(ends, None, "learning_rate=0.01 (now 0.02)")
    assert not (tmp_path / "run").exists()


def test_a_chief_that_refuses_the_folder_ends_all(flags, run_workers, tmp_path):
    (tmp_path / "run").mkdir()
    other = json.dumps({"task": "other", "version": 1})
    (tmp_path / "run" / "run.json").write_text(other)

    ends = run_workers(SCRIPT, flags, tmp_path)

    assert_all_end(ends, None, "'run' belongs to another run")
    assert "Worker 0 (127.0.0.1:" in ends[1].last_line


@pytest.mark.parametrize(
    ("chief_has_run", "words"),
    [
        (True, "newest checkpoint=[10] (now [])"),
        (False, "run.json=True (now F"),
    ],
)
def test_folders_that_are_not_shared_end_all(
    chief_has_run, words, flags, run_alone, run_workers, tmp_path
):
    # Each worker has a folder of its own, by the same name.
    disks = ("disk-0", "disk-1")
    for disk in disks:
        (tmp_path / disk).mkdir()
    if chief_has_run:
        run_alone(SCRIPT, *flags, folder=tmp_path / disks[0])

    ends = run_workers(SCRIPT, flags, tmp_path, folders=disks)

    assert_all_end(ends, None, words)
    assert_all_end(ends, None, "must be a folder that all workers share.")


def test_workers_of_slurm_train(flags, run_workers, tmp_path):
    slurm = [
        {
            "SLURM_PROCID": f"{rank}",
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_STEP_TASKS_PER_NODE": "2",
            "SLURM_JOB_ID": "4711",
        }
        for rank in range(2)
    ]
    given = (*flags, "--cluster=slurm", "--output_dir=run")

    ends = run_workers(SCRIPT, given, tmp_path, environments=slurm)

    assert [one.code for one in ends] == [0, 0], ends
