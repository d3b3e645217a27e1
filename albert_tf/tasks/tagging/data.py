"""Tagging, the data half: records, scores, predictions.

Data flow: words and tags -> records -> [model] -> logits -> tags, entities.
The first token of a word has its tag. Windows cover a long text, and a word has
its tag from that in whose middle it is.
"""

import collections
import contextlib
import dataclasses
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
from albert_tf.metrics.entities import OUTSIDE, PLAIN, Entity
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks import error_tables, task
from albert_tf.tasks.tagging import words as words_lib
from albert_tf.tasks.tagging.examples import DOCUMENT_START, TaggedText
from albert_tf.tasks.tagging.words import TextWords
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text.tokenizer import Tokenizer

_NO_TAG = -1
# Which words a raw text has: those of tagged data, or those of transformers.
SPACED, TOKENS = "spaced", "tokens"
# In the order of `entities.entity_scores`.
_OF_KINDS = ("f1", "precision", "recall", "number")
_Examples: TypeAlias = Sequence[TaggedText]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingData:
    """A `task.TaskData` of `TaggedText`s; `TaggingTask` has the outputs.

    Args:
        labels: All tags, in the order of the logits.
        scheme: That of the tags, of `entities.scheme_of`.
        words: Which words a raw text has, `SPACED` or `TOKENS`.
        dictionary: The most frequent tag of each word, and that of all words
            for "": a baseline. Empty if it is not known.
        validation: See `held_out.read`.
    """

    name = "ner"

    tokenizer: Tokenizer
    max_seq_length: int
    labels: tuple[str, ...]
    scheme: str
    words: str
    dictionary: Mapping[str, str] = dataclasses.field(default_factory=dict)
    validation: list[Any] | None = None

    @property
    def primary_metric(self) -> str:
        """The F1 of entities; of plain tags, the accuracy of words."""
        return "accuracy" if self.scheme == PLAIN else "f1"

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Those of the encoder, and `tag_ids`; see `TaggingTask`."""
        tag_ids = ArraySpec(
            name="tag_ids", dtype="int32", is_sequence=True, pad_value=_NO_TAG
        )
        return (*task.encoder_specs(self.tokenizer.special_ids.pad), tag_ids)

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            "labels": list(self.labels),
            "scheme": self.scheme,
            "words": self.words,
            "max_seq_length": self.max_seq_length,
            **self.tokenizer.identity(),
            "validation": self.validation,
        }

    def example(
        self, guid: str, content: str | Sequence[str], **others: Any
    ) -> TaggedText:
        """Returns a text, or words, as an example."""
        if isinstance(content, str):
            is_spaced = self.words == SPACED
            words = words_lib.split(
                content, self.tokenizer, is_spaced=is_spaced
            )
            return TaggedText(
                guid=guid, text=content, words=words, has_words=False, **others
            )
        lengths = np.array([*map(len, content)], int)
        ends = np.cumsum(lengths + 1) - 1
        ids, splits = words_lib.encode(content, self.tokenizer)
        words = TextWords(ids, splits, ends - lengths, ends)
        return TaggedText(
            guid=guid, text=" ".join(content), words=words, **others
        )

    def _windows(
        self, words: TextWords
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields ids, words and places of each window.

        They are the numbers of the words that have their tags from it, and
        where their first tokens are in its record.
        """
        num_around = self.tokenizer.special_ids.num_around(1)
        size = self.max_seq_length - num_around
        (own,) = np.nonzero(np.diff(words.token_splits))
        tokens = words.token_splits[own]
        last = max(0, len(words.ids) - size)
        starts = np.array([*range(0, last, (size + 1) // 2), last])
        middles = starts + (size - 1) / 2
        best = np.abs(tokens[:, None] - middles).argmin(axis=1)
        for window, start in enumerate(starts):
            is_here = best == window
            ids = words.ids[start : start + size]
            places = tokens[is_here] - start + num_around // 2
            yield ids, own[is_here], places

    def records(
        self, examples: _Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record for each window; to train, if it has tags."""
        numbers = {label: i for i, label in enumerate(self.labels)}
        for one in examples:
            tags = [numbers.get(tag, _NO_TAG) for tag in one.tags or ()]
            tag_ids = np.array(tags or [_NO_TAG] * len(one.words.starts))
            for ids, words, places in self._windows(one.words):
                record = task.pair_record(
                    ids.tolist(), [], self.tokenizer, self.max_seq_length
                )
                row = np.full(len(record["input_ids"]), _NO_TAG, np.int32)
                row[places] = tag_ids[words]
                if not is_training or np.any(row != _NO_TAG):
                    yield record | {"tag_ids": row}

    def _tagged(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[tuple[TaggedText, list[str], np.ndarray]]:
        """Yields each example with tags and their probabilities."""
        rows = iter(outputs["logits"])
        for one in examples:
            tags = [OUTSIDE] * len(one.words.starts)
            shares = np.ones(len(tags))
            for _, words, places in self._windows(one.words):
                found = special.softmax(next(rows)[places], axis=-1)
                shares[words] = found.max(axis=-1)
                best = found.argmax(axis=-1)
                for word, label in zip(words, best, strict=True):
                    tags[word] = self.labels[label]
            yield one, tags, shares

    def scores(self, examples: _Examples, outputs: Outputs) -> Scores:
        """Returns scores of entities, and the accuracy of words."""
        tagged = self._tagged(examples, outputs)
        return self._scores(examples, [tags for _, tags, _ in tagged])

    def _scores(
        self, examples: _Examples, tags: Sequence[Sequence[str]]
    ) -> Scores:
        true = [one.tags or () for one in examples]
        values = entities.entity_scores(
            *(
                [_in_iobes(row, self.scheme) for row in rows]
                for rows in (true, tags)
            )
        )
        if self.scheme == PLAIN:
            values = {"accuracy": values["accuracy"]}
        entries = []
        for key, value in values.items():
            name, _, kind = key.partition("_of_")
            of_kind = Score.of_label(name, kind, value)
            entries.append(of_kind if kind else Score(key, value))
        return Scores(entries=tuple(entries))

    def baselines(self, examples: _Examples) -> dict[str, float]:
        """Returns the score of the dictionary, if it is known."""
        if not self.dictionary:
            return {}
        rare, metric = self.dictionary[""], self.primary_metric
        tags = [
            [self.dictionary.get(word, rare) for word in one.strings]
            for one in examples
        ]
        return {metric: self._scores(examples, tags)[metric]}

    def answers(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `entities`, and `tags` of words; see `load_predictor`."""
        for one, tags, shares in self._tagged(examples, outputs):
            yield self._answer(one, tags, shares)

    def _answer(
        self, one: TaggedText, tags: list[str], shares: np.ndarray
    ) -> dict[str, Any]:
        found = []
        for kind, first, end in find_entities(tags, self.labels, self.scheme):
            start = int(one.words.starts[first])
            stop = int(one.words.ends[end - 1])
            found.append(
                {
                    "label": kind,
                    "text": one.text[start:stop],
                    "start": start,
                    "end": stop,
                    "score": float(shares[first:end].mean()),
                }
            )
        return {"entities": found} | ({"tags": tags} if one.has_words else {})

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[_Examples, Outputs], None]]:
        """Opens `predictions.conll` and `.jsonl`; see `task.TaskData`."""
        path = os.path.join(output_dir, "predictions")
        with (
            files.atomic_write(f"{path}.conll") as conll,
            files.atomic_write(f"{path}.jsonl") as lines,
        ):

            def write(examples: _Examples, outputs: Outputs) -> None:
                for one, tags, shares in self._tagged(examples, outputs):
                    row = {"id": one.guid, **self._answer(one, tags, shares)}
                    text = json.dumps(row, ensure_ascii=False)
                    lines.write(f"{text}\n".encode())
                    words = (re.sub(r"[\t\r\n]", " ", w) for w in one.strings)
                    rows = [*map("\t".join, zip(words, tags, strict=True))]
                    if one.starts_document:
                        rows[:0] = [f"{DOCUMENT_START}\t{OUTSIDE}", ""]
                    conll.write("\n".join([*rows, "", ""]).encode())

            yield write

    def report_sections(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> list[dict[str, Any]]:
        """Returns scores of kinds, confused kinds, and the worst texts."""
        by_kind: dict[str, list[str]] = {}
        for score in scores:
            if score.role is Role.OF_LABEL:
                row = by_kind.setdefault(score.of, [score.of])
                row.append(f"{score.value:.6g}")
        pairs: collections.Counter[tuple[str, str]] = collections.Counter()
        worst = []
        for one, tags, _ in self._tagged(examples, outputs):
            wrong = []
            for word, own, tag in zip(
                one.strings, one.tags or (), tags, strict=True
            ):
                pairs[own.split("-", 1)[-1], tag.split("-", 1)[-1]] += 1
                if own != tag:
                    wrong.append(f"{word}: {tag}, not {own}")
            worst.append((one.guid, one.text, len(wrong), ", ".join(wrong)))
        worst.sort(key=lambda row: -row[2])
        kinds = sorted({kind for pair in pairs for kind in pair})
        wrong_words = [[*map(str, row)] for row in worst if row[2]]
        tables = [
            ("Scores of entities", ("kind", *_OF_KINDS), by_kind.values()),
            (
                "Kinds of words (rows) and predictions (columns)",
                ("", *kinds),
                [(a, *(str(pairs[a, b]) for b in kinds)) for a in kinds],
            ),
            (
                "The texts with the most wrong words",
                ("id", "text", "wrong", "words"),
                wrong_words[: error_tables.MAX_ERRORS],
            ),
        ]
        return [
            {"title": title, "header": header, "rows": [*rows]}
            for title, header, rows in tables
            if rows
        ]


def find_entities(
    tags: Sequence[str], labels: Sequence[str], scheme: str
) -> list[Entity]:
    """Returns entities; of plain tags, words, or runs if some are `O`.

    `labels` are all tags, and `scheme` is theirs.
    """
    if scheme != PLAIN:
        return entities.find_entities(_in_iobes(tags, scheme))
    found: list[Entity] = []
    for i, tag in enumerate(tags):
        if OUTSIDE in labels and found and found[-1][::2] == (tag, i):
            found[-1] = found[-1]._replace(end=i + 1)
        elif tag != OUTSIDE:
            found.append(Entity(tag, i, i + 1))
    return found


def _in_iobes(tags: Sequence[str], scheme: str) -> list[str]:
    """Returns BILOU as IOBES, which seqeval's default mode reads."""
    letters = str.maketrans("LU", "ES" if scheme == "BILOU" else "LU")
    return [tag[0].translate(letters) + tag[1:] for tag in tags]


def dictionary_of(examples: _Examples) -> dict[str, str]:
    """Returns the most frequent tag of each word, and of all words for ""."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for one in examples:
        for word, tag in zip(one.strings, one.tags or (), strict=True):
            counts[word][tag] += 1
            counts[""][tag] += 1
    return {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
