"""The demo's report: curves, scores, and guesses at hidden words.

Data flow: a pretraining run's folder -> [this file] -> report.html.
Floor: scripts; for `demo.py`.
"""

import dataclasses
import json
import os
import platform
import random
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from keras import ops

import albert_tf
from albert_tf import files
from albert_tf.text.tokenizer import Tokenizer
from albert_tf.training import report

NUM_BLANKS = 10
NUM_GUESSES = 3
MIN_HIDDEN_LETTERS = 4
MAX_SENTENCE_CHARACTERS = 110
SEED = 1

_SCORES = {
    "masked_lm_loss": "Masked-LM loss, nats",
    "masked_lm_accuracy": "Masked-LM accuracy",
    "sentence_order_loss": "Sentence-order loss, nats",
    "sentence_order_accuracy": "Sentence-order accuracy",
}

Log = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blank:
    """A sentence with one word hidden.

    Args:
        text: The sentence, with `[MASK]` in the place of the word.
        word: The word, which is one token of the vocabulary.
        ids: Ids of the sentence between `[CLS]` and `[SEP]`, one masked.
        position: Where in `ids` the mask is.
    """

    text: str
    word: str
    ids: Sequence[int]
    position: int


def write(
    path: str,
    *,
    run_folder: str,
    held_out_text: str,
    spm_model_file: str,
    facts: Mapping[str, object],
) -> tuple[float, float]:
    """Writes the page.

    Args:
        path: Where to.
        run_folder: `--output_dir` of the pretraining.
        held_out_text: Text to hide words in, one sentence a line.
        spm_model_file: The vocabulary.
        facts: Shown on top, before those found in `run_folder`.

    Returns:
        Masked-LM loss on the held-out text, before and after.
    """
    log_text = files.read_text(os.path.join(run_folder, "metrics.jsonl"))
    log = [json.loads(line) for line in log_text.splitlines()]
    evaluations = [line for line in log if "eval_masked_lm_loss" in line]
    before, after = evaluations[0], evaluations[-1]
    tokenizer = albert_tf.load_tokenizer(spm_model_file=spm_model_file)
    sentences = files.read_text(held_out_text).splitlines()
    blanks = choose_blanks(sentences, tokenizer)
    report.write_report(
        path,
        title="A small ALBERT, pretrained on Python's own help()",
        facts={**facts, **_run_facts(run_folder, log)},
        charts=_charts(log),
        tables=[
            _scores_table(before, after),
            _guesses_table(run_folder, blanks, tokenizer),
        ],
    )
    return before["eval_masked_lm_loss"], after["eval_masked_lm_loss"]


def choose_blanks(
    sentences: Sequence[str], tokenizer: Tokenizer
) -> list[Blank]:
    """Hides a random word in each of up to ten random sentences.

    Only words of four letters or more that are one token are hidden.
    """
    rng = random.Random(SEED)
    blanks: list[Blank] = []
    for sentence in rng.sample(sentences, len(sentences)):
        if not 0 < len(sentence) <= MAX_SENTENCE_CHARACTERS:
            continue
        ids, spans = tokenizer.encode_with_offsets(sentence)
        whole_words = [
            position
            for position, span in enumerate(spans)
            if _is_whole_word(sentence, *span)
        ]
        if whole_words and len(blanks) < NUM_BLANKS:
            position = rng.choice(whole_words)
            blank = _hide(sentence, ids, position, spans[position], tokenizer)
            blanks.append(blank)
    return blanks


def guess(
    model: albert_tf.PretrainingModel,
    blanks: Sequence[Blank],
    tokenizer: Tokenizer,
) -> list[str]:
    """Returns the likeliest tokens of each blank, with probabilities."""
    length = max(len(blank.ids) for blank in blanks)
    pad_id = tokenizer.special_ids.pad
    rows = [[*b.ids, *[pad_id] * (length - len(b.ids))] for b in blanks]
    masks = [[int(i < len(b.ids)) for i in range(length)] for b in blanks]
    outputs = model(
        {
            "input_ids": np.array(rows, np.int32),
            "input_mask": np.array(masks, np.int32),
            "segment_ids": np.zeros((len(blanks), length), np.int32),
            "masked_lm_positions": np.array(
                [[blank.position] for blank in blanks], np.int32
            ),
        },
        training=False,
    )
    logits = outputs["masked_lm_logits"][:, 0]  # [B, V]
    probabilities = ops.convert_to_numpy(ops.softmax(logits))
    return [_describe_guesses(row, tokenizer) for row in probabilities]


