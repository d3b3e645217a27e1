"""Tagging, the data half: records, scores, predictions.

Data flow: words and tags -> records -> [model] -> logits -> tags, entities.
The first token of a word has its tag. Windows cover a long text, and a word has
its tag from that in whose middle it is.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from albert_tf import files
from albert_tf.features import ArraySpec
from albert_tf.metrics import entities
from albert_tf.metrics.entities import OUTSIDE, PLAIN
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import encoder_records, error_tables
from albert_tf.tasks.tagging import decoding
from albert_tf.tasks.tagging import words as words_lib
from albert_tf.tasks.tagging.decoding import Decoding
from albert_tf.tasks.tagging.examples import TaggedText
from albert_tf.tasks.tagging.words import TextWords
from albert_tf.tasks.task_data import (
    Labelled,
    Outputs,
    Record,
    Section,
    SimpleInputs,
    TaskData,
    TextAnswer,
)
from albert_tf.text.base import Tokenizer

_NO_TAG = -1
_Examples: TypeAlias = Sequence[TaggedText]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingData(TaskData):
    """The data half of `TaggedText`s; `TaggingTask` has the outputs.

    Args:
        labels: All tags, in the order of the logits.
        words: Which words a raw text has; see `words.SPACED`.
        dictionary: The most frequent tag of each word, and of all words for "":
            a baseline. Empty if it is not known.
        rules: The arguments of `Decoding` that the training told.
        validation: See `held_out.read`.
        folds: The fold of each example, if each fold has a model of its own.
    """

    name = "ner"
    label_array = "tag_ids"
    has_folds = True

    tokenizer: Tokenizer
    max_seq_length: int
    labels: tuple[str, ...]
    words: str
    dictionary: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    validation: list[object] | None = None
    folds: tuple[int, ...] = ()

    @property
    def primary_metric(self) -> str:
        """The F1 of entities; of plain tags, the accuracy of words."""
        return "accuracy" if decoding.scheme_of(self.labels) == PLAIN else "f1"

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of the encoder, and `tag_ids`; see `TaggingTask`."""
        tag_ids = ArraySpec(
            name="tag_ids", dtype="int32", is_sequence=True, pad_value=_NO_TAG
        )
        return encoder_records.array_specs(self.tokenizer, tag_ids)

    @property
    def settings(self) -> SettingValues:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            "labels": list(self.labels),
            "words": self.words,
            "rules": dict(self.rules),
            "max_seq_length": self.max_seq_length,
            **self.tokenizer.identity(),
            "validation": self.validation,
        }

    def example(
        self, guid: str, content: str | Sequence[str], **others: Any
    ) -> TaggedText:
        """Returns a text, or words, as an example."""
        if isinstance(content, str):
            words = words_lib.split(content, self.tokenizer, self.words)
            return TaggedText(
                guid=guid, text=content, words=words, has_words=False, **others
            )
        starts = np.cumsum([0, *(len(word) + 1 for word in content)])[:-1]
        words = TextWords.of(content, starts.tolist(), self.tokenizer)
        return TaggedText(
            guid=guid, text=" ".join(content), words=words, **others
        )

    def _windows(
        self, words: TextWords
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields ids, words and places of each window.

        They are the numbers of the words that have their tags from it, and
        where their first tokens are in its record: far from its edges.
        """
        special = self.tokenizer.special_ids
        size = self.max_seq_length - special.num_around(1)
        step = max(1, (size + 1) // 2)
        last = max(0, -((size - len(words.ids)) // step))
        (indices,) = np.nonzero(np.diff(words.token_splits))
        firsts = words.token_splits[indices]
        of_words = np.clip((firsts - size // 4) // step, 0, last)
        for window in range(last + 1):
            start, is_here = window * step, of_words == window
            places = firsts[is_here] - start + special.num_before
            yield words.ids[start : start + size], indices[is_here], places

    def words_per_record(self, examples: _Examples) -> float:
        """Returns the mean number of words; 1 without examples."""
        windows = (self._windows(example.words) for example in examples)
        sizes = [len(words) for _, words, _ in itertools.chain(*windows)]
        return float(np.mean(sizes or [1]))

    def records(
        self, examples: _Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record for each window; to train, if it has tags."""
        numbers = {label: i for i, label in enumerate(self.labels)}
        for example in examples:
            tags = [numbers.get(tag, _NO_TAG) for tag in example.tags or ()]
            tag_ids = np.array(tags or [_NO_TAG] * len(example.words.starts))
            for ids, words, places in self._windows(example.words):
                record = encoder_records.of_pair(self, ids.tolist())
                row = np.full(len(record["input_ids"]), _NO_TAG, np.int32)
                row[places] = tag_ids[words]
                if not is_training or np.any(row != _NO_TAG):
                    yield record | {"tag_ids": row}

    @functools.cached_property
    def _decoding(self) -> Decoding:
        return Decoding(self.labels, **self.rules)

    def _log_probs(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[tuple[TaggedText, np.ndarray, np.ndarray]]:
        """Yields each example, which words have tokens, and `[W, K]`."""
        rows = iter(outputs["logits"])
        for example in examples:
            has_tokens = np.diff(example.words.token_splits) > 0
            log_probs = np.tile(
                self._decoding.of_no_tokens, (len(has_tokens), 1)
            )
            for _, words, places in self._windows(example.words):
                log_probs[words] = special.log_softmax(next(rows)[places], -1)
            yield example, has_tokens, log_probs

    def _tagged(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[tuple[TaggedText, list[str], np.ndarray]]:
        """Yields each example with tags and their probabilities."""
        for example, has_tokens, log_probs in self._log_probs(
            examples, outputs
        ):
            best = self._decoding.best_tags(log_probs, example.strings)
            shares = np.exp(log_probs[np.arange(len(best)), best])
            is_known = has_tokens | (OUTSIDE in self.labels)
            tags = [
                self.labels[tag] if known else OUTSIDE
                for tag, known in zip(best, is_known, strict=True)
            ]
            yield example, tags, shares

    def scores(self, examples: _Examples, outputs: Outputs) -> Scores:
        """Returns scores of entities, and the accuracy of words."""
        tagged = self._tagged(examples, outputs)
        return self._scores(examples, [tags for _, tags, _ in tagged])

    def score_of_rows(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> Callable[[np.ndarray], float]:
        """See `task_data.TaskData`."""
        pairs = [
            (example.tags or (), tags)
            for example, tags, _ in self._tagged(examples, outputs)
        ]
        if self.primary_metric == "accuracy":
            # Of right words, and of all.
            counts = [(2 * np.sum(np.equal(*p)), 2 * len(p[0])) for p in pairs]
        else:
            both = [
                [{*decoding.find_entities(tags, self.labels)} for tags in pair]
                for pair in pairs
            ]
            counts = [(2 * len(a & b), len(a) + len(b)) for a, b in both]
        by_text = np.array(counts)

        def f1(rows: np.ndarray) -> float:
            right, total = by_text[rows].sum(axis=0)
            return float(right / max(1, total))

        return f1

    def _scores(
        self, examples: _Examples, tags: Sequence[Sequence[str]]
    ) -> Scores:
        true = [example.tags or () for example in examples]
        values = entities.entity_scores(
            [decoding.readable(row, self.labels) for row in true],
            [decoding.readable(row, self.labels) for row in tags],
        )
        if self.primary_metric == "accuracy":
            values = {"accuracy": values["accuracy"]}
        entries = []
        for key, value in values.items():
            kind = key.partition("_of_")[2]
            role = Role.OF_LABEL if kind else Role.SCORE
            entries.append(Score(key, value, role, kind))
        return Scores(entries=tuple(entries))

    def baselines(
        self, examples: _Examples, start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the score of the dictionary, if it is known.

        Of folds, each has the dictionary of the others.
        """
        if not self.dictionary:
            return {}
        metric, dictionaries = self.primary_metric, {0: self.dictionary}
        for fold in {*self.folds}:
            pairs = zip(examples, self.folds, strict=True)
            others = [one for one, other in pairs if other != fold]
            dictionaries[fold] = dictionary_of(others)
        tags = []
        for example, fold in zip(
            examples, self.folds or [0] * len(examples), strict=True
        ):
            known = dictionaries[fold]
            tags.append([known.get(w, known[""]) for w in example.strings])
        return {metric: self._scores(examples, tags)[metric]}

    def of_training(self, examples: _Examples) -> "TaggingData":
        """See `task_data.TaskData`."""
        return dataclasses.replace(self, dictionary=dictionary_of(examples))

    def of_folds(self, folds: tuple[int, ...]) -> "TaggingData":
        """See `task_data.TaskData`."""
        return dataclasses.replace(self, folds=folds)

    @staticmethod
    def texts_of(example: TaggedText) -> str:
        """See `task_data.TaskData`."""
        return example.text

    def labelled(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> Iterator[Labelled]:
        """Yields the tags of words that have tokens."""
        numbers = {label: i for i, label in enumerate(self.labels)}
        columns: list[tuple[Any, ...]] = []
        for i, (example, has_tokens, log_probs) in enumerate(
            self._log_probs(examples, outputs)
        ):
            words = zip(
                map(numbers.get, example.tags or ()),
                np.exp(log_probs),
                [i] * len(log_probs),
                example.strings,
                has_tokens,
                strict=True,
            )
            columns += [w[:4] for w in words if w[0] is not None and w[4]]
        if columns:
            tags, shares, rows, strings = zip(*columns, strict=True)
            yield Labelled(
                labels=np.array(tags),
                probabilities=np.array(shares),
                names=self.labels,
                examples=np.array(rows),
                words=strings,
            )

    def simple_inputs(self, examples: _Examples) -> SimpleInputs:
        """See `task_data.TaskData`; an unknown tag is -1."""
        numbers = {label: i for i, label in enumerate(self.labels)}
        tags = [
            numbers.get(tag, _NO_TAG)
            for each in examples
            for tag in each.tags or [""] * len(each.words.starts)
        ]
        words = [each.strings for each in examples]
        return SimpleInputs("linear", words, np.array(tags), len(self.labels))

    def simple_logits(
        self, examples: _Examples, logits: np.ndarray
    ) -> list[np.ndarray]:
        """Puts the logits of words, `[W, K]`, where records have the words."""
        rows, start = [], 0
        for example in examples:
            own = logits[start : start + len(example.words.starts)]
            start += len(own)
            for ids, words, places in self._windows(example.words):
                length = len(ids) + self.tokenizer.special_ids.num_around(1)
                row = np.zeros((length, len(self.labels)))
                row[places] = own[words]
                rows.append(row)
        return rows

    def answers(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields `entities`, and `tags` of words; see `load_predictor`."""
        for example, tags, shares in self._tagged(examples, outputs):
            yield self._answer(example, tags, shares)

    def _answer(
        self, example: TaggedText, tags: list[str], shares: np.ndarray
    ) -> TextAnswer:
        parts = []
        for kind, first, end in decoding.find_entities(tags, self.labels):
            start = int(example.words.starts[first])
            stop = int(example.words.ends[end - 1])
            parts.append(
                {
                    "label": kind,
                    "text": example.text[start:stop],
                    "start": start,
                    "end": stop,
                    "score": float(shares[first:end].mean()),
                }
            )
        # Differs: in transformers, a blank alone may be an entity.
        parts = [x for x in parts if x["text"]]
        word_tags = {"tags": tags} if example.has_words else {}
        return {"entities": parts, **word_tags}

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[_Examples, Outputs], None]]:
        """Opens `predictions.conll` and `.jsonl`; see `task_data.TaskData`."""
        path = os.path.join(output_dir, "predictions")
        with (
            files.atomic_write(f"{path}.conll") as conll,
            files.atomic_write(f"{path}.jsonl") as lines,
        ):

            def write(examples: _Examples, outputs: Outputs) -> None:
                for example, tags, shares in self._tagged(examples, outputs):
                    answer = self._answer(example, tags, shares)
                    row = {"id": example.guid, **answer}
                    if example.tags is not None:
                        row["text"] = example.text
                        row["prediction"] = " ".join(tags)
                        row["label"] = " ".join(example.tags)
                    text = json.dumps(row, ensure_ascii=False)
                    lines.write(f"{text}\n".encode())
                    words = (
                        re.sub(r"[\t\r\n]", " ", w) for w in example.strings
                    )
                    rows = map("\t".join, zip(words, tags, strict=True))
                    conll.write("\n".join([*rows, "", ""]).encode())

            yield write

    def report_sections(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> list[Section]:
        """Returns scores of kinds, confused kinds, and the worst texts."""
        pairs: collections.Counter[tuple[str, ...]] = collections.Counter()
        is_plain, texts = decoding.scheme_of(self.labels) == PLAIN, []
        for example, tags, _ in self._tagged(examples, outputs):
            wrong = []
            both = zip(example.tags or (), tags, strict=True)
            for word, names in zip(example.strings, both, strict=True):
                kinds = (n if is_plain else n.split("-", 1)[-1] for n in names)
                pairs[tuple(kinds)] += 1
                if names[0] != names[1]:
                    wrong.append(f"{word}: {names[1]}, not {names[0]}")
            texts.append((example.guid, example.text, wrong))
        texts.sort(key=lambda row: -len(row[2]))
        all_kinds = sorted({*itertools.chain(*pairs)})
        return [
            error_tables.class_table("Scores of entities", scores.entries),
            {
                "title": "Kinds of words (rows) and predictions (columns)",
                "header": ("", *all_kinds),
                "rows": [
                    (a, *(str(pairs[a, b]) for b in all_kinds))
                    for a in all_kinds
                ],
            },
            {
                "title": "The texts with the most wrong words",
                "header": ("id", "text", "wrong"),
                "rows": [
                    (guid, text, ", ".join(wrong))
                    for guid, text, wrong in texts[: error_tables.MAX_ERRORS]
                    if wrong
                ],
            },
        ]


def dictionary_of(examples: _Examples) -> dict[str, str]:
    """Returns the most frequent tag of each word, and of all words for ""."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for example in examples:
        for word, tag in zip(example.strings, example.tags or (), strict=True):
            counts[word][tag] += 1
            counts[""][tag] += 1
    return {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
