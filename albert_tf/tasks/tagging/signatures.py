"""The signatures of a token classifier: the entities of a text.

A text that is longer than the model's input is read in windows that overlap.

Data flow: text -> words, tokens -> windows -> [this file] -> tags -> entities.
Source: `tasks.tagging.words` and `tasks.tagging.data`; the results are equal.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.metrics.entities import OUTSIDE
from albert_tf.serving import graph_tokenizer, model_inputs, ragged, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.graph_tokenizer import CPU, GraphTokenizer
from albert_tf.serving.ragged import Ranges
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks.spec import Exported
from albert_tf.tasks.tagging import decoding as decoding_lib
from albert_tf.tasks.tagging import words as words_lib
from albert_tf.tasks.tagging.decoding import NEVER, Decoding

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
    decoding = Decoding(labels, **settings.rules)

    def from_text(text: tf.Tensor) -> Tensors:
        with tf.device(CPU):
            words = _find_words(text, tokenizer, settings.words)
            windows, places = _make_windows(
                words,
                settings.max_seq_length - tokenizer.special_ids.num_around(1),
            )
        num_tags = len(labels)
        log_probs = _score(words.ids, windows, from_ids, tokenizer, num_tags)
        with tf.device(CPU):
            # The place of a word without tokens may be behind all others.
            log_probs = tf.pad(log_probs, [[0, 1], [0, 0]])
            log_probs = tf.where(
                words.has_tokens[:, None],
                tf.cast(tf.gather(log_probs, places), tf.float64),
                decoding.of_no_tokens,
            )
            tags = _best_tags(log_probs, words, decoding)
            scores = tf.exp(tf.gather(log_probs, tags, batch_dims=1))
            return _read_entities(words, tags, scores, decoding)

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
    strings: tf.Tensor  # [W]

    @property
    def has_tokens(self) -> tf.Tensor:
        """Bool `[W]`."""
        return self.token_splits[1:] > self.token_splits[:-1]


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
    pattern = words_lib.word_pattern(kind, tokenizer.added.patterns)
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
    return _Words(
        tokens.ids, tokens.row_splits, starts, ends, row_splits, words.values
    )


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
    starts = tf.gather(tokens.starts, first)
    ends = tf.gather(tokens.ends, splits[1:] - 1)
    rows = tf.gather(rows, first)
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    return _Words(
        ids=tokens.ids,
        token_splits=splits,
        starts=starts,
        ends=ends,
        row_splits=ragged.row_splits(rows, ragged.size(texts)),
        strings=tf.strings.substr(
            tf.gather(texts, rows), starts, ends - starts, "UTF8_CHAR"
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


def _score(
    ids: tf.Tensor,
    windows: Ranges,
    logits_of: Callable[..., Tensors],
    tokenizer: GraphTokenizer,
    num_tags: int,
) -> tf.Tensor:
    """Returns the log-probabilities of the tokens of all windows, `[N, K]`."""
    num_windows = ragged.size(windows.starts)
    special = tokenizer.special_ids
    begin_of_text = special.num_before

    def score_some(begin: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        end = tf.minimum(begin + _WINDOWS_PER_CALL, num_windows)
        some = windows[begin:end]
        none = Ranges(some.starts, tf.zeros_like(some.sizes))
        inputs = model_inputs.pack_ranges(
            ids, some, none, is_pair=False, special=special
        )
        scores = tf.nn.log_softmax(logits_of(**inputs)["logits"])
        scores = scores[:, begin_of_text:]
        mask = tf.sequence_mask(some.sizes, tf.shape(scores)[1])
        return end, [tf.boolean_mask(scores, mask)]

    none = [tf.zeros([0, num_tags])]
    [log_probs] = ragged.in_parts(score_some, num_windows, none)
    return log_probs


def _best_tags(
    log_probs: tf.Tensor, words: _Words, decoding: Decoding
) -> tf.Tensor:
    """Returns the tags of words, int32 `[W]`, as `Decoding.best_tags`."""
    if decoding.is_free:
        return tf.argmax(log_probs, axis=-1, output_type=tf.int32)
    outside = len(decoding.illegal) - 1
    no_word = tf.constant([-NEVER] * outside + [0.0], tf.float64)
    # All texts are one chain; a place without a word ends each.
    rows = ragged.row_ids(words.row_splits)
    places = tf.range(tf.shape(rows)[0]) + rows
    size = tf.shape(rows)[0] + tf.shape(words.row_splits)[0] - 1
    indices = places[:, None]
    scores = tf.tensor_scatter_nd_update(
        tf.tile(no_word[None], [size, 1]),
        indices,
        tf.pad(log_probs, [[0, 0], [0, 1]], constant_values=-NEVER),
    )
    first, last = (
        tf.scatter_nd(indices, _is_any(words.strings, marks), [size])
        for marks in (decoding.never_first, decoding.never_last)
    )
    illegal, starts, ends = (
        tf.constant(NEVER * table, tf.float64)
        for table in (decoding.illegal, decoding.starts, decoding.ends)
    )

    def find_best(
        before: tuple[tf.Tensor, tf.Tensor], place: tuple[tf.Tensor, ...]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        score, is_first, is_last = place
        faults = illegal + is_first * starts + is_last * ends
        by_step = before[0][:, None] - faults
        best = tf.argmax(by_step, axis=0, output_type=tf.int32)
        return tf.reduce_max(by_step, axis=0) + score, best

    last = ragged.shift_right(last, 0.0)
    none = tf.zeros([outside + 1], tf.int32)
    _, backs = tf.scan(find_best, (scores, first, last), (no_word, none))
    before = tf.scan(
        lambda tag, back: back[tag], backs, tf.constant(outside), reverse=True
    )
    return tf.gather(before, places + 1)


def _is_any(strings: tf.Tensor, others: Sequence[str]) -> tf.Tensor:
    """Returns which strings are among others, float64 `[W]`."""
    table = tf.constant([*others], tf.string, [len(others)])
    is_any = tf.reduce_any(strings[:, None] == table, axis=1)
    return tf.cast(is_any, tf.float64)


def _read_entities(
    words: _Words, tags: tf.Tensor, scores: tf.Tensor, decoding: Decoding
) -> Tensors:
    """Reads the entities from the tags of words, by tables."""
    labels, outside = decoding.labels, len(decoding.labels)
    alone = [decoding_lib.find_entities([x], labels) for x in labels]
    kinds = [one[0].kind if one else "" for one in alone] + [""]
    # Words without tokens are outside, and so are the places around a text.
    if OUTSIDE not in labels:
        tags = tf.where(words.has_tokens, tags, outside)
    rows = ragged.row_ids(words.row_splits)
    before = ragged.shift_right(tags, outside)
    before = tf.where(ragged.is_first(rows), outside, before)
    after = ragged.shift_left(tags, outside)
    after = tf.where(ragged.is_last(rows), outside, after)
    steps = (tf.stack(pair, 1) for pair in ((before, tags), (tags, after)))
    first, last = (
        ragged.indices(tf.gather_nd(table, step))
        for table, step in zip(
            (decoding.starts, decoding.ends), steps, strict=True
        )
    )
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
