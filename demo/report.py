"""The demo's report: curves, scores, and guesses at hidden words.

Data flow: folders of the runs -> [this file] -> report.html.
"""

import dataclasses
import importlib.metadata
import pathlib
import platform
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

import albert_tf
from albert_tf import files
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.metrics.scores import Score, Scores
from albert_tf.observers import report
from albert_tf.text.base import Tokenizer
from albert_tf.training.callbacks import Result

# Pretraining runs in the order of training; the last trains both objectives.
RUNS = ("short", "long")
NUM_BLANKS = 12
NUM_GUESSES = 3
MIN_HIDDEN_LETTERS = 2
# Shorter sentences give no hint, longer ones take too much of the page.
MIN_CHARACTERS, MAX_CHARACTERS = 40, 110
SEED = 1

_ACCURACIES = {
    "eval_masked_lm_accuracy": "masked words",
    "eval_sentence_order_accuracy": "sentence order",
}
_LOSSES = {"masked_lm_loss": "training", "eval_masked_lm_loss": "held out"}
# SentencePiece marks the tokens that begin a word.
_WORD_START = "▁"

Log = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blank:
    """A sentence with one hidden word, which is one token."""

    text: str  # with `[MASK]` instead of the word
    word: str
    ids: Sequence[int]  # with `[CLS]`, `[MASK]` and `[SEP]`
    position: int  # of the mask in `ids`


def write(
    folder: pathlib.Path,
    *,
    facts: Mapping[str, object],
    answers: Sequence[tuple[str, str]],
    results: Mapping[str, tuple[float, float]],
) -> None:
    """Writes `report.html`.

    `answers` are texts sent to the exported models, and what came back;
    `results` accuracies by name, each with its baseline.
    """
    runs = {name: folder / f"pretraining_{name}" for name in RUNS}
    logs = {
        name: files.read_json_lines(run / "metrics.jsonl")
        for name, run in runs.items()
    }
    first, *_, last = runs.values()
    models = {
        "Before training": _load_model(first, min(first.glob("checkpoints/*"))),
        "After": _load_model(last, last / "best"),
    }
    tokenizer = albert_tf.load_tokenizer(
        spm_model_file=folder / "vocabulary.model"
    )
    sentences = files.read_text(folder / "held_out.txt").splitlines()
    blanks = choose_blanks(sentences, tokenizer)
    guesses = [guess(model, blanks, tokenizer) for model in models.values()]
    scores: list[Score] = []
    for name, (score, baseline) in results.items():
        scores += [Score(name, score), Score.baseline(name, baseline)]
    report.write(
        folder / "report.html",
        title="A small ALBERT, pretrained on docstrings",
        facts={**facts, **_facts(models["After"], logs)},
        result=Result(
            scores=Scores(entries=tuple(scores)),
            evaluation=Metadata.read(last / "best").evaluation,
        ),
        metric=_ACCURACIES["eval_masked_lm_accuracy"],
        sections=[
            {
                "title": "Raw text sent to the exported models",
                "header": ["Text", "Answer"],
                "rows": answers,
            },
            {
                "title": "Accuracy on the held-out text",
                "unit": "share",
                "curves": _curves(logs, _ACCURACIES),
            },
            {
                "title": "Masked-LM loss",
                "unit": "nats",
                "curves": _curves(logs, _LOSSES),
            },
            {
                "title": "Hidden words of the held-out text, and what the "
                "model guesses",
                "header": ["Sentence", "Hidden", *models],
                "rows": [
                    (blank.text, blank.word, *guessed)
                    for blank, *guessed in zip(blanks, *guesses, strict=True)
                ],
            },
        ],
    )


