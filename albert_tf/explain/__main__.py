r"""Shows which words an answer depends on: each is left out once.

    python -m albert_tf.explain mails "Meeting at ten"
    python -m albert_tf.explain squad "Who sat?" "The cat sat."
    python -m albert_tf.explain mails

Without a text, the worst errors of the evaluation of a run are explained. A
terminal shows colors; else there is a line for each word: by how much the
probability (a number, a score) is higher with the word than without it. This is
what the answer depends on (occlusion), not why it is given.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import console
from albert_tf.cli import program

_NUM_ERRORS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return console.run(lambda: _explain(_parse_arguments(arguments)))


def _explain(options: argparse.Namespace) -> None:
    with program.quiet_import():
        from albert_tf.inference.predictor import load_predictor

    predictor = load_predictor(options.path)
    inputs = {"": options.text} if options.text else _errors(options.path)
    for title, texts in inputs.items():
        item = tuple(texts) if len(texts) > 1 else texts[0]
        explanation = predictor.explain(item, label=options.label)
        text = explanation.as_text(has_colors=sys.stdout.isatty())
        sys.stdout.write(console.printable(title) + text)


def _errors(path: str) -> dict[str, list[str]]:
    """Returns the texts of the worst errors of a run, by title."""
    from albert_tf.checkpoints import discovery
    from albert_tf.training import run_tables

    metadata = discovery.open(path).metadata
    rows = run_tables.errors(run_tables.predictions(path, metadata))
    inputs = {
        f"\nid {row['id']}, label {row['label']}\n": texts
        for row in rows[:_NUM_ERRORS]
        if any(texts := _texts(row))
    }
    if not inputs:
        raise ValueError(f"{path} has no errors with texts. Pass a text.")
    return inputs


def _texts(row: Mapping[str, Any]) -> list[str]:
    """Returns the text of a row, or two; the first may be empty."""
    if row.get("text_b"):
        return [row["text_a"], row["text_b"]]
    return [row.get("text_a") or row.get("text") or ""]


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = console.ArgumentParser(
        prog="python -m albert_tf.explain",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="RUN", help="as of albert_tf.predict")
    parser.add_argument("text", nargs="*", help="a text, or two")
    parser.add_argument(
        "--label", help="explain this label's probability; default: predicted"
    )
    return parser.parse_intermixed_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
