"""Where one of several workers fails, all end, soon and with one clear line."""

import json
import logging

import pytest

from tests.cli import workers

_LOGGER = logging.getLogger(__name__)

pytestmark = pytest.mark.slow

SCRIPT = "run_pretraining.py"
MOST_SECONDS = 60
GONE = "has ended without a message, or does not answer"


def assert_all_end(ends, victim, words):
    """All but the victim end with code 1 and one line with these words."""
    for index, one in enumerate(ends):
        if index != victim:
            assert one.code == 1, ends
            assert one.last_line.startswith("error: "), ends
            assert words in one.last_line, ends
            assert one.said.count("error: ") == 1, ends
            assert "Traceback" not in one.said, ends
            _LOGGER.info("worker %d ended after %s s", index, one.seconds)
            assert one.seconds < MOST_SECONDS, ends


@pytest.fixture
def flags(pretraining_flags):
    return (*pretraining_flags, "--output_dir=run")


@pytest.mark.parametrize(
    ("victim", "hook"),
    [
        (1, (workers.FIRST_CHECK, 1, "SIGKILL")),
        (0, (workers.FIRST_CHECK, 1, "SIGKILL")),
        (1, (workers.STEP, 3, "SIGKILL")),
        (0, (workers.STEP, 3, "SIGKILL")),
        (1, (workers.STEP, 3, "SIGSTOP")),
        (0, (workers.STEP, 3, "SIGSTOP")),
        (1, (workers.EVALUATION, 2, "SIGKILL")),
        # In the thread that writes.
        (0, (workers.SAVE, 2, "SIGKILL")),
        # Before the training, which hears it, SIGTERM ends a process.
        (1, (workers.FIRST_CHECK, 1, "SIGTERM")),
    ],
)
def test_a_worker_that_dies_ends_all(victim, hook, flags, tmp_path):
    ends = workers.run(SCRIPT, flags, tmp_path, hooks={victim: hook})

    assert_all_end(ends, victim, f"error: Worker {victim} (127.0.0.1:")
    assert_all_end(ends, victim, GONE)


def test_a_worker_that_dies_during_a_save_ends_all(flags, tmp_path):
    hooks = {
        0: (workers.SAVE, 2, 5),
        1: (workers.WRITE, 4, "SIGKILL"),
    }

    ends = workers.run(SCRIPT, flags, tmp_path, hooks=hooks)

    assert_all_end(ends, 1, GONE)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_does_not_wait_for_the_others_ends_too(
    victim, flags, tmp_path
):
    hooks = {
        victim: (workers.FIRST_CHECK, 1, "SIGKILL"),
        1 - victim: (workers.FIRST_CHECK, 1, 300),
    }

    ends = workers.run(SCRIPT, flags, tmp_path, hooks=hooks)

    other = ends[1 - victim]
    assert other.code == 1
    assert f"error: Worker {victim} (127.0.0.1:" in other.last_line
    assert other.seconds < MOST_SECONDS, ends


@pytest.mark.parametrize("victim", [0, 1])
def test_the_error_of_a_worker_is_that_of_all(victim, flags, tmp_path):
    hooks = {victim: (workers.WRITE, 3, "fail")}

    ends = workers.run(SCRIPT, flags, tmp_path, hooks=hooks)

    assert ends[victim].last_line == "error: a file: No space left on device"
    assert_all_end(ends, victim, f"error: Worker {victim} (127.0.0.1:")
    assert_all_end(ends, victim, "has failed: [Errno 28] No space left")


def test_one_of_four_that_dies_ends_all(flags, tmp_path):
    hooks = {2: (workers.STEP, 3, "SIGKILL")}

    ends = workers.run(SCRIPT, flags, tmp_path, number=4, hooks=hooks)

    assert_all_end(ends, 2, "error: Worker 2 (127.0.0.1:")


def test_a_worker_that_does_not_come_ends_all(flags, tmp_path):
    flags = (*flags, "--join_timeout=5s")

    ends = workers.run(SCRIPT, flags, tmp_path, number=3, absent={2})

    assert_all_end(ends, None, "error: Worker 2 (127.0.0.1:")
    assert_all_end(ends, None, "has not come in time")
    assert not (tmp_path / "run").exists()


def test_other_flags_end_all_before_the_first_step(flags, tmp_path):
    own_flags = {1: ("--learning_rate=0.02",)}

    ends = workers.run(SCRIPT, flags, tmp_path, own_flags=own_flags)

    assert_all_end(
        ends,
        None,
        "has --learning_rate=0.02, but the chief has --learning_rate=0.01.",
    )
    assert not (tmp_path / "run").exists()


