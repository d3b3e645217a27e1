r"""Answers texts on the command line, one line of JSON each.

    python -m albert_tf.predict mails "Meeting at ten"
    python -m albert_tf.predict squad "Who sat?" "The cat sat."
    python -m albert_tf.predict mails < texts.txt

A line of standard input is a text, or a JSON object of the names that
`albert_tf.load_predictor` lists, or a JSON list of two texts. The answer to a
line that is none of these is `{"error": ...}`, and the exit code is then 1.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from albert_tf import console
from albert_tf.cli import program
from albert_tf.tasks import inputs

if TYPE_CHECKING:
    from albert_tf.inference.predictor import Predictor
    from albert_tf.tasks.task_data import TextAnswer

# Lines that are read before the first is answered.
_CHUNK_SIZE = 4096


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return console.run(lambda: _predict(_parse_arguments(arguments)))


def _predict(options: argparse.Namespace) -> None:
    with program.quiet_import():
        from albert_tf.inference.predictor import load_predictor

    predictor = load_predictor(
        [options.path, *options.others] if options.others else options.path,
        head=options.head,
        max_seq_length=options.max_seq_length,
        depth=options.depth,
        vocabulary=options.vocabulary,
    )
    answers = _answer_lines(predictor)
    if options.text:
        first, *others = options.text
        one = (first, *others) if others else first
        answers = iter([predictor.predict(one)])
    errors = []
    for answer in answers:
        errors += [answer["error"]] if "error" in answer else []
        line = json.dumps(answer, ensure_ascii=False)
        if line != console.printable(line):
            line = json.dumps(answer)
        sys.stdout.write(line + "\n")
    if errors:
        raise ValueError(f"{len(errors)} lines have no answer. {errors[0]}")


def _answer_lines(predictor: "Predictor") -> Iterator["TextAnswer"]:
    lines = enumerate(sys.stdin.buffer, start=1)
    while chunk := list(itertools.islice(lines, _CHUNK_SIZE)):
        yield from _answers(predictor, chunk)


def _answers(
    predictor: "Predictor", lines: list[tuple[int, bytes]]
) -> list["TextAnswer"]:
    """Answers lines; halves them to find a line that cannot be answered."""
    try:
        parsed = [*itertools.starmap(inputs.parse_line, lines)]
        return [*predictor.predict(parsed)]
    except ValueError as error:
        if len(lines) == 1:
            reason = str(error).removeprefix("Input 0 ")
            return [{"error": f"Line {lines[0][0]}: {reason}"}]
    half = len(lines) // 2
    first, second = lines[:half], lines[half:]
    return _answers(predictor, first) + _answers(predictor, second)


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = console.ArgumentParser(
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
    parser.add_argument(
        "--with",
        dest="others",
        action="append",
        metavar="RUN",
        help="another run, to answer with the mean of both; may be repeated",
    )
    parser.add_argument(
        "--head",
        help="encoder, for vectors of texts; or package.module:SPEC",
    )
    parser.add_argument("--max_seq_length", type=int)
    parser.add_argument("--depth", type=int, help="layers to compute")
    parser.add_argument("--spm_model_file", "--vocab_file", dest="vocabulary")
    return parser.parse_intermixed_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
