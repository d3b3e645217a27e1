"""Vectors of texts, the data halves: answers, and similarities of pairs.

Data flow: texts -> records -> [model] -> vectors -> scores, files.
"""

import contextlib
import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from albert_tf import checks, files
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification, similarity
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks import error_tables, task
from albert_tf.tasks.classification.examples import ClassificationExample
from albert_tf.tasks.inputs import OneOrTwoTexts
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text.base import Tokenizer

POOLINGS = ("mean", "cls")
PREDICTIONS_FILE = "predictions.jsonl"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorData:
    """A `task.AnswerData`: one text or two, and the vector of them.

    It is that of `[CLS]` in the last layer, or the mean over all tokens.
    """

    tokenizer: Tokenizer
    max_seq_length: int
    pooling: str = "mean"
    normalizes: bool = False

    def __post_init__(self) -> None:
        checks.check_choice("pooling", self.pooling, POOLINGS)

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments."""
        return task.encoder_specs(self.tokenizer.special_ids.pad)

    def records(
        self, examples: Sequence[OneOrTwoTexts], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example."""
        for example in examples:
            ids_a, ids_b = map(self.tokenizer.encode, example)
            yield task.pair_record(
                ids_a, ids_b, self.tokenizer, self.max_seq_length
            )

    def answers(
        self, examples: Sequence[OneOrTwoTexts], outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `vector`; see `load_predictor`."""
        yield from ({"vector": vector} for vector in outputs["vector"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Triple(ClassificationExample):
    """A pair, and a text that does not belong to the first one."""

    text_c: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimilarityData(VectorData):
    """A `task.TaskData` of pairs; the outputs are `vectors`, `[N, C, H]`.

    Pairs are `ClassificationExample`s, or `Triple`s. A label is how similar
    they are: the higher, the more.

    Args:
        has_scores: Whether pairs have labels; or else they belong together.
        num_texts: The texts of a record, C.
        validation: As of `ClassificationData`.
    """

    name = "similarity"

    has_scores: bool
    num_texts: int = 2
    validation: list[Any] | None = None

    @property
    def primary_metric(self) -> str:
        """Of labels, the correlation of ranks."""
        return "spearman" if self.has_scores else "mrr_at_10"

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Those of C texts, hashes of the texts, and the label or 0."""
        shape = (self.num_texts,)
        return (
            *task.encoder_specs(self.tokenizer.special_ids.pad, shape),
            ArraySpec(name="text_hashes", dtype="int32", shape=shape),
            ArraySpec(name="scores", dtype="float32"),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        names = ("max_seq_length", "pooling", "normalizes", "validation")
        return {
            "task": self.name,
            **{name: getattr(self, name) for name in names},
            **self.tokenizer.identity(),
        }

    def records(
        self, examples: Sequence[Any], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record of each pair: `[CLS] text [SEP]`, C times."""
        for one in examples:
            texts = [one.text_a, one.text_b]
            if self.num_texts > 2:
                texts.append(one.text_c)
            alone = [*map(OneOrTwoTexts, texts)]
            rows = super().records(alone, is_training=is_training)
            hashes = [zlib.crc32(text.encode()) for text in texts]
            yield {
                **task.stacked_record([*rows], self.tokenizer.special_ids.pad),
                "text_hashes": np.array(hashes, np.uint32).view(np.int32),
                "scores": np.array(one.label or 0.0, np.float32),
            }

    def scores(self, examples: Sequence[Any], outputs: Outputs) -> Scores:
        """Returns correlations with the labels; or recalls, and ranks."""
        return self._scores(examples, *_columns(outputs))

    def _scores(self, examples: Sequence[Any], *rows: Any) -> Scores:
        """Scores `rows`, and perhaps a measure, of `metrics.similarity`."""
        if self.has_scores:
            labels = [one.label for one in examples]
            found = similarity.of_pairs(*rows)
            values: dict[str, Any] = {
                "spearman": classification.spearman(labels, found),
                "pearson": classification.pearson(labels, found),
            }
        else:
            ranks = similarity.ranks(*_texts(examples), *rows)
            values = {
                "mrr_at_10": np.mean((ranks <= 10) / ranks),
                "recall_at_1": np.mean(ranks <= 1),
                "recall_at_10": np.mean(ranks <= 10),
            }
        entries = (Score(key, float(x)) for key, x in values.items())
        return Scores(entries=tuple(entries))

    def baselines(
        self, examples: Sequence[Any], start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the primary metric of common words, and of the start.

        The better one is its baseline; the two are `word_overlap` and
        `before_training`. `start_outputs` are those of the weights before.
        """
        words = map(similarity.word_rows, _texts(examples))
        scores = {
            "word_overlap": self._scores(examples, *words, similarity.jaccard)
        }
        if start_outputs is not None:
            scores["before_training"] = self.scores(examples, start_outputs)
        found = {name: x[self.primary_metric] for name, x in scores.items()}
        return {self.primary_metric: max(found.values()), **found}

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[Sequence[Any], Outputs], None]]:
        """Opens `predictions.jsonl`; see `task.TaskData`.

        A line has `id`, `similarity`, and `score`, the label, if it is known.
        """
        path = os.path.join(output_dir, PREDICTIONS_FILE)
        with files.atomic_write(path) as file:

            def write(examples: Sequence[Any], outputs: Outputs) -> None:
                answers = self.answers(examples, outputs)
                for one, answer in zip(examples, answers, strict=True):
                    row = {"id": one.guid, **answer}
                    if one.label is not None:
                        row["score"] = one.label
                    file.write((json.dumps(row) + "\n").encode())

            yield write

    def answers(
        self, examples: Sequence[Any], outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `similarity`, the cosine."""
        found = similarity.of_pairs(*_columns(outputs))
        yield from ({"similarity": one} for one in found.tolist())

    def report_sections(
        self, examples: Sequence[Any], outputs: Outputs, scores: Scores
    ) -> list[dict[str, Any]]:
        """Returns a table of the pairs whose places differ most, 0 to 1."""
        if not self.has_scores:
            return []
        labels, found = (
            stats.rankdata(values) / len(examples)
            for values in (
                [one.label for one in examples],
                similarity.of_pairs(*_columns(outputs)),
            )
        )
        return error_tables.prediction_sections(examples, labels, found)


def _texts(examples: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Returns the first texts, and the second ones."""
    return [one.text_a for one in examples], [one.text_b for one in examples]


def _columns(outputs: Outputs) -> tuple[np.ndarray, np.ndarray]:
    """Returns the vectors of the first texts, and of the second ones."""
    vectors = np.asarray(outputs["vectors"], np.float32)
    return vectors[:, 0], vectors[:, 1]
