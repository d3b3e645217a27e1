"""The demo's report: curves, scores, and guesses at hidden words.

Data flow: folders of the runs -> [this file] -> report.html.
Floor: demo.
"""

import dataclasses
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

NUM_BLANKS = 12
NUM_GUESSES = 3
MIN_HIDDEN_LETTERS = 2
# Shorter ones give no hint, longer ones take too much of the page.
MIN_CHARACTERS, MAX_CHARACTERS = 40, 110
SEED = 1

_ACCURACIES = {
    "eval_masked_lm_accuracy": "masked words",
    "eval_sentence_order_accuracy": "sentence order",
}

_LOSSES = {"masked_lm_loss": "training", "eval_masked_lm_loss": "held out"}

Log = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blank:
    """A sentence with one hidden word.

    Args:
        text: The sentence, with `[MASK]` instead of the word.
        word: The word, which is one token of the vocabulary.
        ids: Ids of `[CLS]`, the sentence, one of them masked, and `[SEP]`.
        position: Index of the mask in `ids`.
    """

    text: str
    word: str
    ids: Sequence[int]
    position: int


def write(
    path: files.Path,
    *,
    runs: Mapping[str, files.Path],
    held_out_text: files.Path,
    spm_model_file: files.Path,
    facts: Mapping[str, object],
    answers: Sequence[tuple[str, str]],
) -> str:
    """Writes the page.

    Args:
        path: The file to write.
        runs: Output directories of the pretraining runs by name, in the order
            of training; the last run trains both objectives.
        held_out_text: Text to hide words in, one sentence a line.
        spm_model_file: The vocabulary.
        facts: Shown first.
        answers: Texts sent to the exported models, and their answers.

    Returns:
        The final scores on the held-out text, as a phrase.
    """
    logs = {
        name: files.read_json_lines(os.path.join(folder, "metrics.jsonl"))
        for name, folder in runs.items()
    }
    first, *_, last = runs.values()
    beginning = min(os.listdir(os.path.join(first, "checkpoints")))
    models = {
        "Before training": _load_model(first, f"checkpoints/{beginning}"),
        "After": _load_model(last, "best"),
    }
    tokenizer = albert_tf.load_tokenizer(spm_model_file=spm_model_file)
    sentences = files.read_text(held_out_text).splitlines()
    blanks = choose_blanks(sentences, tokenizer)
    report.write(
        path,
        title="A small ALBERT, pretrained on docstrings",
        facts={**facts, **_facts(models["After"], logs)},
        sections=[
            _scores(logs),
            report.Chart(
                title="Accuracy on the held-out text",
                unit="share",
                curves=_curves(logs, _ACCURACIES),
            ),
            report.Chart(
                title="Masked-LM loss",
                unit="nats",
                curves=_curves(logs, _LOSSES),
            ),
            _guesses(models, blanks, tokenizer),
            report.Table(
                title="Raw text sent to the exported models",
                header=["Text", "Answer"],
                rows=answers,
            ),
        ],
    )
    *_, final = logs.values()
    return ", ".join(
        f"{title} {report.points(final, key)[-1][1]:.1%}"
        for key, title in _ACCURACIES.items()
    )


def choose_blanks(
    sentences: Sequence[str], tokenizer: Tokenizer
) -> list[Blank]:
    """Hides a random word in each of up to `NUM_BLANKS` random sentences.

    Only words of at least `MIN_HIDDEN_LETTERS` letters that are one token are
    hidden.
    """
    rng = random.Random(SEED)
    blanks: list[Blank] = []
    for sentence in rng.sample(sentences, len(sentences)):
        if not MIN_CHARACTERS <= len(sentence) <= MAX_CHARACTERS:
            continue
        ids, spans = tokenizer.encode_with_offsets(sentence)
        whole_words = [
            position
            for position, span in enumerate(spans)
            if tokenizer.id_to_token(ids[position]).startswith("▁")
            and _is_whole_word(sentence, *span)
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
    """Returns the likeliest words of each blank, with probabilities."""
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
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.vocab_size)]
    # A token that begins a word begins with "▁".
    words = [i for i, token in enumerate(tokens) if token[1:].isalpha()]
    words = [i for i in words if tokens[i].startswith("▁")]
    words.sort(key=lambda i: -probabilities[i])
    return ", ".join(
        f"{tokens[i][1:]} {probabilities[i]:.1%}" for i in words[:NUM_GUESSES]
    )


def _guesses(
    models: Mapping[str, albert_tf.PretrainingModel],
    blanks: Sequence[Blank],
    tokenizer: Tokenizer,
) -> report.Table:
    guesses = [guess(model, blanks, tokenizer) for model in models.values()]
    sentences = [blank.text for blank in blanks]
    words = [blank.word for blank in blanks]
    return report.Table(
        title="Hidden words of the held-out text, and what the model guesses",
        header=["Sentence", "Hidden", *models],
        rows=list(zip(sentences, words, *guesses, strict=True)),
    )


def _load_model(
    run_folder: files.Path, folder: str
) -> albert_tf.PretrainingModel:
    config_file = os.path.join(run_folder, "albert_config.json")
    config = albert_tf.AlbertConfig.from_json_file(config_file)
    model = albert_tf.PretrainingModel(config, objectives=["mlm"])
    albert_tf.load_checkpoint(model, os.path.join(run_folder, folder))
    return model


def _facts(
    model: albert_tf.PretrainingModel, logs: Mapping[str, Log]
) -> dict[str, str]:
    packages = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("tensorflow", "keras")
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


def _scores(logs: Mapping[str, Log]) -> report.Table:
    """Returns the first and the last evaluation of each run."""
    curves = _curves(logs, _ACCURACIES)
    return report.Table(
        title="Held-out text",
        header=["Accuracy (sequences)", "Before the run", "After"],
        rows=[
            (name, f"{points[0][1]:.1%}", f"{points[-1][1]:.1%}")
            for name, points in curves.items()
        ],
    )


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
