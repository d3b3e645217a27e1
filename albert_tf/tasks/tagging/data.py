"""Tagging, the data half: records, scores, predictions.

Data flow: words and tags -> records -> [model] -> logits -> tags, entities.
The first token of a word has its tag. A long text is covered by windows, and a
word has its tag from the window in whose middle it is.
"""

import collections
import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from albert_tf import files
from albert_tf.features import ArraySpec
from albert_tf.metrics import entities
from albert_tf.metrics.scores import Scores
from albert_tf.tasks import task
from albert_tf.tasks.tagging import examples as examples_lib
from albert_tf.tasks.tagging.examples import TaggedText
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text.tokenizer import Tokenizer

_NUM_SPECIAL_TOKENS = 2
_NO_TAG = -1
_MAX_SHOWN = 20
# How the words of a raw text are found.
SPACED, TOKENS = "spaced", "tokens"
_Examples: TypeAlias = Sequence[TaggedText]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingData:
    """A `task.TaskData` of `TaggedText`s; see `TaggingTask` for the outputs.

    Args:
        labels: All tags, in the order of the logits.
        scheme: That of the tags, of `metrics.entities.scheme_of`.
        words: How words are found in raw text: `spaced`, as in tagged data, or
            `tokens`, as transformers does.
        dictionary: The most frequent tag of each word, the baseline; that of
            unknown words is the tag of "". Empty if it is not known.
        validation: See `held_out.HoldOutFlags.divide`.
    """

    name = "ner"

    tokenizer: Tokenizer
    max_seq_length: int
    labels: tuple[str, ...]
    scheme: str
    words: str = "spaced"
    dictionary: Mapping[str, str] = dataclasses.field(default_factory=dict)
    validation: list[Any] | None = None

    @property
    def primary_metric(self) -> str:
        """The F1 of entities; of plain tags, the accuracy of words."""
        return "accuracy" if self.scheme == entities.PLAIN else "f1"

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Those of the encoder, and `tag_ids`, -1 where no tag is learnt."""
        tags = ArraySpec(
            name="tag_ids", dtype="int32", is_sequence=True, pad_value=_NO_TAG
        )
        return (*task.encoder_specs(self.tokenizer.special_ids.pad), tags)

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

    def with_words(self, example: TaggedText) -> TaggedText:
        """Returns an example with the words of its text."""
        if example.has_words:
            return example
        # `words.py`, once it is there.
        raw, spans, start = example.raw_text, [], 0
        for word in raw.split():
            start = raw.index(word, start)
            spans.append((start, start + len(word)))
            start += len(word)
        words = [raw[start:end] for start, end in spans]
        return examples_lib.of_words(
            example.guid,
            words,
            example.tags,
            raw_text=raw,
            raw_words=tuple(spans),
            has_words=False,
        )

    def _windows(
        self, examples: _Examples
    ) -> Iterator[list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
        """Yields the windows of each example: ids, words and their places.

        Words are those that have their tag from this window, by their number;
        places are those of their first tokens in the record.
        """
        size = self.max_seq_length - _NUM_SPECIAL_TOKENS
        ids, lengths, offsets = self.tokenizer.encode_batch_with_offsets(
            [example.text for example in examples]
        )
        splits = np.cumsum(lengths)[:-1]
        # The last character of a token: characters that vanish precede it.
        places = np.maximum(offsets[0], offsets[1] - 1)
        for example, own, where in zip(
            examples,
            np.split(ids, splits),
            np.split(places, splits),
            strict=True,
        ):
            spans = np.array(example.words, int).reshape(-1, 2)
            firsts = where.searchsorted(spans[:, 0])
            (words,) = np.nonzero(firsts < where.searchsorted(spans[:, 1]))
            firsts = firsts[words]
            last = max(0, len(own) - size)
            starts = np.array([*range(0, last, (size + 1) // 2), last])
            middles = starts + (size - 1) / 2
            of_word = np.abs(firsts[:, None] - middles).argmin(axis=1)
            yield [
                (
                    own[start : start + size],
                    words[of_word == i],
                    firsts[of_word == i] - start + 1,
                )
                for i, start in enumerate(starts)
            ]

    def records(
        self, examples: _Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record for each window, to train only if it has tags."""
        number = {label: i for i, label in enumerate(self.labels)}
        for example, windows in zip(
            examples, self._windows(examples), strict=True
        ):
            tags = [number.get(tag, _NO_TAG) for tag in example.tags or ()]
            tag_ids = np.array(tags or [_NO_TAG] * len(example.words), int)
            for ids, words, places in windows:
                record = task.pair_record(
                    ids.tolist(), [], self.tokenizer, self.max_seq_length
                )
                row = np.full(len(record["input_ids"]), _NO_TAG, np.int32)
                row[places] = tag_ids[words]
                if not is_training or np.any(row != _NO_TAG):
                    yield record | {"tag_ids": row}

    def _tagged(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[tuple[list[str], np.ndarray]]:
        """Yields the tags of each example, and their probabilities."""
        rows = iter(outputs["logits"])
        for example, windows in zip(
            examples, self._windows(examples), strict=True
        ):
            tags = [entities.OUTSIDE] * len(example.words)
            shares = np.ones(len(tags))
            for (_, words, places), logits in zip(windows, rows, strict=False):
                found = special.softmax(logits[places].astype(float), axis=-1)
                shares[words] = found.max(axis=-1, initial=0)
                best = found.argmax(axis=-1)
                for word, label in zip(words, best, strict=True):
                    tags[word] = self.labels[label]
            yield tags, shares

    def _score(self, examples: _Examples, tags: Sequence[list[str]]) -> Scores:
        true = [[*(example.tags or ())] for example in examples]
        scores = entities.score_tags(
            *(_readable(sentences, self.scheme) for sentences in (true, tags))
        )
        if self.scheme == entities.PLAIN:
            (accuracy,) = (s for s in scores if s.key == "accuracy")
            return Scores(entries=(accuracy,))
        return scores

    def scores(self, examples: _Examples, outputs: Outputs) -> Scores:
        """Returns scores of entities, and the accuracy of words."""
        tags = [tags for tags, _ in self._tagged(examples, outputs)]
        return self._score(examples, tags)

    def baselines(self, examples: _Examples) -> dict[str, float]:
        """Returns the score of the dictionary, if it is known."""
        if not self.dictionary:
            return {}
        tags = [
            [
                self.dictionary.get(example.text[s:e], self.dictionary[""])
                for s, e in example.words
            ]
            for example in examples
        ]
        metric = self.primary_metric
        return {metric: self._score(examples, tags)[metric]}

    def answers(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `entities`, and the `tags` of given words."""
        for example, (tags, shares) in zip(
            examples, self._tagged(examples, outputs), strict=True
        ):
            found = []
            for kind, first, end in find_entities(
                tags, self.labels, self.scheme
            ):
                start = example.raw_words[first][0]
                stop = example.raw_words[end - 1][1]
                found.append(
                    {
                        "label": kind,
                        "text": example.raw_text[start:stop],
                        "start": start,
                        "end": stop,
                        "score": float(shares[first:end].mean()),
                    }
                )
            given = {"tags": tags} if example.has_words else {}
            yield {"entities": found, **given}

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[_Examples, Outputs], None]]:
        """Opens `predictions.conll` and `predictions.jsonl`."""
        paths = [
            os.path.join(output_dir, f"predictions.{ending}")
            for ending in ("conll", "jsonl")
        ]
        with (
            files.atomic_write(paths[0]) as conll,
            files.atomic_write(paths[1]) as lines,
        ):

            def write(examples: _Examples, outputs: Outputs) -> None:
                tagged = self._tagged(examples, outputs)
                answers = self.answers(examples, outputs)
                for example, (tags, _), answer in zip(
                    examples, tagged, answers, strict=True
                ):
                    row = {"id": example.guid, **answer}
                    text = json.dumps(row, ensure_ascii=False)
                    lines.write(f"{text}\n".encode())
                    if example.starts_document:
                        mark = examples_lib.DOCUMENT_START
                        conll.write(f"{mark}\t{entities.OUTSIDE}\n\n".encode())
                    words = (example.text[s:e] for s, e in example.words)
                    for word, tag in zip(words, tags, strict=True):
                        conll.write(f"{word}\t{tag}\n".encode())
                    conll.write(b"\n")

            yield write

    def report_sections(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> list[dict[str, Any]]:
        """Returns scores by kind, confused kinds, and the worst texts."""
        return []


def dictionary_of(examples: _Examples) -> dict[str, str]:
    """Returns the most frequent tag of each word; that of all words for ""."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for example in examples:
        for (start, end), tag in zip(
            example.words, example.tags or (), strict=True
        ):
            counts[example.text[start:end]][tag] += 1
            counts[""][tag] += 1
    return {word: tags.most_common(1)[0][0] for word, tags in counts.items()}


def find_entities(
    tags: Sequence[str], labels: Sequence[str], scheme: str
) -> list[entities.Entity]:
    """Returns entities; of plain tags, words, or runs if some are `O`.

    `labels` are all tags, and `scheme` is theirs.
    """
    if scheme != entities.PLAIN:
        return entities.find_entities(*_readable([tags], scheme))
    joins = entities.OUTSIDE in labels
    found: list[entities.Entity] = []
    for i, tag in enumerate(tags):
        if found and joins and found[-1][::2] == (tag, i):
            found[-1] = found[-1]._replace(end=i + 1)
        elif tag != entities.OUTSIDE:
            found.append(entities.Entity(tag, i, i + 1))
    return found


def _readable(
    sentences: Sequence[Sequence[str]], scheme: str
) -> list[Sequence[str]]:
    """Returns tags in which seqeval's default mode finds all entities."""
    if scheme != "BILOU":
        return [*sentences]
    letters = str.maketrans("LU", "ES")
    return [
        [tag[0].translate(letters) + tag[1:] for tag in tags]
        for tags in sentences
    ]