def test_other_records_end_all_before_the_first_step(flags, workshop, tmp_path):
    # Each worker reads its own folder, by the same name.
    for index, source in enumerate(("train", "eval")):
        folder = tmp_path / f"disk-{index}"
        folder.mkdir()
        for end in ("", ".json", ".index"):
            path = workshop / f"{source}.tf_record{end}"
            text = path.read_bytes()
            if end == ".json":
                text = text.replace(b"eval.tf_record", b"train.tf_record")
            (folder / f"records{end}").write_bytes(text)
    flags = (*flags, "--input_file=records", f"--output_dir={tmp_path / 'run'}")

    ends = workers.run(SCRIPT, flags, tmp_path, folders=("disk-0", "disk-1"))

    assert_all_end(ends, None, "has records=")
    assert_all_end(ends, None, "All workers need the same files.")
    assert not (tmp_path / "run").exists()


def test_a_chief_that_refuses_the_folder_ends_all(flags, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps({"task": "other"}))

    ends = workers.run(SCRIPT, flags, tmp_path)

    assert_all_end(ends, None, "'run' belongs to another run")
    assert "error: Worker 0 (127.0.0.1:" in ends[1].last_line


def test_folders_that_are_not_shared_end_all(flags, tmp_path):
    (tmp_path / "disk-0").mkdir()
    (tmp_path / "disk-1").mkdir()
    workers.run_alone(SCRIPT, flags, tmp_path / "disk-0")

    ends = workers.run(SCRIPT, flags, tmp_path, folders=("disk-0", "disk-1"))

    assert_all_end(ends, None, "has newest checkpoint=-1, but the chief has")
    assert_all_end(ends, None, "must be a folder that all workers share.")


def test_other_weights_of_the_same_name_end_all(
    table_flags, model_flags, tmp_path
):
    flags = (*table_flags, *model_flags)
    for number in range(2):
        disk = tmp_path / f"disk-{number}"
        disk.mkdir()
        weights = (f"--random_seed={number}", "--output_dir=weights")
        workers.run_alone("run_classifier.py", (*flags, *weights), disk)
    run = tmp_path / "run"
    start = ("--init_checkpoint=weights", f"--output_dir={run}")

    ends = workers.run(
        "run_classifier.py",
        (*flags, *start),
        tmp_path,
        folders=("disk-0", "disk-1"),
    )

    assert_all_end(ends, None, "has weights=")
    assert_all_end(ends, None, "must find the same weights where the flags")
    assert not (run / "run.json").exists()


def test_a_folder_that_only_the_chief_has_ends_all(flags, tmp_path):
    (tmp_path / "disk-0").mkdir()
    (tmp_path / "disk-1").mkdir()

    ends = workers.run(SCRIPT, flags, tmp_path, folders=("disk-0", "disk-1"))

    assert_all_end(ends, None, "has run.json=False, but the chief has")
    assert_all_end(ends, None, "must be a folder that all workers share.")
    assert not (tmp_path / "disk-0" / "run" / "checkpoints").exists()


def test_a_batch_that_the_workers_cannot_divide_ends_all(flags, tmp_path):
    ends = workers.run(SCRIPT, flags, tmp_path, number=3)

    assert_all_end(ends, None, "`train_batch_size` must be a multiple")
    assert not (tmp_path / "run").exists()


def test_workers_of_mpi_and_slurm_train(flags, tmp_path):
    hosts = workers.free_addresses(2)
    mpi = [
        {"OMPI_COMM_WORLD_RANK": f"{rank}", "OMPI_COMM_WORLD_SIZE": "2"}
        for rank in range(2)
    ]
    slurm = [
        {
            "SLURM_PROCID": f"{rank}",
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_STEP_TASKS_PER_NODE": "2",
            "SLURM_JOB_ID": "4711",
        }
        for rank in range(2)
    ]
    for variables, own in (
        (mpi, ("--cluster=mpi", f"--worker_hosts={','.join(hosts)}")),
        (slurm, ("--cluster=slurm",)),
    ):
        given = (*flags, *own, f"--output_dir=run-{own[0][10:]}")

        ends = workers.run(SCRIPT, given, tmp_path, environments=variables)

        assert [one.code for one in ends] == [0, 0], ends
