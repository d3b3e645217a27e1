"""The encoder of an exported model: weights stored once, blocks traced once.

Layers that share weights also share operations, so that the graph, like the
weights, does not grow with the depth of the model.

Data flow: input ids -> rows by length -> [this file] -> vectors, rows as they
came. Core TensorFlow operations only, also of LiteRT.

Source: `modeling.albert_model` and `modeling.encoder`; the results are equal.
The signature `tokens` is that of google-research/albert, export_to_tfhub.py.
"""

import copy
from collections.abc import Callable, Sequence, Set
from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling import encoder as encoder_lib
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.fused import shared_weights
from albert_tf.serving import model_inputs, ragged, signature
from albert_tf.serving.graph_tokenizer import GraphTokenizer
from albert_tf.serving.signature import Signature, Tensors

Vectors = tuple[tf.Tensor, tf.Tensor | None]

# A group may have as many tokens of padding as this share of the tokens of the
# batch. More groups would have less padding; but each group costs as much as
# some more tokens, about 20 on a CPU and hundreds on a GPU.
_PADDING_SHARE = 8
_MIN_PADDING = 16


class ExportedWeights:
    """Holds `copies` of a Keras model's weights, for use in their place.

    A graph that is traced within `scope` reads the copies, so that nothing of
    the Keras model is saved. `precision` is `float32`, or `bfloat16` to halve
    the size of the matrices; vectors stay float32. `has_pooler` says whether
    the pooler of the model was trained; `depth` is the number of layers to
    compute, None for all.
    """

    depth: int | None = None

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        *,
        precision: str,
        has_pooler: bool = True,
    ) -> None:
        self.has_pooler = has_pooler
        self._originals = list(variables)
        self.copies = [
            tf.Variable(
                tf.cast(
                    tf.constant(variable.numpy()),
                    precision if len(variable.shape) > 1 else "float32",
                ),
                trainable=False,
                name=variable.path,
            )
            for variable in self._originals
        ]

    def at_depth(self, depth: int) -> "ExportedWeights":
        """Returns the same copies, of which the first layers are computed."""
        result = copy.copy(self)
        result.depth = depth
        return result

    def scope(self, pass_index: int = 0, stacks: Set[int] = frozenset()) -> Any:
        """Returns a context in which the model computes with the copies.

        The `stacks` are the variables, by `id`, that have a matrix for each
        pass.
        """
        values = [
            # Stacks with fewer matrices are those of other blocks.
            copied[min(pass_index, copied.shape[0] - 1)]
            if id(original) in stacks
            else copied
            for original, copied in zip(
                self._originals, self.copies, strict=True
            )
        ]
        return shared_weights.in_place_of(self._originals, values)


