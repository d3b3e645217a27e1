"""The normalization that a SentencePiece model does itself, in a graph.

A model carries its rules as bytes: a double array (Aoe 1989, as in Darts) over
UTF-8, whose values are offsets into text. Of its roughly 200,000 rules, only
those that apply to text normalized by `text_normalization` are read. Then the
rules are applied, and spaces are replaced by the word mark "▁".

Data flow: `text_normalization` -> [this file] -> `unigram_search`.

Source: google/sentencepiece, normalizer.cc: the format of the bytes, and
Normalizer::Normalize.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Set

import numpy as np
import tensorflow as tf

from albert_tf.export import ragged
from albert_tf.export.code_point_table import Characters, compact
from albert_tf.export.text_normalization import NormalizedText
from albert_tf.export.trie import NOTHING, Trie

_WORD_MARK = ord("▁")
_SPACE = ord(" ")
# Format of the double array.
_HEADER_SIZE = 4
_VALUE_BITS = np.uint32(0x7FFFFFFF)
_LABEL_BITS = np.uint32(0x800000FF)
_NUM_BYTES = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelText:
    """Text as the model sees it, as a ragged batch.

    Spaces are word marks, and every row that is not empty starts with one.

    Args:
        code_points: Int32 `[N]`.
        row_ids: Int32 `[N]`.
        origins: Int32 `[N]`, index of the normalized character that each
            comes from, over all rows.
        ends: Int32 `[R]`, one past the normalized character that the last
            one of each row comes from.
    """

    code_points: tf.Tensor
    row_ids: tf.Tensor
    origins: tf.Tensor
    ends: tf.Tensor


class ModelNormalization:
    """Applies the rules of a model and replaces spaces by word marks.

    Args:
        rules: What each sequence of characters becomes.
        user_defined: Pieces that no rule may change.
    """

    def __init__(
        self, rules: Mapping[str, str], user_defined: frozenset[str]
    ) -> None:
        self._rules = _Rules(rules, user_defined)

    def __call__(self, text: NormalizedText) -> ModelText:
        """Prepares normalized text for the search."""
        code_points, origins = self._rules.apply(text.code_points, text.row_ids)
        row_ids = tf.gather(text.row_ids, origins)
        is_space = code_points == _SPACE
        # Leading spaces are dropped, and all but the first of several.
        follows = ragged.shift_right(is_space, True)
        follows |= ragged.is_first(row_ids)
        kept = ragged.indices(~(is_space & follows))
        model_text = ModelText(
            code_points=tf.gather(
                tf.where(is_space, _WORD_MARK, code_points), kept
            ),
            row_ids=tf.gather(row_ids, kept),
            origins=tf.gather(origins, kept),
            ends=ragged.row_splits(text.row_ids, text.num_rows)[1:],
        )
        starts = _row_starts(code_points, origins, text)
        return _with_first_mark(_without_last_marks(model_text), starts)


def _without_last_marks(text: ModelText) -> ModelText:
    """Drops marks at the end of rows, whether they were spaces or not."""
    num_rows = ragged.size(text.ends)
    places = tf.range(ragged.size(text.row_ids))
    is_mark = text.code_points == _WORD_MARK
    last = tf.math.unsorted_segment_max(
        tf.where(is_mark, -1, places), text.row_ids, num_rows
    )  # [R]; the smallest integer in empty rows
    is_dropped = places > tf.gather(last, text.row_ids)
    dropped_origins = tf.math.unsorted_segment_min(
        tf.where(is_dropped, text.origins, tf.int32.max), text.row_ids, num_rows
    )
    kept = ragged.indices(~is_dropped)
    return ModelText(
        code_points=tf.gather(text.code_points, kept),
        row_ids=tf.gather(text.row_ids, kept),
        origins=tf.gather(text.origins, kept),
        ends=tf.minimum(text.ends, dropped_origins),
    )


def _row_starts(
    code_points: tf.Tensor, origins: tf.Tensor, text: NormalizedText
) -> tf.Tensor:
    """Returns int32 `[R]`: the first normalized character of each row.

    Leading characters that became exactly one space do not count.
    """
    num_origins = ragged.size(text.code_points)
    num_results, num_spaces = (
        tf.math.unsorted_segment_sum(
            tf.cast(mask, tf.int32), origins, num_origins
        )
        for mask in (code_points >= 0, code_points == _SPACE)
    )
    is_space = (num_results == 1) & (num_spaces == 1)
    solid = ragged.indices(~is_space)
    splits = ragged.row_splits(text.row_ids, text.num_rows)
    number = tf.searchsorted(solid, splits[:-1])
    return ragged.gather_or(solid, number, splits[-1])


def _with_first_mark(text: ModelText, starts: tf.Tensor) -> ModelText:
    """Puts a mark before every row that is not empty."""
    is_first = ragged.is_first(text.row_ids)
    sources, within = ragged.expand(tf.where(is_first, 2, 1))
    row_ids = tf.gather(text.row_ids, sources)
    is_mark = tf.gather(is_first, sources) & (within == 0)
    code_points = tf.gather(text.code_points, sources)
    origins = tf.gather(text.origins, sources)
    return ModelText(
        code_points=tf.where(is_mark, _WORD_MARK, code_points),
        row_ids=row_ids,
        origins=tf.where(is_mark, tf.gather(starts, row_ids), origins),
        ends=text.ends,
    )


class _Rules:
    """Applies, from left to right, the longest rule that matches."""

    def __init__(
        self, rules: Mapping[str, str], user_defined: frozenset[str]
    ) -> None:
        rules = {**rules, **{piece: piece for piece in user_defined}}
        results = list(dict.fromkeys(rules.values()))
        number = {text: i for i, text in enumerate(results)}
        self._trie = Trie({s: number[text] for s, text in rules.items()})
        self._protected = Trie({s: number[s] for s in user_defined})
        self._lengths = compact([*map(len, results), 0])
        self._characters = Characters("".join(results))

    def apply(
        self, code_points: tf.Tensor, row_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the new code points and the index that each comes from."""
        sizes, rules = self._trie.longest(code_points, row_ids)
        own_sizes, own_rules = self._protected.longest(code_points, row_ids)
        is_protected = own_rules != NOTHING
        rules = tf.where(is_protected, own_rules, rules)
        sizes = tf.where(is_protected, own_sizes, tf.maximum(sizes, 1))
        is_taken = _take_from_left(sizes, row_ids)
        rule = tf.maximum(rules, 0)
        stored = tf.cast(self._lengths, tf.int32)
        offsets = tf.gather(tf.cumsum(stored, exclusive=True), rule)
        lengths = tf.gather(stored, rule)
        lengths = tf.where(rules == NOTHING, 1, lengths)
        sources, within = ragged.expand(tf.where(is_taken, lengths, 0))
        is_same = tf.gather(rules, sources) == NOTHING
        places = tf.gather(offsets, sources) + tf.where(is_same, 0, within)
        new_code_points = tf.where(
            is_same,
            tf.gather(code_points, sources),
            self._characters.lookup(places),
        )
        return new_code_points, sources


