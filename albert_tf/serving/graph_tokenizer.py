"""The tokenizers of `text` as operations of a graph.

Text is normalized by tables computed in Python; then TensorFlow Text splits it
into tokens. Its operations run on the CPU, and TF Serving's images have them.

Data flow: strings -> `text_normalization` -> [this file] -> ids, and their
spans in the raw text.

Source: `text.sentencepiece_tokenizer` and `text.wordpiece_tokenizer`; the
results are equal, but for segmentations of equal score, to float32.
"""

import abc
import functools
import itertools
import unicodedata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    import tensorflow_text as tf_text

from albert_tf.serving import cut_added, ragged
from albert_tf.serving.ragged import PagedTable, Ranges, Sequences
from albert_tf.serving.text_normalization import (
    SPACE,
    NormalizedText,
    SentencePieceNormalization,
    WordPieceNormalization,
    is_space,
    may_change,
)
from albert_tf.text import added_tokens
from albert_tf.text.base import WORD_MARK, Tokenizer
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert_tf.text.symbol_tokenizer import SymbolTokenizer
from albert_tf.text.wordpiece_tokenizer import MAX_WORD_SIZE, WordPieceTokenizer

CPU = "/device:CPU:0"
_COMMA = ord(",")
# In a text of more characters, a run of unknown characters is cut to these few
# at its beginning and at its end.
_MANY, _FEW = 2_048, 32
_MAX_BYTES_OF_CHARACTER = 4
# No token has spaces, so this word is unknown.
_UNKNOWN_WORD = "  "


class Tokens(NamedTuple):
    """The tokens of R texts as a ragged batch; see `ragged`.

    As in `Tokenizer.encode_with_offsets`, starts and ends count code points of
    the raw text.
    """

    ids: tf.Tensor  # int32 [M]
    row_splits: tf.Tensor  # int32 [R + 1]
    starts: tf.Tensor  # int32 [M]
    ends: tf.Tensor  # int32 [M]

    @property
    def rows(self) -> Ranges:
        """The tokens of each text."""
        splits = self.row_splits
        return Ranges(splits[:-1], splits[1:] - splits[:-1])