class ExportedEncoder:
    """Runs the layers of an `AlbertModel` with exported weights."""

    def __init__(self, albert: AlbertModel, weights: ExportedWeights) -> None:
        self._albert = albert
        self._weights = weights
        depth = weights.depth or albert.config.num_hidden_layers
        num_blocks = depth * albert.config.inner_group_num
        calls = _calls_of_blocks(albert.encoder)[:num_blocks]
        # Those that share weights are the same.
        blocks = {
            call: tf.function(self._block(*call), autograph=False)
            for call in dict.fromkeys(calls)
        }
        self._blocks = [blocks[call] for call in calls]
        last = encoder_lib.at_first_position(self._block(*calls[-1]))
        # The last one computes the vectors of the first positions, `[R, 1, H]`.
        self.blocks_to_first = [
            *self._blocks[:-1],
            tf.function(last, autograph=False),
        ]
        self._encode = self.trace(self._run)
        # Returns the pooled output alone, for which less is computed.
        self.pooled = self.trace(self._run_pooled)

    def __call__(self, *ids: tf.Tensor, **named: tf.Tensor) -> Vectors:
        """Encodes sequences; the inputs are `ID_INPUTS`, int32 `[B, S]`.

        Returns the sequence output `[B, S, H]`, zero behind the last token of a
        row, and the pooled output `[B, H]` or None, in the compute dtype.
        """
        sequence, pooled = self._encode(*ids, **named)
        return sequence, pooled if self._weights.has_pooler else None

    def trace(self, function: Callable[..., Any]) -> Any:
        """Traces a function of ids `[B, S]`, which the graph checks first."""

        def checked(
            input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
        ) -> Any:
            ids = (input_ids, input_mask, segment_ids)
            with tf.control_dependencies(self._checks(*ids)):
                ids = tuple(map(tf.identity, ids))
            return function(*ids)

        return tf.function(
            checked,
            autograph=False,
            input_signature=[tf.TensorSpec([None, None], tf.int32)]
            * len(signature.ID_INPUTS),
        )

    def _run(self, *ids: tf.Tensor) -> Sequence[tf.Tensor]:
        width = tf.shape(ids[0])[1]
        dtype = self._albert.compute_dtype
        zero = tf.zeros([], dtype)

        def encode_group(lengths: tf.Tensor, *ids: tf.Tensor) -> Vectors:
            hidden, mask = self.embed(*ids)
            *_, hidden = encoder_lib.walk(self._blocks, hidden, mask)
            longest = tf.shape(ids[0])[1]
            is_token = tf.range(longest) < tf.expand_dims(lengths, 1)  # [R, L]
            sequence = tf.where(tf.expand_dims(is_token, 2), hidden, zero)
            rest = [[0, 0], [0, width - longest], [0, 0]]
            return tf.pad(sequence, rest), self.pool(hidden)

        size = self._albert.config.hidden_size
        none = [tf.zeros([0, width, size], dtype), tf.zeros([0, size], dtype)]
        return run_in_groups(encode_group, ids, row_lengths(ids[1]), none)

    def _run_pooled(self, *ids: tf.Tensor) -> tf.Tensor:
        def pool_group(_: tf.Tensor, *ids: tf.Tensor) -> list[tf.Tensor]:
            hidden, mask = self.embed(*ids)
            *_, hidden = encoder_lib.walk(self.blocks_to_first, hidden, mask)
            return [self.pool(hidden)]

        size = self._albert.config.hidden_size
        none = [tf.zeros([0, size], self._albert.compute_dtype)]
        [pooled] = run_in_groups(pool_group, ids, row_lengths(ids[1]), none)
        return pooled

    def embed(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the input of the first layer, and the attention mask."""
        with self._weights.scope():
            embedded = self._albert.embeddings(input_ids, segment_ids)
            hidden = self._albert.encoder.project(embedded)  # [B, S, H]
        return hidden, self._albert.attention_mask(input_mask, segment_ids)

    def pool(self, hidden: tf.Tensor) -> tf.Tensor:
        """Returns the pooled output of the output of a layer."""
        with self._weights.scope():
            return self._albert.pool(hidden)

    def _block(
        self, attention: int, feed_forward: int, pass_index: int
    ) -> encoder_lib.Block:
        """Returns a function of two sublayers, given by index, in one pass."""
        encoder = self._albert.encoder
        stacks = shared_weights.ids_of_stacks(encoder)

        def block(
            hidden: tf.Tensor, mask: tf.Tensor, **options: Any
        ) -> tf.Tensor:
            with self._weights.scope(pass_index, stacks):
                return encoder_lib.apply_block(
                    hidden,
                    mask,
                    attention=encoder.attention_sublayers[attention],
                    feed_forward=encoder.feed_forward_sublayers[feed_forward],
                    **options,
                )

        return block

    def _checks(self, *inputs: tf.Tensor) -> list[tf.Operation]:
        """Returns what stops the graph where ids are not valid."""
        config = self._albert.config
        longest = config.max_position_embeddings
        shapes = [tf.shape(values) for values in inputs]
        length = shapes[0][1]
        # Different shapes could be broadcast silently.
        is_same = tf.reduce_all(tf.equal(shapes, shapes[0]))
        names = signature.ID_INPUTS
        lengths = f"Sequences must have 1 to {longest} tokens. Received:"
        same = f"{', '.join(names)} must have the same shape. Received:"
        checks = [
            tf.Assert((length > 0) & (length <= longest), [lengths, shapes[0]]),
            tf.Assert(is_same, [same, *shapes]),
        ]
        sizes = (config.vocab_size, 2, max(2, config.type_vocab_size))
        for name, values, size in zip(names, inputs, sizes, strict=True):
            # Negative ones would count from the end.
            is_known = (values >= 0) & (values < size)
            message = f"{name} must be from 0 to {size - 1}. Received:"
            unknown = tf.boolean_mask(values, ~is_known)
            checks.append(
                tf.Assert(tf.reduce_all(is_known), [message, unknown])
            )
        return checks


def _calls_of_blocks(encoder: Any) -> list[tuple[int, int, int]]:
    """Returns the sublayers of each block, and its pass, if passes differ."""
    pairs = encoder.sublayers_of_blocks
    if not encoder.config.adapter_rank:
        return [(*pair, 0) for pair in pairs]
    attentions, feed_forwards = zip(*pairs, strict=True)
    return [
        (a, f, max(attentions[:i].count(a), feed_forwards[:i].count(f)))
        for i, (a, f) in enumerate(pairs)
    ]


def vectors(sequence: tf.Tensor, pooled: tf.Tensor | None) -> Tensors:
    """Returns what an `ExportedEncoder` gives, by name and in float32."""
    outputs = {"sequence_output": tf.cast(sequence, tf.float32)}
    if pooled is not None:
        outputs["pooled_output"] = tf.cast(pooled, tf.float32)
    return outputs


def make_signatures(
    encode: ExportedEncoder,
    tokenizer: GraphTokenizer,
    *,
    max_seq_length: int,
    pool: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
) -> list[Signature]:
    """Returns the signatures of an encoder.

    `pool` makes `vector`, `[B, H]`, of the sequence output and `input_mask`.
    """

    def from_ids(**ids: tf.Tensor) -> Tensors:
        outputs = vectors(*encode(**ids))
        if pool:
            sequence = outputs["sequence_output"]
            outputs["vector"] = pool(sequence, ids["input_mask"])
        return outputs

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = model_inputs.encode_pairs(
            text_a, text_b, tokenizer, max_seq_length=max_seq_length
        )
        return from_ids(**ids)

    return signature.text_and_token_signatures(
        from_text, from_ids, example=model_inputs.EXAMPLE
    )


# Groups of rows of similar length.


def run_in_groups(
    function: Callable[..., Sequence[tf.Tensor]],
    inputs: Sequence[tf.Tensor],
    lengths: tf.Tensor,
    none: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Applies a function to a batch in groups of rows of similar length.

    If every row were padded to the longest, one long text would make its batch
    slow.

    Args:
        function: Function of the lengths of R rows, int32 `[R]`, and of their
            part of the inputs, `[R, ..., L]` with the largest of the lengths
            L; returns tensors `[R, ...]`, which are put in order.
        inputs: Tensors `[B, ..., S]`.
        lengths: Int32 `[B]`, the positions of each row that are needed.
        none: As for `ragged.in_parts`.
    """
    num_rows = ragged.size(lengths)
    lengths, order = tf.math.top_k(lengths, num_rows)  # the longest first
    allowance = tf.reduce_sum(lengths) // _PADDING_SHARE
    allowance = tf.maximum(allowance, _MIN_PADDING)
    inputs = [tf.gather(values, order) for values in inputs]

    def run_group(start: tf.Tensor) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
        longest = lengths[start]
        # As many rows as the allowance of padding permits.
        padding = tf.cumsum(longest - lengths[start:])
        end = start + tf.reduce_sum(tf.cast(padding <= allowance, tf.int32))
        # LiteRT supports neither ellipses nor slices that add axes.
        parts = [
            values[
                slice(start, end),
                *[slice(None)] * (values.shape.rank - 2),
                slice(longest),
            ]
            for values in inputs
        ]
        return end, function(lengths[start:end], *parts)

    results = ragged.in_parts(run_group, num_rows, none)
    _, positions = tf.math.top_k(-order, num_rows)  # the inverse of `order`
    return [tf.gather(values, positions) for values in results]


def row_lengths(input_mask: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[...]`: the position behind the last 1 of rows `[..., S]`.

    A row of zeros has all S positions, as for the model.
    """
    width = tf.shape(input_mask)[-1]
    ends = tf.where(input_mask != 0, tf.range(1, width + 1), 0)
    lengths = tf.reduce_max(ends, axis=-1)
    return tf.where(lengths > 0, lengths, width)
