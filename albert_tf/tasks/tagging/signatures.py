"""The signatures of a token classifier: the entities of a text.

A text that is longer than the model's input is read in windows that overlap.

Data flow: text -> words, tokens -> windows -> [this file] -> tags -> entities.
Source: `tasks.tagging.words` and `tasks.tagging.data`; the results are equal.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.metrics.entities import OUTSIDE, Entity
from albert_tf.serving import graph_tokenizer, model_inputs, ragged, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.graph_tokenizer import CPU, GraphTokenizer
from albert_tf.serving.ragged import Ranges
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks.spec import Exported
from albert_tf.tasks.tagging import data as data_lib
from albert_tf.tasks.tagging import words as words_lib

# Windows that go through the model together: memory against overhead.
_WINDOWS_PER_CALL = 16
_EXAMPLE = {"text": "Angela Merkel visited Paris."}


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of a token classifier.

    Raw text gives the entities of each, `[B, N]`, N of the text with the
    most: `starts` and `ends`, int32, their code points in the text; `labels`,
    strings; and `scores`, float32, the mean probability of their words' tags. A
    text with fewer has -1 and "" behind them. Ids give `logits`, float32
    `[B, S, K]`.
    """
    settings, model = exported.settings, exported.model
    tokenizer = exported.tokenizer
    encode = ExportedEncoder(model.albert, exported.weights)
    head: Any = model.task_head

    def from_ids(**ids: tf.Tensor) -> Tensors:
        sequence, _ = encode(**ids)
        with exported.weights.scope():
            return {"logits": head(sequence)}

    labels = exported.metadata.find_labels(model.num_labels)

    def from_text(text: tf.Tensor) -> Tensors:
        with tf.device(CPU):
            words = _find_words(text, tokenizer, settings.words)
            windows, places = _make_windows(
                words,
                settings.max_seq_length - tokenizer.special_ids.num_around(1),
            )
        tagged = _tag(words.ids, windows, from_ids, tokenizer)
        with tf.device(CPU):
            tags, scores = (ragged.gather_or(v, places, 0) for v in tagged)
            return _read_entities(words, tags, scores, labels)

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


def _find_words(
    texts: tf.Tensor, tokenizer: GraphTokenizer, kind: str
) -> _Words:
    """Finds the words of strings `[B]`, as `words.split`."""
    if kind == words_lib.TOKENS:
        return _words_of_tokens(texts, tokenizer)
    import tensorflow_text as tf_text  # Not every Python has it.

    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    # The next operation takes it for the end.
    texts = tf.strings.regex_replace(texts, r"\x00", tokenizer.like_nul)
    pattern = words_lib.word_pattern(kind, tuple(tokenizer.added_patterns))
    words, *spans = tf_text.regex_split_with_offsets(
        texts, f"{pattern}|{ragged.WHITE_SPACE}+", pattern
    )
    tokens = tokenizer(words.values)
    code_points, splits = ragged.decode(texts)
    row_splits = tf.cast(words.row_splits, tf.int32)
    rows = ragged.row_ids(row_splits)
    starts, ends = (
        ragged.places_of_bytes(code_points, splits, span.values, rows)
        - tf.gather(splits, rows)
        for span in spans
    )
    return _Words(tokens.ids, tokens.row_splits, starts, ends, row_splits)


def _words_of_tokens(texts: tf.Tensor, tokenizer: GraphTokenizer) -> _Words:
    """Finds the words of strings `[B]`, as `words.split`."""
    tokens = tokenizer(texts)
    rows = ragged.row_ids(tokens.row_splits)
    starts_word = words_lib.starts_word(
        tokenizer.tokens,
        is_wordpiece=isinstance(tokenizer, graph_tokenizer.WordPieceGraph),
    )
    starts_word[tokenizer.special_ids.unk] = True
    is_first = tf.gather(starts_word, tokens.ids) | ragged.is_first(rows)
    is_first |= ragged.shift_right(tokens.starts == tokens.ends, True)
    first = ragged.indices(is_first)
    splits = tf.concat([first, tf.shape(rows)], 0)
    return _Words(
        ids=tokens.ids,
        token_splits=splits,
        starts=tf.gather(tokens.starts, first),
        ends=tf.gather(tokens.ends, splits[1:] - 1),
        row_splits=ragged.row_splits(
            tf.gather(rows, first), ragged.size(texts)
        ),
    )


