"""Runs the notebooks of docs/notebooks/ and keeps their output.

    python docs/run_notebooks.py                       # all, in place
    python docs/run_notebooks.py --output_dir=OTHER    # copies

A cell that raises, or whose command (`%%bash`) fails, ends the run with its
message. Lines that TensorFlow itself prints are not kept.
"""

import argparse
import os
import pathlib
import re
import sys

import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).resolve().parent / "notebooks"
_TENSORFLOW_LINES = re.compile(
    r"^(WARNING: All log messages before absl::|[IWE]0000 |To enable the "
    r"following instructions:).*\n?",
    re.M,
)
# Longest time of one cell.
SECONDS = 600


def main() -> None:
    """Runs all notebooks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--only", default="*", help="Name, without its ending.")
    options = parser.parse_args()
    # So that `python` is this one, as in an active environment.
    here = pathlib.Path(sys.executable).parent
    os.environ["PATH"] = f"{here}{os.pathsep}{os.environ['PATH']}"
    # Progress bars need ipywidgets; their last state says nothing.
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
    for path in sorted(FOLDER.glob(f"{options.only}.ipynb")):
        notebook = run(path)
        nbformat.write(notebook, options.output_dir / path.name)
        sys.stdout.write(f"{path.name}\n")


def run(path: pathlib.Path) -> nbformat.NotebookNode:
    """Returns a notebook with the output of its cells."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook,
        timeout=SECONDS,
        resources=resources,
        record_timing=False,
        coalesce_streams=True,
    ).execute()
    for cell in (one for one in notebook.cells if one.cell_type == "code"):
        for output in cell.outputs:
            if "text" in output:
                output.text = _TENSORFLOW_LINES.sub("", output.text)
        cell.outputs = [one for one in cell.outputs if one.get("text", "-")]
    return notebook


if __name__ == "__main__":
    main()
