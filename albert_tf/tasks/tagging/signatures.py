"""The signatures of a token classifier: the entities of a text.

A text that is longer than the model's input is read in windows that overlap.

Data flow: text -> words, tokens -> windows -> [this file] -> tags -> entities.
Source: `tasks.tagging.words` and `tasks.tagging.data`; the results are equal.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import compatibility
from albert_tf.metrics import entities
from albert_tf.metrics.entities import Entity
from albert_tf.serving import graph_tokenizer, model_inputs, ragged, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.graph_tokenizer import CPU, GraphTokenizer
from albert_tf.serving.ragged import PagedTable, Ranges
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.serving.text_normalization import may_change
from albert_tf.tasks.spec import Exported
from albert_tf.tasks.tagging import data as data_lib
from albert_tf.tasks.tagging import words as words_lib

# Windows that go through the model together: memory against overhead.
_WINDOWS_PER_CALL = 16
_EXAMPLE = {"text": "Angela Merkel visited Paris."}


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of a token classifier.

    Raw text gives the entities of each, `[B, N]`, N that of the text with the
    most: `starts` and `ends`, int32, their code points in the text; `labels`,
    strings; and `scores`, float32, the mean probability of their words' tags. A
    text with fewer has -1 and "" behind them. Ids give `logits`, float32
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
    find_words = _word_finder(exported.tokenizer, settings.words)
    tables = _entity_tables(labels, settings.scheme)

    def from_text(text: tf.Tensor) -> Tensors:
        with tf.device(CPU):
            words = find_words(text)
            windows = _make_windows(
                words,
                settings.max_seq_length,
                exported.tokenizer.special_ids.num_around(1),
            )
        tags, scores = _tag(words, windows, from_ids, exported.tokenizer)
        with tf.device(CPU):
            return _read_entities(words, tags, scores, tables)

    return signature.text_and_token_signatures(
        from_text, from_ids, example=_EXAMPLE
    )


class _Words(NamedTuple):
    """The W words of B texts and their M tokens; see `words.TextWords`."""

    ids: tf.Tensor  # int32 [M]
    token_splits: tf.Tensor  # int32 [W + 1]
    starts: tf.Tensor  # int32 [W]
    ends: tf.Tensor  # int32 [W]
    row_splits: tf.Tensor  # int32 [B + 1]: the words of each text


def _word_finder(
    tokenizer: GraphTokenizer, words: str
) -> Callable[[tf.Tensor], _Words]:
    """Returns a function of strings `[B]`, as `words.split`."""
    if words == data_lib.SPACED:
        values = np.full(ragged.NUM_CODE_POINTS, words_lib.LETTER)
        for code_point in may_change():
            values[code_point] = words_lib.kind_of(chr(code_point))
        kinds = PagedTable(values)
        return lambda texts: _spaced_words(texts, tokenizer, kinds)
    marks = words_lib.word_marks(
        tokenizer.tokens,
        is_wordpiece=isinstance(tokenizer, graph_tokenizer.WordPieceGraph),
        unknown=tokenizer.tokens[tokenizer.special_ids.unk],
    )
    return lambda texts: _words_of_tokens(texts, tokenizer, marks)


def _spaced_words(
    texts: tf.Tensor, tokenizer: GraphTokenizer, table: PagedTable
) -> _Words:
    # The blank ends the last word.
    code_points, splits = ragged.decode(tf.strings.join([texts, " "]))
    kinds = table.lookup(code_points)
    is_first, is_last = words_lib.first_and_last(
        code_points, kinds, ragged.shift_right, ragged.shift_left
    )
    first = ragged.indices(is_first)
    rows = tf.gather(ragged.row_ids(splits), first)
    shift = tf.gather(splits, rows)
    # From here on, each word is a text of its own.
    is_solid = kinds != words_lib.SPACE
    solid = tf.boolean_mask(code_points, is_solid)
    begins = ragged.indices(tf.boolean_mask(is_first, is_solid))
    strings = ragged.encode(solid, tf.concat([begins, tf.shape(solid)], 0))
    tokens = tokenizer(strings)
    return _Words(
        ids=tokens.ids,
        token_splits=tokens.row_splits,
        starts=first - shift,
        ends=ragged.indices(is_last) + 1 - shift,
        row_splits=ragged.row_splits(rows, ragged.size(texts)),
    )


def _words_of_tokens(
    texts: tf.Tensor, tokenizer: GraphTokenizer, table: np.ndarray
) -> _Words:
    tokens = tokenizer(texts)
    rows = ragged.row_ids(tokens.row_splits)
    marks = tf.gather(tf.constant(table, tf.int32), tokens.ids)
    before = ragged.shift_right(marks, 0)
    is_first = (marks & words_lib.STARTS | before & words_lib.ENDS) != 0
    first = ragged.indices(is_first | ragged.is_first(rows))
    splits = tf.concat([first, tf.shape(rows)], 0)
    rows = tf.gather(rows, first)
    return _Words(
        ids=tokens.ids,
        token_splits=splits,
        starts=tf.gather(tokens.starts, first),
        ends=tf.gather(tokens.ends, splits[1:] - 1),
        row_splits=ragged.row_splits(rows, ragged.size(texts)),
    )


class _Windows(NamedTuple):
    """V windows over the tokens of texts, and the window of each of W words.

    Places are where the first tokens of words are in the sequence of a window.
    """

    ranges: Ranges  # [V]
    of_words: tf.Tensor  # int32 [W], never decreasing
    places: tf.Tensor  # int32 [W]


def _make_windows(
    words: _Words, max_seq_length: int, num_around: int
) -> _Windows:
    """Returns the windows of `TaggingData.records`.

    Each is a sequence; `num_around` of its tokens are `[CLS]` and `[SEP]`.
    """
    size = max_seq_length - num_around
    splits = tf.gather(words.token_splits, words.row_splits)
    sizes = splits[1:] - splits[:-1]  # [B]
    last, step = tf.maximum(sizes - size, 0), (size + 1) // 2
    num_windows = 1 - (-last // step)
    rows, index = ragged.expand(num_windows)
    shifts = tf.minimum(index * step, tf.gather(last, rows))
    starts = tf.gather(splits, rows) + shifts
    sizes = tf.minimum(tf.gather(sizes, rows) - shifts, size)
    # A word's window is that whose middle is nearest to its first token, or
    # the first of two; twice where that would start.
    firsts = words.token_splits[:-1]
    wanted, doubled = 2 * firsts - (size - 1), 2 * starts
    windows = ragged.sums_before(num_windows)
    rows = ragged.row_ids(words.row_splits)
    lowest, highest = tf.gather(windows, rows), tf.gather(windows, rows + 1) - 1
    above = tf.searchsorted(doubled, wanted)
    above = tf.maximum(tf.minimum(above, highest), lowest)
    below = tf.maximum(above - 1, lowest)
    distance = wanted - tf.gather(doubled, below)
    is_below = distance <= tf.gather(doubled, above) - wanted
    of_words = tf.where(is_below, below, above)
    return _Windows(
        ranges=Ranges(starts, sizes),
        of_words=of_words,
        places=firsts - tf.gather(starts, of_words) + num_around // 2,
    )


def _tag(
    words: _Words,
    windows: _Windows,
    logits_of: Callable[..., Tensors],
    tokenizer: GraphTokenizer,
) -> list[tf.Tensor]:
    """Returns the tags of words, int32 `[W]`, and their probabilities."""
    num_windows = ragged.size(windows.ranges.starts)

    def tag_some(begin: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        end = tf.minimum(begin + _WINDOWS_PER_CALL, num_windows)
        ranges = windows.ranges[begin:end]
        none = Ranges(ranges.starts, tf.zeros_like(ranges.sizes))
        ids = model_inputs.pack_ranges(
            words.ids,
            ranges,
            none,
            is_pair=False,
            special=tokenizer.special_ids,
        )
        logits = logits_of(**ids)["logits"]
        first, behind = tf.unstack(
            tf.searchsorted(windows.of_words, tf.stack([begin, end]))
        )
        places = windows.of_words[first:behind] - begin
        places = tf.stack([places, windows.places[first:behind]], 1)
        scores = tf.nn.softmax(tf.gather_nd(logits, places))
        tags = tf.argmax(scores, axis=-1, output_type=tf.int32)
        return end, [tags, tf.reduce_max(scores, axis=-1)]

    none = [tf.zeros([0], tf.int32), tf.zeros([0])]
    return ragged.in_parts(tag_some, num_windows, none)


class _EntityTables(NamedTuple):
    """Where entities begin and end, by steps from a tag to the next.

    A step is `K + 1` times the tag before, plus the tag; K is no tag.
    """

    starts: tf.Tensor  # bool [(K + 1)^2]
    ends: tf.Tensor  # bool [(K + 1)^2]
    kinds: tf.Tensor  # strings [K]


def _entity_tables(labels: Sequence[str], scheme: str | None) -> _EntityTables:
    """Returns what Python finds in two tags, for all pairs of them."""
    scheme = scheme or entities.scheme_of([label] for label in labels)

    def find(*tags: str) -> list[Entity]:
        return data_lib.find_entities(tags, labels, scheme)

    tags = [*labels, entities.OUTSIDE]
    found = [find(before, tag) for before in tags for tag in tags]
    kinds = [[one.kind for one in find(tag)] for tag in labels]
    return _EntityTables(
        starts=tf.constant([any(e.start == 1 for e in one) for one in found]),
        ends=tf.constant([any(e.end == 1 for e in one) for one in found]),
        kinds=tf.constant([(*one, "")[0] for one in kinds]),
    )


def _read_entities(
    words: _Words, tags: tf.Tensor, scores: tf.Tensor, tables: _EntityTables
) -> Tensors:
    """Reads the entities from the tags of words."""
    num_tags = len(tables.kinds)
    rows = ragged.row_ids(words.row_splits)
    num_texts = ragged.size(words.row_splits) - 1
    # Behind each text, there is no tag; and none of a word without tokens.
    splits = words.row_splits + tf.range(num_texts + 1)
    has_tokens = words.token_splits[1:] > words.token_splits[:-1]
    tags = tf.tensor_scatter_nd_update(
        tf.fill(splits[-1:], num_tags),
        (tf.range(ragged.size(rows)) + rows)[:, None],
        tf.where(has_tokens, tags, num_tags),
    )
    steps = ragged.shift_right(tags, num_tags) * (num_tags + 1) + tags
    ends = ragged.indices(tf.gather(tables.ends, steps))
    starts = ragged.previous_true(tf.gather(tables.starts, steps), ends)
    labels = tf.gather(tables.kinds, tf.gather(tags, ends - 1))
    # From tags to words.
    rows = tf.gather(ragged.row_ids(splits), ends)
    starts = tf.maximum(starts, tf.gather(splits, rows)) - rows
    ends -= rows
    # In float64: there are many words.
    sums = tf.concat([[0], tf.cumsum(tf.cast(scores, tf.float64))], 0)
    means = (tf.gather(sums, ends) - tf.gather(sums, starts)) / tf.cast(
        ends - starts, tf.float64
    )
    found = {
        "starts": tf.gather(words.starts, starts),
        "ends": tf.gather(words.ends, ends - 1),
        "scores": tf.cast(means, tf.float32),
        "labels": labels,
    }
    splits = ragged.row_splits(rows, num_texts)
    padded = {
        name: tf.RaggedTensor.from_row_splits(
            values, splits, validate=False
        ).to_tensor("" if name == "labels" else -1)
        for name, values in found.items()
    }
    return {n: tf.ensure_shape(one, [None, None]) for n, one in padded.items()}
