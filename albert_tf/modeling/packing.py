"""Sequences that share the rows of a batch, so that little is padding.

Each sequence keeps its positions, counted from zero, and attends to itself
alone, so its vectors are those that it has in a row of its own.

A training step computes with `encode` if its batch has `packed_at`.

Source: Krell et al. 2021, "Efficient sequence packing without
cross-contamination".
"""

from collections.abc import Mapping

from keras import ops

from albert_tf.modeling import Tensor, encoder
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.fused import fusion


def encode(
    albert: AlbertModel,
    inputs: Mapping[str, Tensor],
    *,
    seed: Tensor | None,
    depth: int | None,
    output_positions: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:
    """Returns the outputs of `albert.encode`, computed in packed rows.

    Among the inputs is `packed_at`, see `PackedRows`. The last block computes
    the `output_positions` of each sequence in a row of its own.
    """
    input_ids, input_mask, segment_ids = albert.all_inputs(inputs)
    rows = PackedRows(inputs["packed_at"], input_mask)
    embedded = albert.embeddings(
        rows.pack(input_ids),
        rows.pack(segment_ids),
        rows.position_ids,
        seed=seed,
    )  # [R, S, E]
    *blocks, last = albert.encoder.blocks(seed, depth)
    hidden_states = encoder.walk(
        blocks if output_positions is not None else [*blocks, last],
        albert.encoder.project(embedded),
        rows.attention_mask,
    )
    unpacked = [rows.unpack(hidden) for hidden in hidden_states]
    if output_positions is not None:
        output = last(
            rows.unpack(hidden_states[-1]),
            albert.attention_mask(input_mask, segment_ids),
            output_positions=output_positions,
        )
        unpacked.append(output)
    return rows.unpack(embedded), unpacked


class PackedRows:
    """Moves the tokens of B sequences to R rows of the same length, and back.

    A slot is a position in the rows, 0 to R S - 1, counted row by row.

    Args:
        packed_at: Int tensor `[B]`, the slot of the first token of each
            sequence. No sequence crosses the end of a row or meets another.
        input_mask: Int tensor `[B, S]`, 1 for a token, 0 for padding after it.

    Attributes:
        position_ids: Int32 `[R, S]`, positions in the sequences.
        attention_mask: Int32 `[R, 1, S, S]`, 1 where query and key belong to
            the same sequence.
    """

    def __init__(self, packed_at: Tensor, input_mask: Tensor) -> None:
        batch, self._length = ops.shape(input_mask)
        self._num_rows = ops.max(packed_at) // self._length + 1
        num_slots = self._num_rows * self._length
        column = ops.arange(self._length, dtype="int32")
        is_token = ops.cast(input_mask, "bool")
        slots = ops.cast(packed_at, "int32")[:, None] + column
        # [B, S]; padding is given the vector of another token.
        self._slots = ops.where(is_token, slots, 0)
        # [R S], the tokens counted from 1 on; 0 where there is none. All
        # padding is written behind the last slot.
        tokens = ops.arange(1, batch * self._length + 1, dtype="int32")
        written = ops.where(is_token, slots, num_slots)
        self._tokens = ops.scatter(
            ops.reshape(written, (-1, 1)), tokens, (num_slots + 1,)
        )[:-1]
        self.position_ids = self.pack(ops.zeros_like(slots) + column)
        sequences = ops.arange(1, batch + 1, dtype="int32")[:, None]
        owner = self.pack(ops.zeros_like(slots) + sequences)
        self.attention_mask = ops.cast(
            ops.equal(owner[:, None, :, None], owner[:, None, None, :]), "int32"
        )

    def pack(self, values: Tensor) -> Tensor:
        """Moves an int tensor `[B, S]` to the rows, `[R, S]`; the rest is 0."""
        flat = ops.reshape(ops.cast(values, "int32"), (-1,))
        packed = ops.take(ops.pad(flat, [(1, 0)]), self._tokens)
        return ops.reshape(packed, (self._num_rows, self._length))

    def unpack(self, hidden: Tensor) -> Tensor:
        """Moves vectors `[R, S, H]` back; padding must not be used."""
        tokens, width = self._tokens, hidden.shape[-1]

        @fusion.custom_gradient
        def call(hidden: Tensor) -> Tensor:
            def grad(upstream: Tensor) -> Tensor:
                # Looked up, too: adding slices up takes several times as long.
                flat = ops.reshape(upstream, (-1, width))
                vectors = ops.take(flat, ops.maximum(tokens - 1, 0), axis=0)
                is_token = ops.cast(tokens > 0, vectors.dtype)[:, None]
                return ops.reshape(vectors * is_token, ops.shape(hidden))

            flat = ops.reshape(hidden, (-1, width))
            return ops.take(flat, self._slots, axis=0), grad

        return call(hidden)