def _take_from_left(sizes: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
    """Returns bool `[N]`: whether a match starts where another one ended."""
    length = ragged.size(sizes)

    def take() -> tf.Tensor:
        after = tf.minimum(tf.range(length) + sizes, length)
        after_rows = ragged.gather_or(row_ids, after, -1)
        after = tf.where(after_rows == row_ids, after, length)
        return ragged.mark_reachable(after, ragged.is_first(row_ids))

    return tf.cond(
        tf.reduce_any(sizes > 1), take, lambda: tf.ones_like(sizes, tf.bool)
    )


def read_rules(charsmap: bytes, alphabet: Set[str]) -> dict[str, str]:
    """Reads what each sequence of characters becomes in a model.

    Args:
        charsmap: `precompiled_charsmap` of the model; may be empty.
        alphabet: Only rules for sequences of these characters are returned.

    Raises:
        ValueError: The bytes are damaged.
    """
    if not charsmap:
        return {}
    try:
        return dict(_DoubleArray(charsmap).rules(0, "", alphabet))
    except (IndexError, ValueError) as error:
        raise ValueError(
            "The normalization rules of the SentencePiece model are damaged. "
            "Use the model file as it was published."
        ) from error


class _DoubleArray:
    """The double array and the texts that it points to."""

    def __init__(self, charsmap: bytes) -> None:
        size = int.from_bytes(charsmap[:_HEADER_SIZE], "little")
        trie = charsmap[_HEADER_SIZE : _HEADER_SIZE + size]
        self._texts = charsmap[_HEADER_SIZE + size :]
        self._units = np.frombuffer(trie, np.dtype("<u4"))
        shift = (self._units & (1 << 9)) >> 6
        offsets = ((self._units >> 10) << shift).astype(np.int64)
        # The child that a label leads to lies at `base ^ label`.
        self._bases = np.arange(len(offsets)) ^ offsets
        self._labels = self._units & _LABEL_BITS

    def rules(
        self, node: int, prefix: str, alphabet: Set[str]
    ) -> Iterator[tuple[str, str]]:
        """Yields the rules below the node that a prefix leads to."""
        for code, character_node in self._characters(node, b""):
            character = code.decode()
            if character not in alphabet:
                continue
            sequence = prefix + character
            value = self._value(character_node)
            if value is not None:
                yield sequence, value
            yield from self.rules(character_node, sequence, alphabet)

    def _characters(
        self, node: int, code: bytes
    ) -> Iterator[tuple[bytes, int]]:
        """Yields the UTF-8 characters that leave a node, and their nodes."""
        # The first byte says how many bytes a character has.
        if code and len(code) == 1 + sum(
            code[0] >= least for least in (0xC0, 0xE0, 0xF0)
        ):
            yield code, node
            return
        wanted = np.arange(1, _NUM_BYTES)
        places = self._bases[node] ^ wanted
        wanted = wanted[places < len(self._units)]
        places = places[places < len(self._units)]
        is_child = self._labels[places] == wanted
        for place, label in zip(
            places[is_child].tolist(), wanted[is_child].tolist(), strict=True
        ):
            yield from self._characters(place, code + bytes([label]))

    def _value(self, node: int) -> str | None:
        if not self._units[node] >> 8 & 1:
            return None
        place = self._bases[node]
        start = int(self._units[place] & _VALUE_BITS)
        return self._texts[start : self._texts.index(b"\0", start)].decode()