def _make_windows(words: _Words, size: int) -> tuple[Ranges, tf.Tensor]:
    """Returns V windows, of at most `size` tokens, as `TaggingData` does.

    And, int32 `[W]`, where the first tokens of words are among the tokens of
    all windows.
    """
    step = (size + 1) // 2
    splits = tf.gather(words.token_splits, words.row_splits)
    sizes = splits[1:] - splits[:-1]  # [B]
    last = tf.maximum(-((size - sizes) // step), 0)
    rows, index = ragged.expand(last + 1)
    starts = tf.gather(splits, rows) + index * step
    windows = Ranges(
        starts, tf.minimum(tf.gather(splits, rows + 1) - starts, size)
    )
    rows = ragged.row_ids(words.row_splits)
    firsts = words.token_splits[:-1] - tf.gather(splits, rows)
    index = (firsts - size // 4) // step
    index = tf.clip_by_value(index, 0, tf.gather(last, rows))
    before = ragged.sums_before(last + 1)
    window = tf.gather(before, rows) + index
    places = tf.gather(ragged.sums_before(windows.sizes), window)
    return windows, places + firsts - index * step


def _tag(
    ids: tf.Tensor,
    windows: Ranges,
    logits_of: Callable[..., Tensors],
    tokenizer: GraphTokenizer,
) -> list[tf.Tensor]:
    """Returns the tags of the tokens of all windows, and their probabilities.

    They are int32 and float32 `[N]`.
    """
    num_windows = ragged.size(windows.starts)
    special = tokenizer.special_ids
    begin_of_text = special.num_before

    def tag_some(begin: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        end = tf.minimum(begin + _WINDOWS_PER_CALL, num_windows)
        some = windows[begin:end]
        none = Ranges(some.starts, tf.zeros_like(some.sizes))
        inputs = model_inputs.pack_ranges(
            ids, some, none, is_pair=False, special=special
        )
        scores = tf.nn.softmax(logits_of(**inputs)["logits"])
        tags = tf.argmax(scores, axis=-1, output_type=tf.int32)
        mask = tf.sequence_mask(some.sizes, tf.shape(tags)[1] - begin_of_text)
        return end, [
            tf.boolean_mask(values[:, begin_of_text:], mask)
            for values in (tags, tf.reduce_max(scores, axis=-1))
        ]

    none = [tf.zeros([0], tf.int32), tf.zeros([0])]
    return ragged.in_parts(tag_some, num_windows, none)


def _read_entities(
    words: _Words, tags: tf.Tensor, scores: tf.Tensor, labels: tuple[str, ...]
) -> Tensors:
    """Reads the entities from the tags of words, by tables.

    What Python finds in any two neighbours says where entities start and end.
    """
    names, outside = [*labels, OUTSIDE], len(labels)

    def find(*tags: str) -> list[Entity]:
        return data_lib.find_entities(tags, labels)

    pairs = [find(a, b) for a in names for b in names]
    starts_second = [any(one.start == 1 for one in found) for found in pairs]
    ends_first = [any(one.end == 1 for one in found) for found in pairs]
    kinds = [(*(one.kind for one in find(name)), "")[0] for name in names]
    # Words without tokens are outside, and so are the places around a text.
    has_tokens = words.token_splits[1:] > words.token_splits[:-1]
    tags = tf.where(has_tokens, tags, outside)
    rows = ragged.row_ids(words.row_splits)
    before = ragged.shift_right(tags, outside)
    before = tf.where(ragged.is_first(rows), outside, before)
    after = ragged.shift_left(tags, outside)
    after = tf.where(ragged.is_last(rows), outside, after)
    steps = before * len(names) + tags, tags * len(names) + after
    first = ragged.indices(tf.gather(starts_second, steps[0]))
    last = ragged.indices(tf.gather(ends_first, steps[1]))
    # In float64: there are many words.
    sums = tf.concat([[0], tf.cumsum(tf.cast(scores, tf.float64))], 0)
    sums = tf.gather(sums, last + 1) - tf.gather(sums, first)
    means = sums / tf.cast(last + 1 - first, tf.float64)
    found = {
        "starts": tf.gather(words.starts, first),
        "ends": tf.gather(words.ends, last),
        "scores": tf.cast(means, tf.float32),
        "labels": tf.gather(kinds, tf.gather(tags, last)),
    }
    # As in Python, none is empty.
    is_real = found["starts"] < found["ends"]
    splits = ragged.row_splits(
        tf.boolean_mask(tf.gather(rows, first), is_real),
        ragged.size(words.row_splits) - 1,
    )
    padded = {
        name: tf.RaggedTensor.from_row_splits(
            tf.boolean_mask(values, is_real), splits, validate=False
        ).to_tensor("" if name == "labels" else -1)
        for name, values in found.items()
    }
    return {n: tf.ensure_shape(one, [None, None]) for n, one in padded.items()}
