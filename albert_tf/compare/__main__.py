"""Compares runs that were evaluated: scores, settings, answers.

    python -m albert_tf.compare mails mails_large --output=comparison.html

Each run is compared with the first, by McNemar's test of the answers.
"""

import argparse
import sys
from collections.abc import Sequence

from albert_tf import console
from albert_tf.cli import program


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return console.run(lambda: _compare(arguments))


def _compare(arguments: Sequence[str] | None) -> None:
    parser = console.ArgumentParser(
        prog="python -m albert_tf.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="its folder")
    parser.add_argument("--output", help="a page to write, .html")
    options = parser.parse_args(arguments)
    with program.quiet_import():
        from albert_tf.observers import comparison

    tables = comparison.sections(options.runs)
    sys.stdout.write(console.printable(comparison.as_text(tables)))
    if options.output:
        comparison.write(options.output, options.runs, tables)


if __name__ == "__main__":
    sys.exit(main())
