"""Operations on ragged batches of texts, and tables over code points.

A batch of R texts is one array of N values, row after row, with `row_splits`,
int32 `[R + 1]`: the index at which each row starts, and N. So the work grows
with the amount of text, not with the longest row. Rows may be empty, and so may
the batch. `row_ids`, int32 `[N]`, have the same information: each value's row.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

NUM_CODE_POINTS = 0x110000
# The characters of Python's `isspace`, as a regular expression of RE2.
WHITE_SPACE = r"[\s\pZ\x0b\x1c-\x1f\x{85}]"
_PAGE_BITS = 8
_PAGE_SIZE = 2**_PAGE_BITS
# In a replacement, stands for the integer that is replaced.
ITSELF = -1
# A batch may grow by this factor, and by this many values more. Real text
# triples at most, as Hangul does.
MAX_FACTOR, MANY = 3, 2**16


@dataclasses.dataclass(frozen=True)
class Ranges:
    """One range of values for each of R rows: starts and sizes, int32 `[R]`."""

    starts: tf.Tensor
    sizes: tf.Tensor

    def __getitem__(self, rows: slice) -> "Ranges":
        return Ranges(self.starts[rows], self.sizes[rows])


def size(values: tf.Tensor) -> tf.Tensor:
    """Returns the length of the first axis, int32."""
    return tf.shape(values)[0]


def row_ids(row_splits: tf.Tensor) -> tf.Tensor:
    """Returns the row of each value."""
    rows, _ = expand(row_splits[1:] - row_splits[:-1])
    return rows


def row_splits(row_ids: tf.Tensor, num_rows: tf.Tensor) -> tf.Tensor:
    """Returns the row splits for row ids, which must not decrease."""
    lengths = tf.math.unsorted_segment_sum(
        tf.ones_like(row_ids), row_ids, num_rows
    )
    return sums_before(lengths)


def sums_before(values: tf.Tensor) -> tf.Tensor:
    """Returns the sum of all values before each one, and of all, `[N + 1]`.

    The sums of the lengths of rows are the row splits.
    """
    return tf.concat([[0], tf.cumsum(values)], 0)


def shift_right(values: tf.Tensor, fill: tf.Tensor | int | bool) -> tf.Tensor:
    """Returns the value before each one; `fill` for the first."""
    return tf.concat([tf.cast([fill], values.dtype), values], 0)[:-1]


def shift_left(values: tf.Tensor, fill: tf.Tensor | int | bool) -> tf.Tensor:
    """Returns the value after each one; `fill` for the last."""
    return tf.concat([values, tf.cast([fill], values.dtype)], 0)[1:]


def is_first(row_ids: tf.Tensor) -> tf.Tensor:
    """Returns bool `[N]`: whether each value is the first of its row."""
    return row_ids != shift_right(row_ids, -1)


def is_last(row_ids: tf.Tensor) -> tf.Tensor:
    """Returns bool `[N]`: whether each value is the last of its row."""
    return row_ids != shift_left(row_ids, -1)


def indices(mask: tf.Tensor) -> tf.Tensor:
    """Returns the int32 indices at which `mask` is true."""
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def gather_or(
    values: tf.Tensor, positions: tf.Tensor, otherwise: tf.Tensor | float
) -> tf.Tensor:
    """Gathers from `values` `[N]`, or `otherwise` where the position is N."""
    last = tf.cast([otherwise], values.dtype)
    return tf.gather(tf.concat([values, last], 0), positions)


def expand(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Repeats each of N values as often as `lengths`, int32 `[N]`, says.

    Returns for each copy, int32: the index of its original, and how many copies
    of the same original precede it.
    """
    # `tf.repeat` would need memory for N times the largest length.
    ends = tf.cumsum(lengths)
    total = tf.reduce_sum(lengths)
    num_ends = tf.math.unsorted_segment_sum(tf.ones_like(ends), ends, total + 1)
    sources = tf.cumsum(num_ends)[:-1]
    return sources, tf.range(total) - tf.gather(ends - lengths, sources)


