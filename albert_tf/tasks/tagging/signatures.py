"""The signatures of a token classifier: the entities of a text.

A text that is longer than the model's input is read in windows that overlap;
each word has its tag from the window in whose middle it is.

Data flow: text -> words, tokens -> windows -> [this file] -> tags -> entities.
Source: `tasks.tagging.words` and `tasks.tagging.data`; the results are equal.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import compatibility
from albert_tf.metrics import entities
from albert_tf.serving import model_inputs, ragged, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.graph_tokenizer import (
    CPU,
    GraphTokenizer,
    WordPieceGraph,
)
from albert_tf.serving.ragged import PagedTable, Ranges
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.serving.text_normalization import may_change
from albert_tf.tasks.spec import Exported
from albert_tf.tasks.tagging import data as data_lib
from albert_tf.tasks.tagging import words as words_lib

# Windows that go through the model together: memory against overhead.
_WINDOWS_PER_CALL = 16
_NUM_SPECIAL = 2
_EXAMPLE = {"text": "Angela Merkel visited Paris."}


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of a token classifier.

    Raw text gives the entities of each, `[B, N]`, N that of the text with the
    most: `starts` and `ends`, int32, their code points in the text; `labels`,
    and `scores`, float32, the mean probability of their words' tags. Where a
    text has fewer, these are -1, -1, "" and -1. Ids give `logits`, float32
    `[B, S, K]`.
    """
    settings, model = exported.settings, exported.model
    encode = ExportedEncoder(model.albert, exported.weights)
    head: Any = model.task_head

    def from_ids(**ids: tf.Tensor) -> Tensors:
        sequence, _ = encode(**ids)
        with exported.weights.scope():
            return {"logits": head(sequence)}

    labels = compatibility.find_labels(
        exported.metadata, model.num_labels, where="The checkpoint"
    )
    reader = _Reader(
        from_ids,
        exported.tokenizer,
        settings.max_seq_length - _NUM_SPECIAL,
        _word_finder(exported.tokenizer, settings.words),
        EntityTables.of(labels, settings.scheme),
    )
    return signature.text_and_token_signatures(
        reader.entities, from_ids, example=_EXAMPLE
    )


class Words(NamedTuple):
    """The words of B texts, and their tokens; see `words.TextWords`."""

    ids: tf.Tensor  # int32 [M]
    token_splits: tf.Tensor  # int32 [W + 1]
    starts: tf.Tensor  # int32 [W]
    ends: tf.Tensor  # int32 [W]
    row_splits: tf.Tensor  # int32 [B + 1], the words of each text


def _word_finder(
    tokenizer: GraphTokenizer, words: str
) -> Callable[[tf.Tensor], Words]:
    """Returns a function of strings `[B]`, as `words.split`."""
    if words == data_lib.SPACED:
        values = np.full(ragged.NUM_CODE_POINTS, words_lib.LETTER)
        for code_point in may_change():
            values[code_point] = words_lib.kind_of(chr(code_point))
        kinds = PagedTable(values)
        return lambda texts: _spaced_words(texts, tokenizer, kinds)
    marks = tf.constant(
        words_lib.word_marks(
            tokenizer.tokens,
            is_wordpiece=isinstance(tokenizer, WordPieceGraph),
            unknown=tokenizer.tokens[tokenizer.special_ids.unk],
        ),
        tf.int32,
    )
    return lambda texts: _words_of_tokens(texts, tokenizer, marks)


def _spaced_words(
    texts: tf.Tensor, tokenizer: GraphTokenizer, table: PagedTable
) -> Words:
    # The blank ends the last word.
    code_points, splits = ragged.decode(tf.strings.join([texts, " "]))
    kinds = table.lookup(code_points)
    is_first, is_last = words_lib.first_and_last(
        code_points, kinds, ragged.shift_right, ragged.shift_left
    )
    first = ragged.indices(is_first)
    rows = tf.gather(ragged.row_ids(splits), first)
    is_solid = kinds != words_lib.SPACE
    starts = ragged.indices(tf.boolean_mask(is_first, is_solid))
    code_points = tf.boolean_mask(code_points, is_solid)
    tokens = tokenizer(
        ragged.encode(
            code_points, tf.concat([starts, tf.shape(code_points)], 0)
        )
    )
    shift = tf.gather(splits, rows)
    return Words(
        ids=tokens.ids,
        token_splits=tokens.row_splits,
        starts=first - shift,
        ends=ragged.indices(is_last) + 1 - shift,
        row_splits=ragged.row_splits(rows, ragged.size(texts)),
    )


