"""The signatures of the pretraining heads and of their encoder.

`fill_mask` returns the likeliest tokens where a text has `[MASK]`. The text is
cut at every `[MASK]`, and the parts are tokenized separately.

Data flow: text -> ids -> [this file] -> logits, tokens.
Source: google-research/albert, export_to_tfhub.py (`mlm`, `sop`).
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.modeling import layers
from albert_tf.serving import exported_encoder, model_inputs, ragged, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.graph_tokenizer import CPU, GraphTokenizer, Tokens
from albert_tf.serving.ragged import Ranges
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks.pretraining.data import MASK, MAX_MASKS, NUM_TOP
from albert_tf.tasks.spec import Exported

# A text that begins with white space.
_SPACED = f"(?s){ragged.WHITE_SPACE}.*"


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of an encoder, and of the heads that it has."""
    model, weights = exported.model, exported.weights
    encode = ExportedEncoder(model.albert, weights)

    def masked_lm(mlm_positions: tf.Tensor, **ids: tf.Tensor) -> Tensors:
        sequence, pooled = encode(**ids)
        with weights.scope():
            table = model.albert.embeddings.word_embeddings.matrix
            logits = model.masked_lm_head(
                layers.gather_positions(sequence, mlm_positions),
                tf.convert_to_tensor(table),
            )
        return exported_encoder.vectors(sequence, pooled) | {
            "mlm_logits": logits
        }

    def sentence_order(**ids: tf.Tensor) -> Tensors:
        sequence, pooled = encode(**ids)
        with weights.scope():
            log_probs = tf.nn.log_softmax(model.sentence_order_head(pooled))
        return exported_encoder.vectors(sequence, pooled) | {
            "sop_log_probs": log_probs
        }

    max_seq_length = exported.settings.max_seq_length
    signatures = exported_encoder.make_signatures(
        encode, exported.tokenizer, max_seq_length=max_seq_length
    )
    ids = signature.id_row()
    if model.masked_lm_head is not None:
        positions = np.arange(4, dtype=np.int32)
        row = {**ids, "mlm_positions": positions}
        signatures += [
            Signature(name="mlm", compute=masked_lm, row=row),
            _fill_mask(masked_lm, exported.tokenizer, max_seq_length),
        ]
    if model.sentence_order_head is not None:
        signatures.append(
            Signature(name="sop", compute=sentence_order, row=ids)
        )
    return signatures


def _fill_mask(
    masked_lm: Callable[..., Tensors],
    tokenizer: GraphTokenizer,
    max_seq_length: int,
) -> Signature:
    """Returns the signature `fill_mask`.

    It takes `text` `[B]` and returns `top_tokens`, strings `[B, M, 5]`, the
    likeliest first, and `top_probabilities`, float32 `[B, M, 5]`, where M is
    `MAX_MASKS`; those from `num_masks`, int32 `[B]`, on are empty. A text with
    more than M, or one behind `max_seq_length` tokens, has no masks, and the
    reason in `error`, strings `[B]`. A row depends on its text alone.
    """
    num_top = min(NUM_TOP, len(tokenizer.tokens))
    names = tf.constant(tokenizer.tokens)
    num_before = tokenizer.special_ids.num_before

    def fill(text: tf.Tensor) -> Tensors:
        with tf.device(CPU):
            ids, row_splits = _masked_tokens(text, tokenizer)
            sizes = row_splits[1:] - row_splits[:-1]
            sizes = tf.minimum(sizes, max_seq_length - 2 * num_before)
            starts = row_splits[:-1]
            inputs = model_inputs.pack_ranges(
                ids,
                Ranges(starts=starts, sizes=sizes),
                Ranges(starts=starts, sizes=tf.zeros_like(sizes)),
                is_pair=False,
                special=tokenizer.special_ids,
            )
            positions, num_masks, error = _positions(
                ids == tokenizer.special_ids.mask,
                row_splits,
                max_seq_length,
                num_before,
            )
        logits = masked_lm(positions, **inputs)["mlm_logits"]
        # The model may have more outputs than the vocabulary has tokens.
        logits = logits[:, :, : len(tokenizer.tokens)]
        values, ids = tf.math.top_k(tf.nn.softmax(logits), num_top)
        is_mask = (tf.range(MAX_MASKS) < num_masks[:, None])[:, :, None]
        return {
            "top_tokens": tf.where(is_mask, tf.gather(names, ids), ""),
            "top_probabilities": tf.where(is_mask, values, 0.0),
            "num_masks": num_masks,
            "error": error,
        }

    return Signature(
        name="fill_mask",
        compute=fill,
        row={"text": np.array("The capital of France is [MASK].", object)},
    )


