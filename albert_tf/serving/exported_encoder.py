"""The encoder of an exported model: weights stored once, blocks traced once.

Layers that share weights also share operations, so that the graph, like the
weights, does not grow with the depth of the model.

Data flow: input ids -> rows sorted by length -> [this file] -> vectors, rows in
their original order. All operations are core TensorFlow's, and LiteRT has them.

Source: `modeling.albert_model` and `modeling.encoder`; the results are equal.
google-research/albert, export_to_tfhub.py, for the signature `tokens`.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras
import tensorflow as tf

from albert_tf.modeling import encoder as encoder_lib
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.fused import shared_weights
from albert_tf.serving import model_inputs, ragged, signature
from albert_tf.serving.graph_tokenizer import GraphTokenizer
from albert_tf.serving.signature import Signature, Tensors

Vectors = tuple[tf.Tensor, tf.Tensor | None]
Result = TypeVar("Result")

# The padding of a group may be one eighth of the tokens of the batch. More
# groups would have less padding, but each group costs as much as about 20 more
# tokens on a CPU, and hundreds on a GPU.
_PADDING_SHARE = 8
_MIN_PADDING = 16


class ExportedWeights:
    """Copies the weights of a Keras model for a graph.

    A graph that is traced within `scope` reads the copies, so that the Keras
    model is not saved with it.

    Args:
        variables: The weights of the model.
        precision: Of matrices: `float32`, or `bfloat16` to halve their size.
            Vectors stay float32.
        has_pooler: Whether the pooler of the model was trained.

    Attributes:
        copies: TensorFlow variables.
        depth: Number of layers to compute; None for all.
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
        """Returns the same copies for the first `depth` layers."""
        weights = copy.copy(self)
        weights.depth = depth
        return weights

    def scope(self) -> Any:
        """Returns a context in which the model computes with the copies."""
        return shared_weights.in_place_of(self._originals, self.copies)


