"""Vectors of texts, the data halves: answers, and similarities of pairs.

Data flow: texts -> records -> [model] -> vectors -> scores, files.
"""

import contextlib
import dataclasses
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from albert_tf import checks
from albert_tf.data.record_columns import RecordColumns
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification, similarity
from albert_tf.metrics.scores import Score, Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import encoder_records, error_tables, prediction_tables
from albert_tf.tasks.inputs import OneOrTwoTexts
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.task_data import (
    AnswerData,
    Outputs,
    Record,
    Section,
    SimpleInputs,
    TaskData,
    TextAnswer,
)
from albert_tf.text.base import Tokenizer

POOLINGS = ("mean", "cls")
_Pairs: TypeAlias = Sequence[ClassificationExample]
_CORRELATIONS = ("spearman", "pearson")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorData(AnswerData):
    """The data half of vectors: one text or two, and their vector.

    It is the output of the last layer at `[CLS]`, or its mean over all tokens.
    """

    tokenizer: Tokenizer
    max_seq_length: int
    pooling: str = "mean"
    normalizes: bool = False

    def __post_init__(self) -> None:
        checks.check_choice("pooling", self.pooling, POOLINGS)
        if self.normalizes not in (True, False):
            raise ValueError(
                "`normalize` must be true or false. Received: "
                f"{self.normalizes!r}."
            )

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments."""
        return encoder_records.array_specs(self.tokenizer)

    def records(
        self, examples: Sequence[OneOrTwoTexts], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example."""
        for example in examples:
            ids_a, ids_b = map(self.tokenizer.encode, example)
            yield encoder_records.of_pair(self, ids_a, ids_b)

    def answers(
        self, examples: Sequence[OneOrTwoTexts], outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields `vector`; see `load_predictor`."""
        yield from ({"vector": row.tolist()} for row in outputs["vector"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimilarityData(TaskData):
    """The data half of pairs of texts, whose similarities are cosines.

    Outputs are `vectors`, `[N, C, H]`, and `logits`, the cosines `[N, 1]`.

    Args:
        pooling, normalizes: As of `VectorData`.
        num_texts: The texts of a record, C.
        has_scores: Whether pairs have labels, the higher, the more similar;
            or else they belong together.
        validation: The rows held out.
        folds: The fold of each row, if each fold has a model of its own.
    """

    name = "similarity"
    is_regression = True
    has_folds = True
    # Its losses compare the rows of a batch.
    label_array = ""

    tokenizer: Tokenizer
    max_seq_length: int
    pooling: str = "mean"
    normalizes: bool = False
    num_texts: int = 2
    has_scores: bool
    validation: list[object] | None = None
    folds: tuple[int, ...] = ()

    @property
    def primary_metric(self) -> str:
        """Of labels, the correlation of ranks."""
        return "spearman" if self.has_scores else "mrr_at_10"

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of C texts, their hashes, and the label or 0."""
        shape = (self.num_texts,)
        return encoder_records.array_specs(
            self.tokenizer,
            ArraySpec(name="text_hashes", dtype="int32", shape=shape),
            ArraySpec(name="scores", dtype="float32"),
            shape=shape,
        )

    @property
    def settings(self) -> SettingValues:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            "max_seq_length": self.max_seq_length,
            **self.tokenizer.identity(),
            "validation": self.validation,
            "pooling": self.pooling,
            "normalizes": self.normalizes,
        }

    def records(
        self, examples: Iterable[ClassificationExample], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record of each pair: `[CLS] text [SEP]`, C times."""
        for pair in examples:
            texts = [pair.text_a, pair.text_b, pair.text_c][: self.num_texts]
            encoded = [*map(self.tokenizer.encode, texts)]
            rows = [encoder_records.of_pair(self, ids) for ids in encoded]
            # An empty text has the hash 0.
            hashes = [*map(zlib.crc32, map(self._key, texts, encoded))]
            yield {
                **encoder_records.stacked(rows, self.tokenizer.special_ids.pad),
                "text_hashes": np.array(hashes, np.uint32).view(np.int32),
                "scores": np.array(pair.label or 0.0, np.float32),
            }

    def of_folds(self, folds: tuple[int, ...]) -> "SimilarityData":
        """Returns the data half that compares the texts of a fold."""
        return dataclasses.replace(self, folds=folds)

    @staticmethod
    def texts_of(example: ClassificationExample) -> list[str]:
        """Returns the texts of a pair, the same for its mirror."""
        return sorted([example.text_a, example.text_b])

    def keys_of(self, columns: RecordColumns) -> Iterator[bytes]:
        """Yields a key of the first two texts, in any order."""
        return map(bytes, np.sort(columns.field("text_hashes")[:, :2]))

    def _key(self, text: str, ids: list[int]) -> bytes:
        """Returns the same for texts of the same ids, if all are known."""
        is_unknown = self.tokenizer.special_ids.unk in ids
        return np.array(ids, np.int32).tobytes() + text.encode() * is_unknown

    def scores(self, examples: _Pairs, outputs: Outputs) -> Scores:
        """Returns correlations with the labels; or recalls, and ranks."""
        vectors = np.asarray(outputs["vectors"], np.float32)
        return self._scores(examples, vectors[:, 0], vectors[:, 1])

    def score_of_rows(
        self, examples: _Pairs, outputs: Outputs, scores: Scores
    ) -> Callable[[np.ndarray], float]:
        """See `task_data.TaskData`."""
        first, second = np.swapaxes(outputs["vectors"], 0, 1)[:2]
        if self.has_scores:
            labels = np.array([pair.label for pair in examples])
            cosines = similarity.of_pairs(first, second)
            score = classification.SCORES["spearman"]
            return lambda rows: score(labels[rows], cosines[rows])
        ranks = self._ranks(examples, first, second)
        reciprocal = (ranks <= 10) / ranks
        return lambda rows: float(reciprocal[rows].mean())

    def _scores(self, examples: _Pairs, *rows: Any) -> Scores:
        """Scores `rows`, and perhaps a measure, of `metrics.similarity`."""
        if self.has_scores:
            labels = np.array([pair.label for pair in examples])
            measured = similarity.of_pairs(*rows)
            return classification.of_numbers(_CORRELATIONS, labels, measured)
        ranks = self._ranks(examples, *rows)
        values = {
            "mrr_at_10": (ranks <= 10) / ranks,
            "recall_at_1": ranks <= 1,
            "recall_at_10": ranks <= 10,
        }
        entries = (Score(key, float(np.mean(x))) for key, x in values.items())
        return Scores(entries=tuple(entries))

    def _ranks(self, examples: _Pairs, *rows: Any) -> np.ndarray:
        """Ranks the second text of each pair among the texts of its fold."""
        first, second, *measure = rows
        folds = np.array(self.folds or [0] * len(examples))
        ranks = np.zeros(len(folds), int)
        for fold in {*folds.tolist()}:
            of_fold = np.flatnonzero(folds == fold)
            firsts, seconds = self._keys(
                [examples[i] for i in of_fold.tolist()]
            )
            ranks[of_fold] = similarity.ranks(
                firsts, seconds, first[of_fold], second[of_fold], *measure
            )
        return ranks

    def _keys(self, examples: _Pairs) -> list[list[bytes]]:
        """Returns the keys of the first texts, and of the second ones."""
        return [
            [*map(self._key, texts, map(self.tokenizer.encode, texts))]
            for texts in _texts(examples)
        ]

    def report_sections(
        self, examples: _Pairs, outputs: Outputs, scores: Scores
    ) -> list[Section]:
        """Returns a table of queries whose text is not found first."""
        if self.has_scores:
            return []
        first, second = np.swapaxes(outputs["vectors"], 0, 1)[:2]
        ranks = self._ranks(examples, first, second)
        folds = np.array(self.folds or [0] * len(examples))
        keys = self._keys(examples)
        queries, texts = (np.array(each, object) for each in keys)
        rows = []
        for i in np.argsort(-ranks, kind="stable")[: error_tables.MAX_ERRORS]:
            # As `similarity.ranks`: other right texts are not wrong.
            right = [*texts[queries == queries[i]], queries[i]]
            (wrong,) = np.nonzero((folds == folds[i]) & ~np.isin(texts, right))
            if ranks[i] > 1:
                cosines = similarity.to_all(first[[i]], second[wrong])[0]
                found = examples[wrong[np.argmax(cosines)]].text_b
                cells = examples[i].text_a, examples[i].text_b, found
                shown = map(error_tables.shortened, cells)
                rows.append((examples[i].guid, str(ranks[i]), *shown))
        num_failed = np.count_nonzero(ranks > 1)
        section = {
            "title": f"The worst of {num_failed} failed queries",
            "header": ("id", "rank", "query", "its text", "found first"),
            "rows": rows,
        }
        return [section]

    def baselines(
        self, examples: _Pairs, start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the primary metric of common words, and of the start.

        The better one is its baseline; the two are `word_overlap` and
        `before_training`. `start_outputs` are the outputs before the training.
        """
        words = map(similarity.word_rows, _texts(examples))
        scores = {
            "word_overlap": self._scores(examples, *words, similarity.jaccard)
        }
        if start_outputs is not None:
            scores["before_training"] = self.scores(examples, start_outputs)
        metric = self.primary_metric
        baselines = {name: score[metric] for name, score in scores.items()}
        return {metric: max(baselines.values()), **baselines}

    def simple_inputs(self, examples: _Pairs) -> SimpleInputs:
        """See `task_data.TaskData`; nothing is to be trained."""
        texts = [(pair.text_a, pair.text_b) for pair in examples]
        return SimpleInputs("tfidf", texts)

    def simple_scores(self, examples: _Pairs, logits: Any) -> Scores:
        """Returns the scores of two columns of rows, whose length is 1."""
        return self._scores(examples, *logits, lambda cosines, *_: cosines)

    def answers(
        self, examples: _Pairs, outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields the cosine of each pair, `prediction`."""
        for cosine in np.asarray(outputs["logits"])[:, 0].tolist():
            yield {"prediction": cosine}

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[_Pairs, Outputs], None]]:
        """Opens the tables of cosines; see `task_data.TaskData`."""
        with prediction_tables.open_tables(
            output_dir, "predictions.tsv", str
        ) as write_row:

            def write(examples: _Pairs, outputs: Outputs) -> None:
                answers = self.answers(examples, outputs)
                for example, answer in zip(examples, answers, strict=True):
                    cosine = answer["prediction"]
                    write_row(example, [cosine], cosine)

            yield write


def _texts(examples: _Pairs) -> tuple[list[str], list[str]]:
    """Returns the first texts, and the second ones."""
    return [pair.text_a for pair in examples], [e.text_b for e in examples]
