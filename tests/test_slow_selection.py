"""Which slow tests run after `make test`, and for how long."""

import os
import shutil
import subprocess
import sys

import pytest

from tests import slow_selection

FILES = [
    "tests/cli/test_pages.py",
    "tests/data/test_deduplication.py",
    "tests/demo/test_run.py",
    "tests/modeling/fused/test_shared_weights.py",
    "tests/modeling/test_layers.py",
    "tests/test_docs.py",
    "tests/training/test_pretrain.py",
    "tests/training/test_step.py",
    "tests/training/test_tpu.py",
]


def select(*changed, day=2, salt=""):
    return slow_selection.select(FILES, changed, day=day, salt=salt)


@pytest.mark.parametrize(
    ("changed", "rooms"),
    [
        ("albert_tf/modeling/fused/attention.py", {"modeling"}),
        ("albert_tf/modeling/layers.py", {"modeling"}),
        ("albert_tf/config.py", {""}),
        ("tests/training/runs.py", {"training"}),
        ("tests/conftest.py", {""}),
        ("demo/run.py", {"demo"}),
        ("docs/keras.md", {"", "cli"}),
        ("Makefile", {""}),
    ],
)
def test_a_file_is_tested_in_the_folder_of_its_name(changed, rooms):
    assert slow_selection.rooms_of(changed) == rooms


def test_what_changed_comes_first_then_its_folder_then_a_part_of_the_rest():
    changed = ("tests/training/test_step.py", "albert_tf/training/step.py")

    step, *folder, rest = select(*changed)

    assert step == "tests/training/test_step.py"
    assert {*folder} == {
        "tests/training/test_pretrain.py",
        "tests/training/test_tpu.py",
    }
    assert rest == "tests/demo/test_run.py"


def test_eight_days_run_every_file_once_whatever_changed():
    days = [select(day=day) for day in range(8)]

    assert sorted(sum(days, [])) == FILES
    assert days == [select(day=day) for day in range(8, 16)]


def test_files_that_matter_equally_are_shuffled_by_the_commit():
    orders = {(*select("albert_tf/training/a.py", salt=s),) for s in "abcdef"}

    assert len(orders) > 1
    assert len({frozenset(order) for order in orders}) == 1


def test_files_with_slow_tests_are_found():
    found = slow_selection.slow_files()

    assert "tests/training/test_step.py" in found
    assert "tests/test_slow_selection.py" not in found
    assert "tests/test_config.py" not in found


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Makes commits by their hour; returns their names."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    monkeypatch.setattr(slow_selection, "ROOT", tmp_path)
    monkeypatch.delenv("ALBERT_TF_TESTS_SINCE", raising=False)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_")
    }
    environment |= {
        f"GIT_{who}_{what}": "x"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    environment["GIT_CONFIG_GLOBAL"] = os.devnull

    def git(*arguments, hour=0):
        date = f"{10**9 + hour * 60 * 60} +0000"
        done = subprocess.run(
            ["git", *arguments],
            cwd=tmp_path,
            env=environment | {"GIT_COMMITTER_DATE": date},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commits(*hours):
        git("init")
        for hour in hours:
            git("commit", "--allow-empty", "--message=x", hour=hour)
        return git("rev-list", "--reverse", "HEAD").split()

    commits.git = git
    return commits


def test_on_main_a_day_counts_as_lately(repository):
    _, last_of_before, *_ = repository(0, 20, 30, 45)

    assert slow_selection.first_unchanged_commit() == last_of_before


def test_all_is_new_in_a_repository_of_a_day(repository):
    repository(0, 1)

    base = slow_selection.first_unchanged_commit()

    assert repository.git("ls-tree", base) == ""


def test_a_branch_counts_from_where_it_left_main(repository, monkeypatch):
    _, landed, *_, newest = repository(0, 30, 31, 32)
    repository.git("update-ref", "refs/remotes/origin/main", landed)

    assert slow_selection.first_unchanged_commit() == landed
    # As in a clone of what was submitted.
    repository.git("update-ref", "refs/remotes/origin/main", newest)
    assert slow_selection.first_unchanged_commit() != landed
    monkeypatch.setenv("ALBERT_TF_TESTS_SINCE", "HEAD~1")
    assert slow_selection.first_unchanged_commit() == repository.git(
        "rev-parse", "HEAD~1"
    )


def test_tests_are_cut_off_and_left_out_but_failures_are_failures(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest, time\n"
        "def test_failing(): assert False\n"
        "class Late:\n"
        "    def __del__(self): time.sleep(2)\n"
        "@pytest.mark.parametrize('n', range(4))\n"
        "def test_long(n):\n"
        "    if n == 0: Late()\n"
        "    try:\n"
        "        while True: time.sleep(0.01)\n"
        "    except:\n"
        "        assert n != 1\n"
        "        raise\n"
        "def test_later(): assert False\n"
    )
    code = (
        "import sys, pytest\n"
        "from tests.slow_selection import TimeLimit\n"
        "sys.exit(pytest.main(['-rs', '-c', '/dev/null', 'test_it.py'],"
        " plugins=[TimeLimit(5)]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(slow_selection.ROOT)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1, done.stdout
    # One test takes a third of the time at most.
    for n in (0, 1):
        assert f"left out, cut off: test_it.py::test_long[{n}]" in done.stdout
    assert "left out, no time: test_it.py::test_later" in done.stdout
    assert "1 failed, 5 skipped" in done.stdout
