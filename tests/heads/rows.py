"""The table of heads: one row has all that the tests of every head need.

A new head, or another kind of task for one, is a row here and nothing else.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests import tiny
from tests.heads import toy

CONFIG = tiny.config(
    vocab_size=300, num_hidden_layers=1, max_position_embeddings=32
)
WORDS = ("cat", "dog", "fox", "hen")
LONG = "The snow fell on the hills of the old man. " * 4
TEXTS = ["The cat sat.", "Zoë: 25 dogs, or a FOX?", LONG]

# Arrays as `saved_model_cli show --all` prints them: dtype and shape, in which
# -1 is a size that a request decides. H = 8, V = 300.
TEXT = ("string", -1)
FLOAT = ("float32", -1)
INT = ("int32", -1)
PAIR = {"text_a": TEXT, "text_b": TEXT}
QUESTION = {"question": TEXT, "context": TEXT}
CHOICES = {"article": TEXT, "question": TEXT, "options": ("string", -1, 4)}
IDS = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), (*INT, -1))
ENCODED = {
    "sequence_output": (*FLOAT, -1, 8),
    "pooled_output": (*FLOAT, 8),
}
SPAN = dict.fromkeys(("logit", "null_score"), FLOAT)
SPAN |= {"answer": TEXT, "start": INT, "end": INT}


def near(value, tolerance=1e-5):
    """Returns a pattern that matches an answer up to rounding."""
    again = functools.partial(near, tolerance=tolerance)
    if isinstance(value, dict):
        return {name: again(one) for name, one in value.items()}
    if isinstance(value, list):
        return [*map(again, value)]
    if isinstance(value, float | np.ndarray):
        return pytest.approx(value, abs=tolerance, rel=tolerance)
    return value


def batch_of(model, tokenizer):
    """Returns pairs of ids with padding, and the other inputs of a model.

    B = 3, C = 4, S = 12. Answers may be in the context, or at `[CLS]`.
    """
    special = tokenizer.special_ids
    shape = (3, 4, 12) if model.input_rank == 3 else (3, 12)
    ids = np.random.default_rng(1).integers(5, 300, shape)
    ids[..., 0], ids[..., [2, 9]] = special.cls, special.sep
    place = np.arange(12)
    mask = np.broadcast_to(place < 10, shape)
    values = {
        "input_ids": np.where(mask, ids, special.pad),
        "input_mask": mask,
        "segment_ids": mask & (place > 2),
        "masked_lm_positions": ids[:, 3:5] % 9,
        "p_mask": ~np.isin(place, [0, *range(3, 9)]) & (ids > 0),
    }
    specs = model.input_specs()
    return {name: values[name].astype(specs[name].dtype) for name in specs}


def by_name(found):
    """Yields the outputs of each request as an answer of the same names."""
    for row in zip(*found.values(), strict=True):
        values = (
            x.decode() if isinstance(x, bytes) else x.tolist() for x in row
        )
        yield dict(zip(found, values, strict=True))


def _masks(found):
    for row in by_name(found):
        columns = row["top_tokens"], row["top_probabilities"]
        pairs = [zip(*best, strict=True) for best in zip(*columns, strict=True)]
        masks = [
            [{"token": t.decode(), "probability": p} for t, p in best]
            for best in pairs
        ]
        yield {"masks": masks[: row["num_masks"]]}


def _labels(found):
    for row in by_name(found):
        names = [label.decode() for label in row.pop("labels")]
        pairs = zip(names, row["probabilities"], strict=True)
        yield row | {"probabilities": dict(pairs)}


def _entities(found):
    for row in by_name(found):
        columns = map(row.get, ("labels", "starts", "ends", "scores"))
        yield {
            "entities": [
                {"label": label.decode(), "start": a, "end": b, "score": score}
                for label, a, b, score in zip(*columns, strict=True)
                if a >= 0
            ]
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The facts of one head.

    Args:
        task: Task that trains it, as `albert_tf.finetune` takes it; None for
            the pretraining.
        examples: Rows to train on and to evaluate.
        settings: Settings of the fine-tuning.
        inputs: Inputs of `Predictor.predict`.
        signature: Name of the signature that answers them.
        answers: Yields answers of Python from the outputs of this signature.
        signatures: Inputs and outputs of each signature of an export.
        formats: Formats of other programs that store the head.
        has_mean: Whether several models may answer together.
    """

    task: Any = None
    examples: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: Sequence[Any] = dataclasses.field(default_factory=TEXTS.copy)
    signature: str = "serving_default"
    answers: Callable = by_name
    signatures: Mapping[str, tuple[Mapping, Mapping]] = dataclasses.field(
        default_factory=dict
    )
    formats: Sequence[str] = ()
    has_mean: bool = True

    def request(self):
        """Returns the inputs as the inputs of the signature, by their names."""
        names, _ = self.signatures[self.signature]
        rows = [x if isinstance(x, tuple) else (x, "") for x in self.inputs]
        # A signature of pairs gets "" as the second text.
        return dict(zip(names, zip(*rows, strict=True), strict=False))


def _classes(kinds):
    return [
        {"text": f"the {WORDS[i % 4]} is {i}", "kind": kinds[i % 4]}
        for i in range(8)
    ]


def _question(number, **changes):
    word = WORDS[number % 4]
    answers = [{"text": word, "answer_start": 4}]
    return {
        "question": "who is here",
        "context": f"the {word} is here. " * (1 + number % 3),
        "answers": answers,
        "is_impossible": False,
    } | changes


