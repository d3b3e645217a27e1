"""How a process ends while its input pipelines read."""

import collections
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize(
    ("num_normal", "num_raised"),
    [(1, 1), pytest.param(30, 20, marks=pytest.mark.slow)],
)
def test_a_process_ends_while_an_iterator_is_alive(num_normal, num_raised):
    done = subprocess.run(
        [
            *(sys.executable, FOLDER / "exits.py", FOLDER.parents[1]),
            *(str(num_normal), str(num_raised)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )

    endings = collections.Counter(done.stdout.split())
    assert endings == {"ended": num_normal, "raised": num_raised}