def _masked_tokens(
    texts: tf.Tensor, tokenizer: GraphTokenizer
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ids of texts, with the id of `[MASK]` for each mask.

    They are int32 `[M]`, with row splits `[B + 1]`.
    """
    # Each text has one part more than masks.
    indices, parts, _ = tf.raw_ops.StringSplitV2(input=texts, sep=MASK)
    part_rows = tf.cast(indices[:, 0], tf.int32)
    all_ids, rows = _within_words(
        tokenizer(parts),
        (indices[:, 1] > 0) & ~tf.strings.regex_full_match(parts, _SPACED),
        tokenizer.ids_within_words,
    )
    has_mask = tf.cast(~ragged.is_last(part_rows), tf.int32)
    sources, within = ragged.expand(rows.sizes + has_mask)
    # A part that is followed by a mask has one more position than tokens.
    is_mask = within == tf.gather(rows.sizes, sources)
    position = tf.gather(rows.starts, sources) + within
    position = tf.where(is_mask, ragged.size(all_ids), position)
    ids = ragged.gather_or(all_ids, position, tokenizer.special_ids.mask)
    return ids, ragged.row_splits(
        tf.gather(part_rows, sources), ragged.size(texts)
    )


def _within_words(
    tokens: Tokens, is_within: tf.Tensor, ids_within_words: np.ndarray
) -> tuple[tf.Tensor, Ranges]:
    """Returns ids and parts as `Tokenizer.encode_with_masks` makes them.

    `is_within`, bool `[R]`, says which parts begin within a word.
    """
    ids, rows = tokens.ids, tokens.rows
    is_within &= rows.sizes > 0
    positions = tf.boolean_mask(rows.starts, is_within)
    found = tf.gather(ids_within_words, tf.gather(ids, positions))
    ids = tf.tensor_scatter_nd_update(ids, positions[:, None], found)
    # The mark of a word's start alone.
    first = ragged.gather_or(ids, rows.starts, 0)
    dropped = tf.cast((first < 0) & is_within, tf.int32)
    return ids, Ranges(starts=rows.starts + dropped, sizes=rows.sizes - dropped)


def _positions(
    is_mask: tf.Tensor,
    row_splits: tf.Tensor,
    max_seq_length: int,
    num_before: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the masks of each text among its tokens.

    Returns their positions, int32 `[B, MAX_MASKS]`, 0 for padding;
    how many there are, int32 `[B]`, 0 for a text that is refused; and, strings
    `[B]`, why it is refused, else "".
    """
    masks = ragged.indices(is_mask)
    rows = tf.gather(ragged.row_ids(row_splits), masks)
    # Behind `[CLS]`, if there is one.
    positions = masks - tf.gather(row_splits, rows) + num_before
    splits = ragged.row_splits(rows, ragged.size(row_splits) - 1)
    found = tf.RaggedTensor.from_row_splits(positions, splits, validate=False)
    num_masks = splits[1:] - splits[:-1]
    error = tf.where(
        num_masks > MAX_MASKS,
        f"A text may have at most {MAX_MASKS} {MASK}.",
        tf.where(
            tf.reduce_max(found, axis=1) >= max_seq_length - num_before,
            f"A {MASK} lies behind the cut of {max_seq_length} tokens.",
            "",
        ),
    )
    num_masks = tf.where(error == "", num_masks, 0)
    padded = found.to_tensor(shape=[None, MAX_MASKS])
    is_mask = tf.range(MAX_MASKS) < num_masks[:, None]
    return tf.where(is_mask, padded, 0), num_masks, error