_SPAN = Row(
    task="squad",
    examples=[*map(_question, range(8))],
    settings={"max_query_length": 6, "doc_stride": 8, "max_answer_length": 2},
    inputs=[("who is here", text) for text in TEXTS],
    signatures={
        "serving_default": (QUESTION, SPAN),
        "tokens": (
            IDS,
            dict.fromkeys(("start_logits", "end_logits"), (*FLOAT, -1)),
        ),
    },
    formats=["huggingface"],
)
_CLASSIFIER = Row(
    task="custom",
    examples=_classes(["a", "a", "b", "b"]),
    settings={"text_columns": ["text"], "label_column": "kind"},
    answers=_labels,
    signatures={
        "serving_default": (
            PAIR,
            {
                "probabilities": (*FLOAT, 2),
                "labels": ("string", -1, 2),
                "prediction": TEXT,
            },
        ),
        "tokens": (
            IDS,
            dict.fromkeys(("probabilities", "logits"), (*FLOAT, 2)),
        ),
    },
    formats=["huggingface", "keras_hub"],
)
_VECTOR = ENCODED | {"vector": (*FLOAT, 8)}
ROWS = {
    "encoder": Row(
        task="similarity",
        examples=[
            {"a": f"the {WORDS[i % 4]} is {i}", "b": f"{i} is a {WORDS[i % 3]}"}
            for i in range(8)
        ],
        settings={
            "text_columns": ["a", "b"],
            "pooling": "cls",
            "normalize": True,
        },
        signatures={
            "serving_default": (PAIR, _VECTOR),
            "tokens": (IDS, _VECTOR),
        },
        formats=["huggingface", "keras_hub"],
        has_mean=False,
    ),
    "pretraining": Row(
        inputs=["The [MASK] sat.", "Snow [MASK] on the [MASK]."],
        signature="fill_mask",
        answers=_masks,
        signatures={
            "serving_default": (PAIR, ENCODED),
            "tokens": (IDS, ENCODED),
            "mlm": (
                IDS | {"mlm_positions": (*INT, -1)},
                ENCODED | {"mlm_logits": (*FLOAT, -1, 300)},
            ),
            "sop": (IDS, ENCODED | {"sop_log_probs": (*FLOAT, 2)}),
            "fill_mask": (
                {"text": TEXT},
                {
                    "top_tokens": ("string", -1, 8, 5),
                    "top_probabilities": (*FLOAT, 8, 5),
                    "num_masks": INT,
                    "error": TEXT,
                },
            ),
        },
        formats=["huggingface"],
        has_mean=False,
    ),
    "classifier": _CLASSIFIER,
    "multiple_choice": Row(
        task="race",
        examples=[
            {
                "article": f"the {word} is here",
                "question": "who is here",
                "options": [*WORDS],
                "answer": word,
            }
            for word in WORDS
        ],
        settings={"max_qa_length": 8},
        inputs=[
            (article, question, ("a house", "", "one of them all", "Café ½"))
            for article in (LONG, "", "漢字\0 x")
            for question in (
                "_",
                "Both _ and ＿ of them ︳",
                "",
                f"What? {LONG}",
            )
        ],
        signatures={
            "serving_default": (
                CHOICES,
                {"probabilities": (*FLOAT, 4), "choice": INT},
            ),
            "tokens": (
                dict.fromkeys(IDS, (*INT, 4, -1)),
                dict.fromkeys(("probabilities", "logits"), (*FLOAT, 4)),
            ),
        },
        formats=["huggingface", "keras_hub"],
    ),
    "span": _SPAN,
    "beam_span": dataclasses.replace(
        _SPAN,
        examples=[
            *_SPAN.examples,
            _question(1, answers=[], is_impossible=True),
        ],
        settings={
            **_SPAN.settings,
            "version_2_with_negative": True,
            "start_n_top": 4,
            "end_n_top": 3,
        },
        signatures={
            "serving_default": (QUESTION, SPAN),
            "tokens": (
                IDS,
                {
                    "start_top_log_probs": (*FLOAT, 4),
                    "start_top_index": (*INT, 4),
                    "end_top_log_probs": (*FLOAT, 12),
                    "end_top_index": (*INT, 12),
                    "cls_logits": FLOAT,
                },
            ),
        },
        formats=(),
        has_mean=False,
    ),
    "token_classifier": Row(
        task="ner",
        examples=[
            {
                "tokens": ["the", word, "is", "here"],
                "tags": ["O", "B-animal", "O", "B-place"],
            }
            for word in WORDS * 2
        ],
        answers=_entities,
        signatures={
            "serving_default": (
                {"text": TEXT},
                {
                    "labels": ("string", -1, -1),
                    "starts": (*INT, -1),
                    "ends": (*INT, -1),
                    "scores": (*FLOAT, -1),
                },
            ),
            "tokens": (IDS, {"logits": (*FLOAT, -1, 3)}),
        },
        formats=["huggingface"],
    ),
    # In no table of the library: its record is passed.
    "word_count": Row(
        task=toy.SPEC,
        examples=[{"text": text} for text in [*TEXTS, *WORDS]],
        signatures={
            "serving_default": (PAIR, {"num_words": FLOAT}),
            "tokens": (IDS, {"logits": (*FLOAT, 1)}),
        },
        has_mean=False,
    ),
}
# Tasks that train a head of the table to predict something else.
TASKS = {name: row for name, row in ROWS.items() if row.task} | {
    "regression": dataclasses.replace(
        _CLASSIFIER, examples=_classes([0.5, 4.0, 2.5, 1.5])
    ),
    "several_labels": dataclasses.replace(
        _CLASSIFIER,
        examples=_classes(["a", "a;b", "b", ""]),
        settings={
            **_CLASSIFIER.settings,
            "multi_label": True,
            "label_separator": ";",
        },
    ),
}
