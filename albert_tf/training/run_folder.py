"""The folder of a run: whose it is, and what it leaves behind.

Floor: training. Plain Python.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.config import AlbertConfig

IDENTITY_FILE = "run.json"
CONFIG_FILE = "albert_config.json"
FLAGS_FILE = "flags.txt"
RESULTS_FILE = "eval_results.json"


def claim(
    output_dir: str, *, config: AlbertConfig, identity: Mapping[str, Any]
) -> None:
    """Makes the folder of a run, or checks that it is this run's.

    Args:
        output_dir: The folder; missing parents are made.
        config: Written to it as `albert_config.json`.
        identity: Everything that decides the numbers of the run, as JSON
            values. A folder whose run had another identity is refused.

    Raises:
        ValueError: The folder belongs to another run, or holds files of
            something else.
    """
    wanted = {"config": config.to_dict(), **identity}
    path = os.path.join(files.check_local(output_dir), IDENTITY_FILE)
    if os.path.exists(path):
        _check_same(output_dir, json.loads(files.read_text(path)), wanted)
        return
    if os.path.isdir(output_dir) and os.listdir(output_dir):
        raise ValueError(
            f"{output_dir!r} holds files but no {IDENTITY_FILE}, so they are "
            "not a run's. Pass another --output_dir, or empty it."
        )
    config.to_json_file(os.path.join(output_dir, CONFIG_FILE))
    files.write_text(path, json.dumps(wanted, indent=2) + "\n")


def _check_same(
    output_dir: str, found: Mapping[str, Any], wanted: Mapping[str, Any]
) -> None:
    wanted = json.loads(json.dumps(wanted))
    different = [
        f"{name}={found.get(name)!r} (now {wanted.get(name)!r})"
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name)
    ]
    if different:
        raise ValueError(
            f"{output_dir!r} belongs to another run, with "
            f"{'; '.join(different)}. Pass another --output_dir, or the same "
            "settings to go on with that run."
        )


def write_flags(output_dir: str, lines: str) -> None:
    """Writes the flags of the command, one `--name=value` a line."""
    files.write_text(os.path.join(output_dir, FLAGS_FILE), lines)


def write_results(output_dir: str, results: Mapping[str, Any]) -> None:
    """Writes `eval_results.json`."""
    text = json.dumps(dict(results), indent=2, sort_keys=True)
    files.write_text(os.path.join(output_dir, RESULTS_FILE), text + "\n")