def limit_growth(lengths: tf.Tensor, num_values: tf.Tensor) -> tf.Tensor:
    """Returns `lengths` for `expand`; the graph fails if their sum is large.

    Otherwise, a short request could exhaust the memory. `num_values`, int32, is
    the size of the batch.
    """
    total = tf.reduce_sum(tf.cast(lengths, tf.int64))
    check = tf.Assert(
        total <= MAX_FACTOR * tf.cast(num_values, tf.int64) + MANY,
        [
            f"Text may grow to {MAX_FACTOR} times its length and {MANY} more. "
            "Received, and after growth:",
            num_values,
            total,
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(lengths)


def next_true(mask: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Finds the first true entry of `mask` at or after each position, or N."""
    true_positions = tf.concat([indices(mask), size(mask)[None]], 0)
    return tf.gather(true_positions, tf.gather(_num_before(mask), positions))


def previous_true(mask: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Finds the last true entry of `mask` before each position, or -1."""
    true_positions = tf.concat([[-1], indices(mask)], 0)
    return tf.gather(true_positions, tf.gather(_num_before(mask), positions))


def _num_before(mask: tf.Tensor) -> tf.Tensor:
    return sums_before(tf.cast(mask, tf.int32))


def decode(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the code points and row splits of strings `[R]`."""
    rows = tf.strings.unicode_decode(texts, "UTF-8")
    return rows.values, tf.cast(rows.row_splits, tf.int32)


def encode(code_points: tf.Tensor, row_splits: tf.Tensor) -> tf.Tensor:
    """Returns rows of code points as UTF-8 strings `[R]`."""
    rows = tf.RaggedTensor.from_row_splits(
        code_points, row_splits, validate=False
    )
    return tf.strings.unicode_encode(rows, "UTF-8")


def places_of_bytes(
    code_points: tf.Tensor,
    row_splits: tf.Tensor,
    offsets: tf.Tensor,
    row_ids: tf.Tensor,
) -> tf.Tensor:
    """Finds the code points that begin at bytes of the strings of `encode`.

    `offsets` `[M]` are offsets in bytes from the start of the rows `row_ids`.
    Returns indices of code points, int32 `[M]`; N for the end of the last row.
    """
    num_bytes = 1 + sum(
        tf.cast(code_points >= first, tf.int32)
        for first in (0x80, 0x800, 0x10000)
    )
    begins = sums_before(num_bytes)
    row_begins = tf.gather(begins, row_splits)
    offsets = tf.cast(offsets, tf.int32)
    return tf.searchsorted(begins, tf.gather(row_begins, row_ids) + offsets)


def in_parts(
    run_part: Callable[[tf.Tensor], tuple[tf.Tensor, Sequence[tf.Tensor]]],
    num_rows: tf.Tensor,
    empty: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Processes `num_rows` rows in parts, and concatenates the results.

    Args:
        run_part: Function of the first row of a part. It returns the first row
            of the next part, and tensors `[R, ...]` of the R rows of its part.
            It is traced once.
        num_rows: Int32, the number of all rows.
        empty: The tensors of a part without rows, `[0, ...]`.
    """

    def run(start: tf.Tensor, *results: tf.Tensor) -> list[tf.Tensor]:
        end, part = run_part(start)
        pairs = zip(results, part, strict=True)
        return [end, *(tf.concat(pair, 0) for pair in pairs)]

    shapes = [tf.TensorShape([None, *tensor.shape[1:]]) for tensor in empty]
    results: list[tf.Tensor] = tf.while_loop(
        lambda start, *_: start < num_rows,
        run,
        [tf.constant(0), *empty],
        shape_invariants=[tf.TensorShape([]), *shapes],
        parallel_iterations=1,
    )
    return results[1:]


# Tables over all Unicode code points, cut into pages of 256 code points. Most
# pages are equal to another one and stored once, so a table fits in a graph.


class PagedTable:
    """Maps every code point to a non-negative integer."""

    def __init__(self, values: np.ndarray) -> None:
        values = values.astype(np.min_scalar_type(values.max()))
        # `np.unique` of rows takes twenty times as long.
        number_of: dict[bytes, int] = {}
        numbers = [
            number_of.setdefault(page.tobytes(), len(number_of))
            for page in values.reshape(-1, _PAGE_SIZE)
        ]
        pages = np.frombuffer(b"".join(number_of), values.dtype)
        self._pages = tf.constant(pages)
        self._numbers = tf.constant(np.array(numbers, np.uint16))

    def lookup(self, code_points: tf.Tensor) -> tf.Tensor:
        """Returns int32 `[N]`, the numbers of int32 code points `[N]`."""
        # Shifts are much faster than divisions.
        page = tf.bitwise.right_shift(code_points, _PAGE_BITS)
        page = tf.cast(tf.gather(self._numbers, page), tf.int32)
        index = page * _PAGE_SIZE + (code_points & (_PAGE_SIZE - 1))
        return tf.cast(tf.gather(self._pages, index), tf.int32)


class Sequences:
    """Replaces integers by sequences of integers, chosen by their index.

    `ITSELF` in a sequence stands for the integer that is replaced.
    """

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        lengths = [*map(len, sequences)]
        self._lengths = tf.constant(lengths)
        self._starts = tf.constant(np.cumsum([0, *lengths])[:-1], tf.int32)
        self._values = tf.constant([*(n for s in sequences for n in s), 0])

    def apply(
        self, values: tf.Tensor, numbers: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Replaces values, int32 `[N]`, by the sequences with these numbers.

        Returns three int32 tensors: the new values; for each, the index of the
        value that it replaces; and its position in the concatenation of all
        sequences.
        """
        lengths = tf.gather(self._lengths, numbers)
        replaced, within = expand(limit_growth(lengths, size(numbers)))
        positions = tf.gather(tf.gather(self._starts, numbers), replaced)
        positions += within
        new = tf.gather(self._values, positions)
        old = tf.gather(values, replaced)
        return tf.where(new == ITSELF, old, new), replaced, positions


class ReplacementTable:
    """Replaces some code points by sequences of code points."""

    def __init__(self, replacements: Mapping[int, str]) -> None:
        number_of: dict[tuple[int, ...], int] = {(ITSELF,): 0}
        entries = np.zeros(NUM_CODE_POINTS, np.int64)
        for code_point, text in replacements.items():
            # Most replacements put a character between spaces.
            sequence = tuple(
                ITSELF if c == code_point else c for c in map(ord, text)
            )
            entries[code_point] = number_of.setdefault(sequence, len(number_of))
        self._entries = PagedTable(entries)
        self._sequences = Sequences([*number_of])

    def apply(self, code_points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns new code points, and the indices of the replaced ones."""
        numbers = self._entries.lookup(code_points)
        new, replaced, _ = self._sequences.apply(code_points, numbers)
        return new, replaced