def _hide(
    sentence: str,
    ids: Sequence[int],
    position: int,
    span: tuple[int, int],
    tokenizer: Tokenizer,
) -> Blank:
    special = tokenizer.special_ids
    start, end = span
    masked = [*ids[:position], special.mask, *ids[position + 1 :]]
    return Blank(
        text=f"{sentence[:start]}[MASK]{sentence[end:]}",
        word=sentence[start:end],
        ids=[special.cls, *masked, special.sep],
        position=position + 1,
    )


def _is_whole_word(sentence: str, start: int, end: int) -> bool:
    around = sentence[max(start - 1, 0) : start] + sentence[end : end + 1]
    return (
        end - start >= MIN_HIDDEN_LETTERS
        and sentence[start:end].isalpha()
        and not any(c.isalnum() or c in "_'" for c in around)
    )


def _describe_guesses(probabilities: np.ndarray, tokenizer: Tokenizer) -> str:
    best = np.argsort(-probabilities)[:NUM_GUESSES]
    tokens = [tokenizer.id_to_token(int(i)).lstrip("▁") or "▁" for i in best]
    return ", ".join(
        f"“{token}” {share:.1%}"
        for token, share in zip(tokens, probabilities[best], strict=True)
    )


def _guesses_table(
    run_folder: str, blanks: Sequence[Blank], tokenizer: Tokenizer
) -> report.Table:
    first = min(os.listdir(os.path.join(run_folder, "checkpoints")))
    columns = [[blank.text for blank in blanks], [b.word for b in blanks]]
    for folder in (os.path.join("checkpoints", first), "best"):
        model = _load_model(run_folder, folder)
        columns.append(guess(model, blanks, tokenizer))
    return report.Table(
        title="Hidden words of the held-out text",
        header=["Sentence", "Hidden", "Before training", "After"],
        rows=list(zip(*columns, strict=True)),
    )


def _load_model(run_folder: str, folder: str) -> albert_tf.PretrainingModel:
    config_file = os.path.join(run_folder, "albert_config.json")
    config = albert_tf.AlbertConfig.from_json_file(config_file)
    model = albert_tf.PretrainingModel(config)
    albert_tf.load_checkpoint(model, os.path.join(run_folder, folder))
    return model


def _run_facts(run_folder: str, log: Log) -> dict[str, str]:
    model = _load_model(run_folder, "best")
    speed = np.median(_curve(log, "sequences_per_second"), axis=0)[1]
    packages = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("tensorflow", "keras")
    )
    return {
        "Parameters": f"{model.count_params():,}",
        "Steps": str(log[-1]["step"]),
        "Speed": f"{speed:.0f} sequences per second (median)",
        "Made with": f"Python {platform.python_version()}, {packages}",
    }


def _scores_table(
    before: Mapping[str, float], after: Mapping[str, float]
) -> report.Table:
    return report.Table(
        title="Scores on the held-out text",
        header=["", "Before training", "After"],
        rows=[
            [
                title,
                f"{before[f'eval_{key}']:.3f}",
                f"{after[f'eval_{key}']:.3f}",
            ]
            for key, title in _SCORES.items()
        ],
    )


def _charts(log: Log) -> list[report.Chart]:
    charts = [
        report.Chart(
            title=title,
            unit="nats",
            curves={
                "training": _curve(log, key),
                "held out": _curve(log, f"eval_{key}"),
            },
        )
        for title, key in (
            ("Masked-LM loss", "masked_lm_loss"),
            ("Sentence-order loss", "sentence_order_loss"),
        )
    ]
    rate = report.Chart(
        title="Learning rate",
        unit="rate",
        curves={"learning rate": _curve(log, "learning_rate")},
    )
    return [*charts, rate]


def _curve(log: Log, key: str) -> list[tuple[float, float]]:
    return [(line["step"], line[key]) for line in log if key in line]
