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
class TextPair:
    """Two texts that belong together, and perhaps one that does not."""

    guid: str
    text_a: str
    text_b: str
    text_c: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoredPair(TextPair):
    """Two texts, and how similar they are: the higher, the more."""

    label: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimilarityData(VectorData):
    """A `task.TaskData` of pairs; the outputs are `vectors`, `[N, C, H]`.

    Args:
        has_scores: Whether they are `ScoredPair`s, not `TextPair`s.
        num_texts: The texts of a record, C.
        score_range: The scores that the loss takes for cosines of 0 and 1.
        text_columns, validation: As of `ClassificationData`.
    """

    name = "similarity"

    has_scores: bool
    num_texts: int = 2
    score_range: tuple[float, float] = (0.0, 1.0)
    text_columns: tuple[str, ...] = ()
    validation: list[Any] | None = None

    @property
    def primary_metric(self) -> str:
        """Of scores, the correlation of ranks."""
        return "spearman" if self.has_scores else "mrr_at_10"

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Those of C texts; the score of a pair, or hashes of the texts."""
        shape = (self.num_texts,)
        target = ArraySpec(name="text_hashes", dtype="int32", shape=shape)
        if self.has_scores:
            target = ArraySpec(name="scores", dtype="float32")
        pad_id = self.tokenizer.special_ids.pad
        return (*task.encoder_specs(pad_id, shape), target)

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        names = ("max_seq_length", "pooling", "normalizes", "validation")
        return {
            "task": self.name,
            "text_columns": list(self.text_columns),
            **{name: getattr(self, name) for name in names},
            **self.tokenizer.identity(),
        }

    def records(
        self, examples: Sequence[Any], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record of each pair: `[CLS] text [SEP]`, C times."""
        pad_id = self.tokenizer.special_ids.pad
        low, high = self.score_range
        for one in examples:
            texts = (one.text_a, one.text_b, one.text_c)[: self.num_texts]
            ids = map(self.tokenizer.encode, texts)
            rows = [
                task.pair_record(x, [], self.tokenizer, self.max_seq_length)
                for x in ids
            ]
            longest = max(len(row["input_ids"]) for row in rows)
            record = {}
            for spec in task.encoder_specs(pad_id):
                shape = len(rows), longest
                array = np.full(shape, spec.pad_value, np.int32)
                for i, row in enumerate(rows):
                    array[i, : len(row[spec.name])] = row[spec.name]
                record[spec.name] = array
            if self.has_scores:
                score = (getattr(one, "label", 0.0) - low) / (high - low)
                yield record | {"scores": np.array(score, np.float32)}
                continue
            hashes = [zlib.crc32(text.encode()) for text in texts]
            hashed = np.array(hashes, np.uint32).view(np.int32)
            yield record | {"text_hashes": hashed}

    def scores(self, examples: Sequence[Any], outputs: Outputs) -> Scores:
        """Returns correlations with the scores; or recalls, and ranks."""
        return self._scores(examples, *_cosines(outputs))

    def _scores(
        self,
        examples: Sequence[Any],
        of_pairs: Callable[[], np.ndarray],
        to_all: Callable[[slice, np.ndarray], np.ndarray],
    ) -> Scores:
        if self.has_scores:
            values = [one.label for one in examples], of_pairs()
            names = ("spearman", "pearson")
            entries = [
                Score(n, getattr(classification, n)(*values)) for n in names
            ]
            return Scores(entries=tuple(entries))
        ranks = similarity.ranks(*_columns(examples), to_all)
        entries = [
            Score("mrr_at_10", float(np.mean((ranks <= 10) / ranks))),
            Score("recall_at_1", float(np.mean(ranks <= 1))),
            Score("recall_at_10", float(np.mean(ranks <= 10))),
        ]
        return Scores(entries=tuple(entries))

    def baselines(
        self, examples: Sequence[Any], start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the primary metric of common words, and of the start.

        The better one is its baseline; the two are `word_overlap` and
        `before_training`. `start_outputs` are those of the weights before.
        """
        texts_a, texts_b = _columns(examples)
        words_of = similarity.word_matrix([*texts_a, *texts_b])
        first, second = words_of[: len(texts_a)], words_of[len(texts_a) :]
        words = self._scores(
            examples,
            lambda: similarity.jaccard(first, second, of_pairs=True),
            lambda rows, columns: similarity.jaccard(
                first[rows], second[columns]
            ),
        )
        found = {"word_overlap": words[self.primary_metric]}
        if start_outputs is not None:
            before = self.scores(examples, start_outputs)
            found["before_training"] = before[self.primary_metric]
        return {self.primary_metric: max(found.values()), **found}

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[Sequence[Any], Outputs], None]]:
        """Opens `predictions.jsonl`; see `task.TaskData`.

        A line has `id`, `similarity`, and `score` if it is known.
        """
        path = os.path.join(output_dir, PREDICTIONS_FILE)
        with files.atomic_write(path) as file:

            def write(examples: Sequence[Any], outputs: Outputs) -> None:
                answers = self.answers(examples, outputs)
                for one, answer in zip(examples, answers, strict=True):
                    row = {"id": one.guid, **answer}
                    if isinstance(one, ScoredPair):
                        row["score"] = one.label
                    file.write((json.dumps(row) + "\n").encode())

            yield write

    def answers(
        self, examples: Sequence[Any], outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `similarity`, the cosine."""
        of_pairs, _ = _cosines(outputs)
        yield from ({"similarity": one} for one in of_pairs().tolist())

    def report_sections(
        self, examples: Sequence[Any], outputs: Outputs, scores: Scores
    ) -> list[dict[str, Any]]:
        """Returns a table of the worst pairs, by ranks from 0 to 1.

        Of pairs without scores, it is the share of wrong texts before the
        right one.
        """
        of_pairs, to_all = _cosines(outputs)
        if self.has_scores:
            labels = stats.rankdata([one.label for one in examples])
            values = stats.rankdata(of_pairs())
        else:
            values = similarity.ranks(*_columns(examples), to_all)
            labels = np.ones(len(values))
        [table] = error_tables.prediction_sections(
            examples, labels / len(labels), values / len(labels)
        )
        return [table | {"title": "The worst pairs: places of all, 0 to 1"}]


def _columns(examples: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Returns the first texts, and the second ones."""
    return [one.text_a for one in examples], [one.text_b for one in examples]


def _cosines(
    outputs: Outputs,
) -> tuple[Callable[[], np.ndarray], Callable[[slice, np.ndarray], np.ndarray]]:
    """Returns the functions of `SimilarityData._scores`."""
    vectors = np.asarray(outputs["vectors"], np.float32)[:, :2]
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    first, second = unit[:, 0], unit[:, 1]
    return (
        lambda: np.sum(first * second, axis=1),
        lambda rows, columns: first[rows] @ second[columns].T,
    )
