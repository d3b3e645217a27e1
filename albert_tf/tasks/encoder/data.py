"""Vectors of texts, the data halves: answers, and similarities of pairs.

Data flow: texts -> records -> [model] -> vectors -> scores, files.
"""

import contextlib
import dataclasses
import itertools
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
from albert_tf.metrics.similarity import Cosines, Similarities, WordOverlap
from albert_tf.tasks import task
from albert_tf.tasks.inputs import OneOrTwoTexts
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text.base import Tokenizer

POOLINGS = ("mean", "cls")
PREDICTIONS_FILE = "predictions.jsonl"
_CHUNK_SIZE = 4096
_MAX_ERRORS = 20


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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TextPair:
    """Two texts that belong together, and perhaps one that does not."""

    guid: str
    texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ScoredPair(TextPair):
    """Two texts, and how similar they are: the higher, the more."""

    label: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimilarityData(VectorData):
    """A `task.TaskData` of pairs; the outputs are `vectors`, `[N, C, H]`.

    Args:
        has_scores: Whether they are `ScoredPair`s, not `TextPair`s.
        num_texts: The texts of a record, C.
        score_range: The scores that the loss takes for 0 and 1, if it does not
            take them as they are.
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
        shape, pad_id = (self.num_texts,), self.tokenizer.special_ids.pad
        target = ArraySpec(name="text_hashes", dtype="int32", shape=shape)
        if self.has_scores:
            target = ArraySpec(name="scores", dtype="float32")
        return (*task.encoder_specs(pad_id, shape), target)

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            "max_seq_length": self.max_seq_length,
            "pooling": self.pooling,
            "normalizes": self.normalizes,
            **self.tokenizer.identity(),
            "text_columns": list(self.text_columns),
            "validation": self.validation,
        }

    def records(
        self, examples: Sequence[Any], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record of each pair: `[CLS] text [SEP]`, C times."""
        special, width = self.tokenizer.special_ids, self.num_texts
        room = self.max_seq_length - 2
        for first in range(0, len(examples), _CHUNK_SIZE):
            chunk = examples[first : first + _CHUNK_SIZE]
            texts = [text for one in chunk for text in one.texts[:width]]
            all_ids, lengths = self.tokenizer.encode_batch(texts)
            rows = iter(np.split(all_ids, np.cumsum(lengths)[:-1]))
            for one in chunk:
                own = [ids[:room] for ids in itertools.islice(rows, width)]
                shape = width, 2 + max(map(len, own))
                input_ids = np.full(shape, special.pad, np.int32)
                mask = np.zeros(shape, np.int32)
                for row, ids in enumerate(own):
                    end = len(ids) + 1
                    input_ids[row, [0, end]] = special.cls, special.sep
                    input_ids[row, 1:end] = ids
                    mask[row, : end + 1] = 1
                yield {
                    "input_ids": input_ids,
                    "input_mask": mask,
                    "segment_ids": np.zeros(shape, np.int32),
                    **self._target(one),
                }

    def _target(self, one: Any) -> Record:
        if self.has_scores:
            low, high = self.score_range
            score = getattr(one, "label", 0.0)
            return {
                "scores": np.array((score - low) / (high - low), np.float32)
            }
        hashes = [zlib.crc32(text.encode()) for text in one.texts]
        hashes = hashes[: self.num_texts]
        return {"text_hashes": np.array(hashes, np.uint32).view(np.int32)}

    def scores(self, examples: Sequence[Any], outputs: Outputs) -> Scores:
        """Returns correlations with the scores; or recalls, and ranks."""
        return self._scores(examples, _cosines(outputs))

    def _scores(self, examples: Sequence[Any], found: Similarities) -> Scores:
        if self.has_scores:
            labels = [one.label for one in examples]
            values = {
                "spearman": classification.spearman(labels, found.of_pairs()),
                "pearson": classification.pearson(labels, found.of_pairs()),
            }
        else:
            ranks = self._ranks(examples, found)
            values = {
                "mrr_at_10": similarity.reciprocal_rank_at(ranks, 10),
                "recall_at_1": similarity.recall_at(ranks, 1),
                "recall_at_10": similarity.recall_at(ranks, 10),
            }
        return Scores(entries=tuple(Score(*row) for row in values.items()))

    def _ranks(
        self, examples: Sequence[Any], found: Similarities
    ) -> np.ndarray:
        return similarity.ranks(*_columns(examples), found)

    def baselines(
        self, examples: Sequence[Any], start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the primary metric of common words, and of the start.

        The better one is its baseline; the two are `word_overlap` and
        `before_training`. `start_outputs` are those of the weights before.
        """
        overlap = WordOverlap(*_columns(examples))
        found = {"word_overlap": self._scores(examples, overlap)}
        if start_outputs is not None:
            found["before_training"] = self.scores(examples, start_outputs)
        values = {n: one[self.primary_metric] for n, one in found.items()}
        return {self.primary_metric: max(values.values()), **values}

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
        for cosine in _cosines(outputs).of_pairs().tolist():
            yield {"similarity": cosine}

    def report_sections(
        self, examples: Sequence[Any], outputs: Outputs, scores: Scores
    ) -> list[dict[str, Any]]:
        """Returns a table of the worst pairs."""
        found = _cosines(outputs)
        cosines = found.of_pairs()
        if self.has_scores:
            labels = np.array([one.label for one in examples])
            gaps = stats.rankdata(cosines) - stats.rankdata(labels)
            name, column, errors = "score", labels, np.abs(gaps)
        else:
            name, column = "rank", self._ranks(examples, found)
            errors = column
        order = np.argsort(-errors, kind="stable")[:_MAX_ERRORS].tolist()
        rows = [
            (
                examples[i].guid,
                *(text[:150] for text in examples[i].texts[:2]),
                f"{column[i]:g}",
                f"{cosines[i]:.3f}",
            )
            for i in order
        ]
        header = ("id", "first text", "second text", name, "similarity")
        return [{"title": "The worst pairs", "header": header, "rows": rows}]


def _columns(examples: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Returns the first texts, and the second ones."""
    return [e.texts[0] for e in examples], [e.texts[1] for e in examples]


def _cosines(outputs: Outputs) -> Cosines:
    vectors = np.asarray(outputs["vectors"], np.float32)
    return Cosines(vectors[:, 0], vectors[:, 1])