def _words_of_tokens(
    texts: tf.Tensor, tokenizer: GraphTokenizer, table: tf.Tensor
) -> Words:
    tokens = tokenizer(texts)
    rows = ragged.row_ids(tokens.row_splits)
    marks = tf.gather(table, tokens.ids)
    before = ragged.shift_right(marks, 0)
    is_first = (marks & words_lib.STARTS | before & words_lib.ENDS) != 0
    first = ragged.indices(is_first | ragged.is_first(rows))
    splits = tf.concat([first, tf.shape(rows)], 0)
    return Words(
        ids=tokens.ids,
        token_splits=splits,
        starts=tf.gather(tokens.starts, first),
        ends=tf.gather(tokens.ends, splits[1:] - 1),
        row_splits=ragged.row_splits(
            tf.gather(rows, first), ragged.size(texts)
        ),
    )


class Windows(NamedTuple):
    """V windows over the tokens of texts, and the window of each of W words.

    Places are those of the words' first tokens in the window's sequence.
    """

    ranges: Ranges  # [V]
    of_words: tf.Tensor  # int32 [W], never decreasing
    places: tf.Tensor  # int32 [W]


def make_windows(words: Words, size: tf.Tensor | int) -> Windows:
    """Returns the windows of `TaggingData.records`, of up to `size` tokens."""
    splits = tf.gather(words.token_splits, words.row_splits)
    last = tf.maximum(splits[1:] - splits[:-1] - size, 0)  # [B]
    step = (size + 1) // 2
    num_before_last = -(-last // step)
    rows, index = ragged.expand(num_before_last + 1)
    starts = tf.minimum(index * step, tf.gather(last, rows))
    ranges = Ranges(
        starts=tf.gather(splits, rows) + starts,
        sizes=tf.minimum(
            tf.gather(splits[1:] - splits[:-1], rows) - starts, size
        ),
    )
    # Twice where the best window would start; all but the last are in steps.
    rows = ragged.row_ids(words.row_splits)
    firsts = words.token_splits[:-1] - tf.gather(splits, rows)
    best = 2 * firsts - (size - 1)
    last, most = tf.gather(last, rows), tf.gather(num_before_last, rows)
    nearest = -((step - best) // (2 * step))
    nearest = tf.maximum(tf.minimum(nearest, most - 1), 0)
    distance = tf.abs(best - 2 * step * nearest)
    is_last = tf.abs(best - 2 * last) < distance
    of_words = tf.where(is_last, most, nearest)
    starts = tf.where(is_last, last, nearest * step)
    shift = ragged.sums_before(num_before_last + 1)
    return Windows(
        ranges=ranges,
        of_words=of_words + tf.gather(shift, rows),
        places=firsts - starts + 1,
    )


class EntityTables(NamedTuple):
    """Where entities begin and end, from each of K tags, or none, to the next.

    Such a step is an index, `K + 1` times the tag before plus the tag; K is no
    tag, beside a text.
    """

    starts: tf.Tensor  # bool [(K + 1)^2]
    ends: tf.Tensor  # bool [(K + 1)^2]
    kinds: tf.Tensor  # strings [K]

    @classmethod
    def of(cls, labels: Sequence[str], scheme: str | None) -> "EntityTables":
        """Returns what Python finds in two tags, for all pairs."""
        scheme = scheme or entities.scheme_of([label] for label in labels)

        def find(*tags: str) -> list[entities.Entity]:
            return data_lib.find_entities(tags, labels, scheme)

        tags = [*labels, entities.OUTSIDE]
        steps = [find(before, tag) for before in tags for tag in tags]
        kinds = [[one.kind for one in find(tag)] for tag in labels]
        return cls(
            tf.constant([any(e.start == 1 for e in step) for step in steps]),
            tf.constant([any(e.end == 1 for e in step) for step in steps]),
            tf.constant([(*found, "")[0] for found in kinds]),
        )


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Finds the entities of texts; see `make_signatures`."""

    logits_of: Callable[..., Tensors]
    tokenizer: GraphTokenizer
    window_size: int
    find_words: Callable[[tf.Tensor], Words]
    tables: EntityTables

    def entities(self, text: tf.Tensor) -> Tensors:
        with tf.device(CPU):
            words = self.find_words(text)
            windows = make_windows(words, self.window_size)
        num_windows = ragged.size(windows.ranges.starts)

        def tag_some(begin: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
            end = tf.minimum(begin + _WINDOWS_PER_CALL, num_windows)
            return end, self._tag(words.ids, windows, begin, end)

        # Of all words, because windows are in order.
        tags, shares = ragged.in_parts(
            tag_some, num_windows, [tf.zeros([0], tf.int32), tf.zeros([0])]
        )
        with tf.device(CPU):
            return self._read(words, tags, shares)

    def _tag(
        self,
        ids: tf.Tensor,
        windows: Windows,
        begin: tf.Tensor,
        end: tf.Tensor,
    ) -> list[tf.Tensor]:
        """Returns the tags and their probabilities of the words of windows."""
        ranges = windows.ranges[begin:end]
        inputs = model_inputs.pack_ranges(
            ids,
            ranges,
            Ranges(ranges.starts, tf.zeros_like(ranges.sizes)),
            is_pair=False,
            special=self.tokenizer.special_ids,
        )
        logits = self.logits_of(**inputs)["logits"]
        own = ragged.indices(
            (windows.of_words >= begin) & (windows.of_words < end)
        )
        where = [tf.gather(windows.of_words, own) - begin]
        where.append(tf.gather(windows.places, own))
        found = tf.nn.softmax(tf.gather_nd(logits, tf.stack(where, 1)))
        tags = tf.argmax(found, axis=-1, output_type=tf.int32)
        return [tags, tf.reduce_max(found, axis=-1)]

    def _read(
        self, words: Words, tags: tf.Tensor, shares: tf.Tensor
    ) -> Tensors:
        """Reads the entities from the tags of words."""
        num_tags = self.tables.kinds.shape[0]
        rows = ragged.row_ids(words.row_splits)
        has_tokens = words.token_splits[1:] > words.token_splits[:-1]
        # Each text with no tag behind it.
        num_texts = ragged.size(words.row_splits) - 1
        num_steps = ragged.size(rows) + num_texts
        tags = tf.tensor_scatter_nd_update(
            tf.fill([num_steps], num_tags),
            (tf.range(ragged.size(rows)) + rows)[:, None],
            tf.where(has_tokens, tags, num_tags),
        )
        steps = ragged.shift_right(tags, num_tags) * (num_tags + 1) + tags
        is_start = tf.gather(self.tables.starts, steps)
        ends = ragged.indices(tf.gather(self.tables.ends, steps))
        splits = words.row_splits + tf.range(num_texts + 1)
        rows = tf.gather(ragged.row_ids(splits), ends)
        # From steps to words.
        starts = ragged.previous_true(is_start, ends)
        starts = tf.maximum(starts, tf.gather(splits, rows)) - rows
        kinds = tf.gather(self.tables.kinds, tf.gather(tags, ends - 1))
        ends -= rows
        # In float64, as in Python: the sums of many words.
        sums = tf.concat([[0], tf.cumsum(tf.cast(shares, tf.float64))], 0)
        scores = tf.gather(sums, ends) - tf.gather(sums, starts)
        scores /= tf.cast(ends - starts, tf.float64)
        splits = ragged.row_splits(rows, num_texts)
        return {
            name: tf.RaggedTensor.from_row_splits(
                values, splits, validate=False
            ).to_tensor(tf.cast(-1, values.dtype) if name != "labels" else "")
            for name, values in {
                "starts": tf.gather(words.starts, starts),
                "ends": tf.gather(words.ends, ends - 1),
                "labels": kinds,
                "scores": tf.cast(scores, tf.float32),
            }.items()
        }