class ExportedEncoder:
    """Runs the layers of an `AlbertModel` with exported weights."""

    def __init__(self, albert: AlbertModel, weights: ExportedWeights) -> None:
        self._albert = albert
        self._weights = weights
        depth = weights.depth or albert.config.num_hidden_layers
        num_blocks = depth * albert.config.inner_group_num
        calls = albert.encoder.sublayers_of_blocks[:num_blocks]
        # Blocks that share weights are one function.
        blocks = {
            call: tf.function(self._block(*call), autograph=False)
            for call in dict.fromkeys(calls)
        }
        self._blocks = [blocks[call] for call in calls]
        last = encoder_lib.at_first_position(self._block(*calls[-1]))
        # The last block computes only the vectors of `[CLS]`, `[R, 1, H]`.
        self.blocks_to_first = [
            *self._blocks[:-1],
            tf.function(last, autograph=False),
        ]
        self._encode = self.trace(self._run)
        # Computes the pooled output alone, which takes less time.
        self.pooled = self.trace(self._run_pooled)

    def __call__(self, *ids: tf.Tensor, **named: tf.Tensor) -> Vectors:
        """Encodes sequences; the inputs are `ID_INPUTS`, int32 `[B, S]`.

        Returns the sequence output `[B, S, H]`, which is 0 after the last token
        of a row, and the pooled output `[B, H]`, None if the pooler was not
        trained; both in the compute dtype.
        """
        sequence, pooled = self._encode(*ids, **named)
        return sequence, pooled if self._weights.has_pooler else None

    def trace(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """Traces a function of ids `[B, S]`, which the graph checks first."""
        spec = tf.TensorSpec([None, None], tf.int32)

        @tf.function(autograph=False, input_signature=[spec] * 3)
        def checked(
            input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
        ) -> Result:
            ids = (input_ids, input_mask, segment_ids)
            with tf.control_dependencies(self._checks(*ids)):
                ids = tuple(map(tf.identity, ids))
            return function(*ids)

        traced: Callable[..., Result] = checked
        return traced

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
            paddings = [[0, 0], [0, width - longest], [0, 0]]
            return tf.pad(sequence, paddings), self.pool(hidden)

        size = self._albert.config.hidden_size
        empty = [tf.zeros([0, width, size], dtype), tf.zeros([0, size], dtype)]
        return run_in_groups(encode_group, ids, row_lengths(ids[1]), empty)

    def _run_pooled(self, *ids: tf.Tensor) -> tf.Tensor:
        def pool_group(_: tf.Tensor, *ids: tf.Tensor) -> list[tf.Tensor]:
            hidden, mask = self.embed(*ids)
            *_, hidden = encoder_lib.walk(self.blocks_to_first, hidden, mask)
            return [self.pool(hidden)]

        size = self._albert.config.hidden_size
        empty = [tf.zeros([0, size], self._albert.compute_dtype)]
        [pooled] = run_in_groups(pool_group, ids, row_lengths(ids[1]), empty)
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

    def _block(self, attention: int, feed_forward: int) -> encoder_lib.Block:
        """Returns a function of two sublayers, given by index."""
        encoder = self._albert.encoder

        def block(
            hidden: tf.Tensor, mask: tf.Tensor, **options: Any
        ) -> tf.Tensor:
            with self._weights.scope():
                return encoder_lib.apply_block(
                    hidden,
                    mask,
                    attention=encoder.attention_sublayers[attention],
                    feed_forward=encoder.feed_forward_sublayers[feed_forward],
                    **options,
                )

        return block

    def _checks(self, *inputs: tf.Tensor) -> list[tf.Operation]:
        """Returns assertions that ids are valid."""
        config = self._albert.config
        longest = config.max_position_embeddings
        shapes = [tf.shape(ids) for ids in inputs]
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
        for name, ids, size in zip(names, inputs, sizes, strict=True):
            # A negative id would count from the end of the table.
            is_valid = (ids >= 0) & (ids < size)
            message = f"{name} must be from 0 to {size - 1}. Received:"
            invalid = tf.boolean_mask(ids, ~is_valid)
            checks.append(
                tf.Assert(tf.reduce_all(is_valid), [message, invalid])
            )
        return checks


def vectors(sequence: tf.Tensor, pooled: tf.Tensor | None) -> Tensors:
    """Names the outputs of an `ExportedEncoder`, in float32."""
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

    With `pool`, a function of the sequence output and `input_mask`, they also
    have its result, `vector` `[B, H]`.
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
    empty: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Applies a function to a batch in groups of rows of similar length.

    If every row were padded to the longest, one long text would make its batch
    slow.

    Args:
        function: Function of the lengths of R rows, int32 `[R]`, and of the
            rows themselves, `[R, ..., L]`, where L is the largest of the
            lengths. Returns tensors `[R, ...]`.
        inputs: Tensors `[B, ..., S]`.
        lengths: Int32 `[B]`, the positions of each row that are needed.
        empty: As for `ragged.in_parts`.

    Returns:
        The tensors of all groups, in the original order of the rows.
    """
    num_rows = ragged.size(lengths)
    lengths, order = tf.math.top_k(lengths, num_rows)  # the longest first
    allowance = tf.reduce_sum(lengths) // _PADDING_SHARE
    allowance = tf.maximum(allowance, _MIN_PADDING)
    inputs = [tf.gather(tensor, order) for tensor in inputs]

    def run_group(start: tf.Tensor) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
        longest = lengths[start]
        # Take as many rows as the allowance of padding permits.
        padding = tf.cumsum(longest - lengths[start:])
        end = start + tf.reduce_sum(tf.cast(padding <= allowance, tf.int32))
        # LiteRT supports neither ellipses nor slices that add axes.
        parts = [
            tensor[
                slice(start, end),
                *[slice(None)] * (tensor.shape.rank - 2),
                slice(longest),
            ]
            for tensor in inputs
        ]
        return end, function(lengths[start:end], *parts)

    results = ragged.in_parts(run_group, num_rows, empty)
    _, positions = tf.math.top_k(-order, num_rows)  # the inverse of `order`
    return [tf.gather(tensor, positions) for tensor in results]


def row_lengths(input_mask: tf.Tensor) -> tf.Tensor:
    """Counts the positions of rows `[..., S]` up to the last 1, int32 `[...]`.

    A row of zeros counts as S positions, because the model computes all.
    """
    width = tf.shape(input_mask)[-1]
    ends = tf.where(input_mask != 0, tf.range(1, width + 1), 0)
    lengths = tf.reduce_max(ends, axis=-1)
    return tf.where(lengths > 0, lengths, width)
