"""Times making fine-tuning records beside the bare SentencePiece encoder.

    python benchmarks/feature_making.py --spm_model_file=30k-clean.model \
        --squad_file=dev-v1.1.json --race_file='RACE/dev/*/*.txt' \
        --glue_file=qnli=QNLI/dev.tsv

One process on one core. The examples of each task are read; then their records
are made as for training, in turn with bare `SentencePieceProcessor.encode` of
the same strings (of what several questions share, once), `--alternations`
times after one that does not count. Times are processor time, which other
processes disturb less. Questions (GLUE: rows) a second are by the median; the
share of the bare encoder is the median of the pairwise ratios. The last line of
the output is one JSON object.
"""

import argparse
import glob
import json
import logging
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
GLUE_LENGTH = 128


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--squad_file", help="JSON of version 1.1 or 2.0")
    parser.add_argument("--race_file", help="glob of files of questions")
    parser.add_argument(
        "--glue_file", metavar="TASK=PATH", help="labelled TSV of a GLUE task"
    )
    parser.add_argument("--alternations", type=int, default=5)
    arguments = parser.parse_args()
    if not (arguments.squad_file or arguments.race_file or arguments.glue_file):
        parser.error("pass --squad_file, --race_file or --glue_file")
    return arguments


def read_squad(path: str, tokenizer: Any) -> tuple[Any, Any, list[str]]:
    """Returns a task's data half, its examples, and their strings."""
    from albert_tf.tasks.squad import examples as examples_lib
    from albert_tf.tasks.squad.data import SquadData
    from albert_tf.tasks.squad.predictions import SpanLimits
    from albert_tf.tasks.squad.windows import WindowLengths

    examples = examples_lib.read_examples(path)
    data = SquadData(
        tokenizer=tokenizer,
        lengths=WindowLengths(),
        limits=SpanLimits(),
        version_2_with_negative=any(e.is_impossible for e in examples),
    )
    contexts = dict.fromkeys(example.context for example in examples)
    texts = [*contexts, *(example.question for example in examples)]
    return data, data.questions(examples), texts


def read_race(pattern: str, tokenizer: Any) -> tuple[Any, Any, list[str]]:
    """Returns a task's data half, its examples, and their strings."""
    from albert_tf.tasks.race import examples as race
    from albert_tf.tasks.race.data import MultipleChoiceData
    from albert_tf.tasks.race.examples import ChoiceLengths

    examples = [
        example
        for path in sorted(glob.glob(pattern))
        for example in race.read_questions(path)
    ]
    if not examples:
        sys.exit(f"error: there is no file {pattern!r}")
    data = MultipleChoiceData(
        tokenizer=tokenizer,
        lengths=ChoiceLengths(),
        num_choices=len(examples[0].options),
    )
    texts = list(dict.fromkeys(example.article for example in examples))
    for example in examples:
        texts += example.choice_texts()
    return data, examples, texts


def read_glue(argument: str, tokenizer: Any) -> tuple[Any, Any, list[str]]:
    """Returns a task's data half, its examples, and their strings."""
    from albert_tf.tasks.classification import glue
    from albert_tf.tasks.classification.data import ClassificationData

    task_name, _, path = argument.partition("=")
    dataset = glue.GLUE_DATASETS[task_name]
    examples = glue.read_examples(dataset, path, "dev")
    data = ClassificationData(
        name=dataset.name,
        labels=dataset.labels,
        score_names=dataset.score_names,
        tokenizer=tokenizer,
        max_seq_length=GLUE_LENGTH,
    )
    texts = [text for e in examples for text in (e.text_a, e.text_b) if text]
    return data, examples, texts


def seconds_of(call: Callable[[], object]) -> float:
    """Times one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(
    data: Any,
    examples: Sequence[Any],
    encode: Callable[[], object],
    num_alternations: int,
) -> dict[str, Any]:
    """Times making records and bare encoding in turn."""

    def make_records() -> int:
        return sum(1 for _ in data.records(examples, is_training=True))

    num_records = make_records()
    encode()
    own, bare = [], []
    for _ in range(num_alternations):
        own.append(seconds_of(make_records))
        bare.append(seconds_of(encode))
    shares = [b / o for b, o in zip(bare, own, strict=True)]
    return {
        "questions": len(examples),
        "records": num_records,
        "questions_per_second": round(len(examples) / statistics.median(own)),
        "bare_share": round(statistics.median(shares), 3),
    }


def main() -> None:
    """Measures, and prints."""
    arguments = parse_arguments()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    logging.disable(logging.WARNING)
    sys.path.insert(0, str(ROOT))
    import sentencepiece

    from albert_tf.text.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(spm_model_file=arguments.spm_model_file)
    processor = sentencepiece.SentencePieceProcessor(
        model_file=arguments.spm_model_file
    )
    result = {}
    for name, read in (
        ("squad", read_squad),
        ("race", read_race),
        ("glue", read_glue),
    ):
        source = getattr(arguments, f"{name}_file")
        if source:
            data, examples, texts = read(source, tokenizer)
            figures = measure(
                data,
                examples,
                lambda texts=texts: processor.encode(texts, num_threads=1),
                arguments.alternations,
            )
            result |= {f"{name}_{key}": v for key, v in figures.items()}
    for key, value in result.items():
        print(f"{key:28} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
