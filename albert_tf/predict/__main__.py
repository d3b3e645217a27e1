r"""Answers texts on the command line, one line of JSON each.

    python -m albert_tf.predict mails "Meeting at ten"
    python -m albert_tf.predict squad "Who sat?" "The cat sat."
    python -m albert_tf.predict mails < texts.txt

A line of standard input is a text, or a JSON object of the names that
`albert_tf.load_predictor` lists, or a JSON list of two texts.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf.cli import program


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parse_arguments(arguments)
    try:
        with program.quiet_import():
            from albert_tf.inference.predictor import load_predictor

        predictor = load_predictor(
            options.path,
            head=options.head,
            max_seq_length=options.max_seq_length,
        )
        inputs: Any = _lines()
        if options.text:
            inputs = [
                options.text[0]
                if len(options.text) == 1
                else tuple(options.text)
            ]
        for answer in predictor.predict(inputs):
            if "vector" in answer:
                answer["vector"] = answer["vector"].tolist()
            line = json.dumps(answer, ensure_ascii=False)
            sys.stdout.write(program.printable(line) + "\n")
    except (ValueError, OSError) as error:
        message = program.printable(" ".join(str(error).split()))
        sys.stderr.write(f"error: {message}\n")
        return program.EXIT_USER_ERROR
    except KeyboardInterrupt:
        return program.EXIT_INTERRUPTED
    return 0


def _lines() -> Iterator[Any]:
    for number, line in enumerate(sys.stdin, start=1):
        text = line.rstrip("\n")
        if not text.startswith(("{", "[")):
            yield text
            continue
        try:
            value = json.loads(text)
        except ValueError as error:
            # A text may begin like JSON, such as `[MASK] is here.`
            if text.startswith("["):
                yield text
                continue
            raise ValueError(f"Line {number} is not JSON: {error}") from error
        yield tuple(value) if isinstance(value, list) else value


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m albert_tf.predict",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path",
        metavar="RUN",
        help="a run, or a folder of any format with config and vocabulary",
    )
    parser.add_argument(
        "text",
        nargs="*",
        help="a text, or two; without, the lines of standard input",
    )
    parser.add_argument("--head", help="encoder, for vectors of texts")
    parser.add_argument("--max_seq_length", type=int)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