def choose_blanks(
    sentences: Sequence[str], tokenizer: Tokenizer
) -> list[Blank]:
    """Hides a random word in each of up to `NUM_BLANKS` random sentences.

    Only words of at least `MIN_HIDDEN_LETTERS` letters that are one token are
    hidden.
    """
    rng = random.Random(SEED)
    special = tokenizer.special_ids
    blanks: list[Blank] = []
    for sentence in rng.sample(sentences, len(sentences)):
        if not MIN_CHARACTERS <= len(sentence) <= MAX_CHARACTERS:
            continue
        ids, spans = tokenizer.encode_with_offsets(sentence)
        words = [
            (position, *span)
            for position, span in enumerate(spans)
            if tokenizer.id_to_token(ids[position]).startswith(_WORD_START)
            and _is_whole_word(sentence, *span)
        ]
        if words and len(blanks) < NUM_BLANKS:
            position, start, end = rng.choice(words)
            masked = [*ids[:position], special.mask, *ids[position + 1 :]]
            blank = Blank(
                text=f"{sentence[:start]}[MASK]{sentence[end:]}",
                word=sentence[start:end],
                ids=[special.cls, *masked, special.sep],
                position=position + 1,
            )
            blanks.append(blank)
    return blanks


def guess(
    model: albert_tf.PretrainingModel,
    blanks: Sequence[Blank],
    tokenizer: Tokenizer,
) -> list[str]:
    """Returns the likeliest words of each blank, with probabilities."""
    length = max(len(blank.ids) for blank in blanks)
    pad_id = tokenizer.special_ids.pad
    rows = [[*b.ids, *[pad_id] * (length - len(b.ids))] for b in blanks]
    input_ids = np.array(rows, np.int32)
    positions = [[blank.position] for blank in blanks]
    outputs = model(
        {
            "input_ids": input_ids,
            "input_mask": (input_ids != pad_id).astype(np.int32),
            "segment_ids": np.zeros_like(input_ids),
            "masked_lm_positions": np.array(positions, np.int32),
        },
        training=False,
    )
    logits = outputs["masked_lm_logits"][:, 0]  # [B, V]
    tokens = map(tokenizer.id_to_token, range(tokenizer.vocab_size))
    words = {
        i: token[1:]
        for i, token in enumerate(tokens)
        if token.startswith(_WORD_START) and token[1:].isalpha()
    }
    guesses = []
    for row in ops.convert_to_numpy(ops.softmax(logits)):
        best = sorted(words, key=lambda i: -row[i])[:NUM_GUESSES]
        guesses.append(", ".join(f"{words[i]} {row[i]:.1%}" for i in best))
    return guesses


def _is_whole_word(sentence: str, start: int, end: int) -> bool:
    around = sentence[max(start - 1, 0) : start] + sentence[end : end + 1]
    return (
        end - start >= MIN_HIDDEN_LETTERS
        and sentence[start:end].isalpha()
        and not any(c.isalnum() or c in "_'" for c in around)
    )


def _load_model(
    run: pathlib.Path, checkpoint: pathlib.Path
) -> albert_tf.PretrainingModel:
    config = albert_tf.AlbertConfig.from_json_file(run / "albert_config.json")
    model = albert_tf.PretrainingModel(config, objectives=["mlm"])
    albert_tf.load_checkpoint(model, checkpoint)
    return model


def _facts(
    model: albert_tf.PretrainingModel, logs: Mapping[str, Log]
) -> dict[str, str]:
    packages = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("tensorflow", "keras")
    )
    speeds = [
        f"{np.median([value for _, value in points]):.0f} ({name})"
        for name, log in logs.items()
        if (points := report.points(log, "sequences_per_second"))
    ]
    return {
        "Parameters": f"{model.count_params():,}",
        "Sequences per second (median)": ", ".join(speeds),
        "Made with": f"Python {platform.python_version()}, {packages}",
    }


def _curves(
    logs: Mapping[str, Log], keys: Mapping[str, str]
) -> dict[str, list[tuple[float, float]]]:
    """Returns the named keys of all runs, one run after the other."""
    curves = {}
    first_step = 0
    for name, log in logs.items():
        for key, title in keys.items():
            if points := report.points(log, key):
                curves[f"{title} ({name})"] = [
                    (first_step + step, value) for step, value in points
                ]
        first_step += log[-1]["step"]
    return curves