class GraphTokenizer(abc.ABC):
    """A tokenizer in a graph; it is traced once, for all signatures.

    Attributes:
        special_ids: As in `Tokenizer`.
        ids_within_words: As in `Tokenizer`.
        tokens: The token of each id.
        resource: The vocabulary, which a SavedModel has to track.
        added: As in `Tokenizer`.
        like_nul: A character that becomes the same ids as U+0000.
    """

    resource: "tf.lookup.StaticHashTable | tf_text.SentencepieceTokenizer"
    like_nul: str
    # Of text in which normalized added tokens are found.
    _normalize_added: Callable[[tf.Tensor], NormalizedText]

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.special_ids = tokenizer.special_ids
        self.tokens = tuple(
            map(tokenizer.id_to_token, range(tokenizer.vocab_size))
        )
        self.ids_within_words = tokenizer.ids_within_words
        self.added = tokenizer.added

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None], tf.string)]
    )
    def __call__(self, texts: tf.Tensor) -> Tokens:
        """Tokenizes strings `[R]`; bytes that are not UTF-8 become U+FFFD."""
        tokenize = self._tokenize_parts if self.added else self._tokenize
        # A GPU would only slow these many small operations down.
        with tf.device(CPU):
            ids, rows, starts, ends = tokenize(texts)
            row_splits = ragged.row_splits(rows, ragged.size(texts))
        return Tokens(ids, row_splits, starts, ends)

    def _tokenize_parts(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Cuts out added tokens and tokenizes the rest; see `_tokenize`."""
        texts = _plain(texts, self.like_nul)
        parts, rows, ids = cut_added.written(texts, self.added)
        if self.added.normalized:
            normalized = self._normalize_added(parts)
            parts, whole, new = cut_added.in_normalized(
                parts, ids < 0, normalized, self.added
            )
            rows, ids = tf.gather(rows, whole), tf.gather(ids, whole)
            ids = tf.maximum(ids, new)
        others = self._tokenize(tf.where(ids < 0, parts, ""))
        part_starts, part_ends = _places(parts, rows, ragged.size(texts))
        indices = ragged.indices(ids >= 0)
        sizes = tf.gather(part_ends - part_starts, indices)
        added = tf.gather(ids, indices), indices, tf.zeros_like(sizes), sizes
        tokens = [
            tf.concat(pair, 0) for pair in zip(others, added, strict=True)
        ]
        # Back to the order of the text.
        order = tf.argsort(tokens[1], stable=True)
        ids, part, starts, ends = (tf.gather(x, order) for x in tokens)
        begins = tf.gather(part_starts, part)
        return ids, tf.gather(rows, part), starts + begins, ends + begins

    @abc.abstractmethod
    def _tokenize(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Tokenizes strings `[R]`.

        Returns for each token its id, the index of its text, and its start and
        end in the raw text, int32 `[M]`.
        """


class SentencePieceGraph(GraphTokenizer):
    """The graph of a SentencePiece model."""

    like_nul = "\ue000"

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__(tokenizer)
        self._normalization = SentencePieceNormalization(
            **tokenizer.normalization
        )
        self._normalize_added = self._normalization
        self._foreign = PagedTable(_foreign_characters(tokenizer))
        self._replacements = _Replacements(tokenizer)
        self._vocabulary = tokenizer.vocabulary

    @functools.cached_property
    def resource(self) -> "tf_text.SentencepieceTokenizer":
        """TensorFlow Text's tokenizer."""
        import tensorflow_text as tf_text  # Not every Python has it.

        with tf.init_scope(), tf.device(CPU):
            return tf_text.SentencepieceTokenizer(self._vocabulary)

    def _tokenize(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        text = self._normalization(texts)
        indices = self._without_long_runs(text)
        code_points = tf.gather(text.code_points, indices)
        splits = ragged.row_splits(
            tf.gather(text.row_ids, indices), ragged.size(texts)
        )
        pieces, *spans = self.resource.tokenize_with_offsets(
            ragged.encode(code_points, splits)
        )
        row_ids = ragged.row_ids(tf.cast(pieces.row_splits, tf.int32))
        starts, ends = (
            ragged.gather_or(
                indices,
                ragged.places_of_bytes(
                    code_points, splits, span.values, row_ids
                ),
                ragged.size(text.code_points),
            )
            for span in spans
        )
        ids, replaced, starts, ends = self._replacements.apply(
            pieces.values, starts, ends, text
        )
        row_ids = tf.gather(row_ids, replaced)
        return ids, row_ids, *text.raw_spans(starts, ends, row_ids)

    def _without_long_runs(self, text: NormalizedText) -> tf.Tensor:
        """Returns the indices of characters, without the middles of long runs.

        A run of unknown characters becomes one unknown token. TensorFlow Text
        needs time with the square of its length.
        """
        positions = tf.range(ragged.size(text.code_points))

        def drop() -> tf.Tensor:
            is_known = self._foreign.lookup(text.code_points) == 0
            row_starts = tf.gather(text.row_splits, text.row_ids)
            row_ends = tf.gather(text.row_splits, text.row_ids + 1)
            start = ragged.previous_true(is_known, positions) + 1
            end = ragged.next_true(is_known, positions)
            is_near = positions - tf.maximum(start, row_starts) < _FEW
            is_near |= tf.minimum(end, row_ends) - positions <= _FEW
            return ragged.indices(is_known | is_near)

        longest = tf.reduce_max(tf.concat([text.raw_lengths, [0]], 0))
        return tf.cond(longest > _MANY, drop, lambda: positions)


def _foreign_characters(tokenizer: SentencePieceTokenizer) -> np.ndarray:
    """Returns 1 for each code point that is unknown in any context."""
    # Unassigned and private code points and surrogates are alike to a model:
    # unknown, unless it has tokens for bytes.
    are_unknown = tokenizer.special_ids.unk in tokenizer.encode("\ue000")
    table = np.full(ragged.NUM_CODE_POINTS, are_unknown, np.uint8)
    characters = [*map(chr, may_change())]
    ids, lengths = tokenizer.encode_batch(characters)
    last = np.append(0, ids)[np.cumsum(lengths)]
    # An unknown character alone becomes a word mark and the unknown token.
    is_unknown = (last == tokenizer.special_ids.unk) & (lengths > 0)
    is_known = ~is_unknown | (lengths > 2)
    table[[*map(ord, itertools.compress(characters, is_known))]] = 0
    # The model may compose a known character of others.
    tokens = "".join(map(tokenizer.id_to_token, range(tokenizer.vocab_size)))
    characters_of_tokens = {*tokens, *unicodedata.normalize("NFKD", tokens)}
    table[[*map(ord, characters_of_tokens)]] = 0
    return table


class _Replacements:
    """Applies `SentencePieceTokenizer.replacements` of ids by other ids."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        old_ids = [*tokenizer.replacements]
        new_ids = [*tokenizer.replacements.values()]
        self._sequences = Sequences([(ragged.ITSELF,), *new_ids])
        indices = np.zeros(tokenizer.vocab_size, np.int64)
        indices[old_ids] = np.arange(len(old_ids)) + 1
        self._indices = tf.constant(
            indices.astype(np.min_scalar_type(len(old_ids)))
        )
        # For each new id, the number of characters before it in its
        # replacement, and the number before the last id of its replacement.
        sizes, totals = [0], [0]
        for ids in new_ids:
            pieces = map(tokenizer.id_to_token, ids[:-1])
            lengths = [len(p.removeprefix(WORD_MARK)) for p in pieces]
            sizes += itertools.accumulate([0, *lengths])
            totals += [sum(lengths)] * len(ids)
        self._sizes, self._totals = tf.constant(sizes), tf.constant(totals)

    def apply(
        self,
        ids: tf.Tensor,
        starts: tf.Tensor,
        ends: tf.Tensor,
        text: NormalizedText,
    ) -> tuple[tf.Tensor, ...]:
        """Returns new ids, indices of the replaced ids, and starts and ends.

        Starts and ends are positions in `text`. New ids divide the span of the
        old id: a number and its comma.
        """
        numbers = tf.cast(tf.gather(self._indices, ids), tf.int32)
        # Parts are indices into the concatenation of all replacements.
        ids, replaced, parts = self._sequences.apply(ids, numbers)
        starts, ends = tf.gather(starts, replaced), tf.gather(ends, replaced)
        same_before = ~ragged.is_first(replaced)
        same_after = ~ragged.is_last(replaced)
        is_divided = same_before | same_after
        solid = ragged.next_true(text.code_points != SPACE, starts)
        first = tf.where(is_divided, tf.minimum(solid, ends), starts)
        comma = tf.maximum(
            ragged.previous_true(text.code_points == _COMMA, ends), first
        )
        # Characters that the model reads as a space may precede the number.
        start_of_number = tf.maximum(
            first, comma - tf.gather(self._totals, parts)
        )
        first = tf.where(is_divided, start_of_number, first)
        cut = tf.minimum(first + tf.gather(self._sizes, parts), comma)
        starts = tf.where(same_before, cut, first)
        ends = tf.where(same_after, ragged.shift_left(starts, 0), ends)
        return ids, replaced, starts, ends


class WordPieceGraph(GraphTokenizer):
    """The graph of a WordPiece vocabulary."""

    like_nul = "\x01"

    def __init__(self, tokenizer: WordPieceTokenizer) -> None:
        super().__init__(tokenizer)
        options = tokenizer.normalization
        self._normalization = WordPieceNormalization(**options)
        if self.added.normalized:
            options = {**options, "space_marks": False}
            self._normalize_added = WordPieceNormalization(**options)
        with tf.device(CPU):
            self.resource = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    self.tokens[: tokenizer.num_own],
                    tf.range(tokenizer.num_own, dtype=tf.int64),
                ),
                self.special_ids.unk,
            )

    def _tokenize(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        import tensorflow_text as tf_text  # Not every Python has it.

        text = self._normalization(texts)
        # Make each word a row.
        is_solid = text.code_points != SPACE
        solid = ragged.indices(is_solid)
        is_start = ~ragged.shift_right(is_solid, False)
        is_start |= ragged.is_first(text.row_ids)
        is_start = tf.gather(is_start, solid)
        splits = tf.concat([ragged.indices(is_start), tf.shape(solid)], 0)
        code_points = tf.gather(text.code_points, solid)
        is_long = splits[1:] - splits[:-1] > MAX_WORD_SIZE
        words = tf.where(
            is_long, _UNKNOWN_WORD, ragged.encode(code_points, splits)
        )
        # Tokenize each word once: most of them, above all Chinese characters,
        # occur several times.
        words, kinds = tf.unique(words)
        wordpiece = tf_text.WordpieceTokenizer(
            self.resource,
            max_bytes_per_word=MAX_WORD_SIZE * _MAX_BYTES_OF_CHARACTER,
            max_chars_per_token=max(map(len, self.tokens)),
            token_out_type=tf.int32,
        )
        pieces, *spans = wordpiece.tokenize_with_offsets(words)
        kind_splits = tf.cast(pieces.row_splits, tf.int32)
        word, within = ragged.expand(
            tf.gather(kind_splits[1:] - kind_splits[:-1], kinds)
        )
        piece_index = tf.gather(tf.gather(kind_splits, kinds), word) + within
        starts, ends = (
            ragged.places_of_bytes(
                code_points, splits, tf.gather(span.values, piece_index), word
            )
            for span in spans
        )
        ends = tf.where(
            tf.gather(is_long, word), tf.gather(splits, word + 1), ends
        )
        starts, ends = tf.gather(solid, starts), tf.gather(solid, ends - 1) + 1
        row_ids = tf.gather(text.row_ids, starts)
        ids = tf.gather(pieces.values, piece_index)
        return ids, row_ids, *text.raw_spans(starts, ends, row_ids)


class SymbolGraph(GraphTokenizer):
    """The graph of a list of symbols."""

    like_nul = "\x01"

    def __init__(self, tokenizer: SymbolTokenizer) -> None:
        super().__init__(tokenizer)
        self._are_separated = tokenizer.are_separated
        self._long_symbols = tokenizer.long_symbols
        names, ids = [*tokenizer.symbols], [*tokenizer.symbols.values()]
        with tf.device(CPU):
            self.resource = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    tf.constant(names, tf.string), tf.constant(ids, tf.int32)
                ),
                self.special_ids.unk,
            )

    def _tokenize(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        if self._long_symbols and not self._are_separated:
            texts = _plain(texts, self.like_nul)
            symbols, rows = cut_added.split(
                texts, f"{added_tokens.pattern(self._long_symbols)}|(?s:.)"
            )
            starts, ends = _places(symbols, rows, ragged.size(texts))
            return self.resource.lookup(symbols), rows, starts, ends
        code_points, splits = ragged.decode(texts)
        rows = ragged.row_ids(splits)
        is_solid = is_start = tf.ones_like(rows, tf.bool)
        if self._are_separated:
            is_solid = ~is_space(code_points)
            is_start = ~ragged.shift_right(is_solid, False)
            is_start = is_solid & (is_start | ragged.is_first(rows))
        starts, solid = ragged.indices(is_start), ragged.indices(is_solid)
        parts = ragged.indices(tf.gather(is_start, solid))
        parts = tf.concat([parts, tf.shape(solid)], 0)
        symbols = ragged.encode(tf.gather(code_points, solid), parts)
        rows = tf.gather(rows, starts)
        begins = tf.gather(splits, rows)
        ends = tf.gather(solid, parts[1:] - 1) + 1
        ids = self.resource.lookup(symbols)
        return ids, rows, starts - begins, ends - begins


def _plain(texts: tf.Tensor, like_nul: str) -> tf.Tensor:
    """Returns valid UTF-8 without U+0000, which would end a text."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    return tf.strings.regex_replace(texts, r"\x00", like_nul)


def _places(
    parts: tf.Tensor, rows: tf.Tensor, num_rows: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns where parts of the rows start and end, in code points."""
    places = ragged.sums_before(tf.strings.length(parts, "UTF8_CHAR"))
    first_parts = tf.gather(ragged.row_splits(rows, num_rows), rows)
    begins = tf.gather(places, first_parts)
    return places[:-1] - begins, places[1:] - begins


_GRAPHS: Mapping[type[Tokenizer], type[GraphTokenizer]] = {
    SentencePieceTokenizer: SentencePieceGraph,
    WordPieceTokenizer: WordPieceGraph,
    SymbolTokenizer: SymbolGraph,
}


def make(tokenizer: Tokenizer) -> GraphTokenizer:
    """Returns the graph of a tokenizer."""
    return _GRAPHS[type(tokenizer)](tokenizer)
