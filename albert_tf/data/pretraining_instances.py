"""Builds the pretraining records of one block of documents.

Data flow: block -> tokens -> pairs -> rows -> masks -> records. All of it is a
pure function of (block, vocabulary, settings), so the records do not depend on
the number of workers or on their order.
Floor: data. Pure NumPy.

Source: google-research/albert,
`create_pretraining_data.create_training_instances`.
"""

import dataclasses
import itertools

import numpy as np

from albert_tf import features
from albert_tf.data import corpus, masking, record_files, segment_pairs
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.sidecar import BuildCounts
from albert_tf.text.special_tokens import SpecialIds
from albert_tf.text.tokenizer import Tokenizer

# Rows that are masked and encoded together: enough to make NumPy's overhead
# small, few enough to keep the arrays in the processor's cache.
_BATCH_ROWS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """A batch of pairs laid out as `[CLS] A [SEP] B [SEP]` and padding.

    `lengths` counts special tokens; `is_maskable` is True for the tokens of A
    and B.
    """

    input_ids: np.ndarray  # int32 [B, S]
    segment_ids: np.ndarray  # int32 [B, S], 1 for B and the [SEP] after it
    is_maskable: np.ndarray  # bool [B, S]
    lengths: np.ndarray  # int64 [B]


def build_block(
    block: corpus.Block, tokenizer: Tokenizer, config: PretrainingDataConfig
) -> tuple[bytes, BuildCounts]:
    """Returns all records of a block, framed for a file, and their counts."""
    # All draws of a block come from this generator, in a fixed order. Its key
    # is the block alone, so it does not matter which process draws.
    rng = np.random.default_rng(
        np.random.SeedSequence(config.random_seed, spawn_key=(block.number,))
    )
    tokens = tokenize(block, tokenizer)
    pairs, without_pair = draw_pairs(tokens, rng, config)
    counts = BuildCounts(
        documents=len(tokens.document_starts) - 1,
        sentences=len(tokens.sentence_starts) - 1,
        tokens=len(tokens.ids),
        unknown_tokens=int((tokens.ids == tokenizer.special_ids.unk).sum()),
        chunks_without_pair=without_pair,
        records=len(pairs),
        label_1_records=int(pairs.label.sum()),
    )
    framed = []
    for first in range(0, len(pairs), _BATCH_ROWS):
        batch = pairs.take(slice(first, first + _BATCH_ROWS))
        if config.masking == "static":
            records, batch_counts = _static_records(
                batch, tokens.ids, rng, tokenizer, config
            )
        else:
            records, batch_counts = _dynamic_records(
                batch, tokens.ids, tokenizer
            )
        framed.append(record_files.frame_records(records))
        counts += batch_counts
    return b"".join(framed), counts


def tokenize(
    block: corpus.Block, tokenizer: Tokenizer
) -> segment_pairs.TokenBlock:
    """Encodes a block; sentences and documents without a token are dropped."""
    documents = [document.sentences() for document in block.documents]
    ids, lengths = tokenizer.encode_batch(
        list(itertools.chain.from_iterable(documents))
    )
    document = np.repeat(
        np.arange(len(documents)), [len(sentences) for sentences in documents]
    )
    has_tokens = lengths > 0
    num_sentences = np.bincount(document[has_tokens], minlength=len(documents))
    return segment_pairs.TokenBlock(
        ids=ids,
        sentence_starts=_starts(lengths[has_tokens]),
        document_starts=_starts(num_sentences[num_sentences > 0]),
    )


def draw_pairs(
    tokens: segment_pairs.TokenBlock,
    rng: np.random.Generator,
    config: PretrainingDataConfig,
) -> tuple[segment_pairs.Pairs, int]:
    """Draws the pairs of all copies of a block, truncated and shuffled.

    Returns:
        The pairs, and the number of chunks without a pair.
    """
    copies = [
        _draw_copy(tokens, rng, config) for _ in range(config.dupe_factor)
    ]
    pairs = segment_pairs.Pairs.concatenate([pairs for pairs, _ in copies])
    shuffled = pairs.take(rng.permutation(len(pairs)))
    return shuffled, sum(without_pair for _, without_pair in copies)


def _draw_copy(
    tokens: segment_pairs.TokenBlock,
    rng: np.random.Generator,
    config: PretrainingDataConfig,
) -> tuple[segment_pairs.Pairs, int]:
    budget, short_prob = config.token_budget, config.short_seq_prob
    without_pair = 0
    is_swapped_when_read = False
    if config.pair_objective == "sop":
        pairs, without_pair = segment_pairs.sentence_order_pairs(
            tokens,
            rng,
            budget=budget,
            short_prob=short_prob,
            reference_pairs=config.reference_pairs,
        )
        is_swapped_when_read = config.masking == "dynamic"
        if not is_swapped_when_read:
            pairs = segment_pairs.swap_half(pairs, rng)
    elif config.pair_objective == "nsp":
        pairs = segment_pairs.next_sentence_pairs(
            tokens, rng, budget=budget, short_prob=short_prob
        )
    else:
        pairs = segment_pairs.single_segments(
            tokens, rng, budget=budget, short_prob=short_prob
        )
    truncated = segment_pairs.truncate(
        pairs, rng, budget=budget, random_ties=is_swapped_when_read
    )
    return truncated, without_pair


def lay_out(
    pairs: segment_pairs.Pairs,
    token_ids: np.ndarray,
    special_ids: SpecialIds,
    *,
    max_seq_length: int,
) -> Rows:
    """Lays pairs out in rows: special tokens and padding are added.

    The pairs are spans of `token_ids`, and short enough; one without a B gets
    one `[SEP]`.
    """
    column = np.arange(max_seq_length)
    first_sep = (1 + pairs.a_length)[:, None]
    b_length = pairs.b_length[:, None]
    last_sep = first_sep + np.where(b_length > 0, b_length + 1, 0)
    in_a = (column > 0) & (column < first_sep)
    in_b = (column > first_sep) & (column < last_sep)
    source = np.where(
        in_a,
        pairs.a_start[:, None] + column - 1,
        pairs.b_start[:, None] + column - first_sep - 1,
    )
    is_maskable = in_a | in_b
    input_ids = token_ids[np.where(is_maskable, source, 0)]
    input_ids[~is_maskable] = special_ids.pad
    input_ids[:, 0] = special_ids.cls
    rows = np.arange(len(pairs))
    input_ids[rows, first_sep[:, 0]] = special_ids.sep
    input_ids[rows, last_sep[:, 0]] = special_ids.sep
    is_second = (column > first_sep) & (column <= last_sep)
    return Rows(
        input_ids=input_ids,
        segment_ids=is_second.astype(np.int32),
        is_maskable=is_maskable,
        lengths=last_sep[:, 0] + 1,
    )


def _static_records(
    pairs: segment_pairs.Pairs,
    token_ids: np.ndarray,
    rng: np.random.Generator,
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
) -> tuple[list[bytes], BuildCounts]:
    size = config.max_seq_length
    rows = lay_out(pairs, token_ids, tokenizer.special_ids, max_seq_length=size)
    is_real = np.arange(size) < rows.lengths[:, None]
    is_word_start = tokenizer.word_starts[rows.input_ids]
    masked = masking.mask_rows(
        rng,
        rows.input_ids,
        lengths=rows.lengths,
        is_maskable=rows.is_maskable,
        is_word_start=is_word_start | (not config.do_whole_word_mask),
        config=config,
        tokenizer=tokenizer,
    )
    is_special = is_real & ~rows.is_maskable
    records = record_files.encode_examples(
        features.static_pretraining_features(
            max_seq_length=size, max_predictions=config.num_prediction_slots
        ),
        {
            **masked,
            "input_mask": is_real,
            "segment_ids": rows.segment_ids,
            # TF1: special tokens count as word starts, padding does not.
            "token_boundary": is_special | (rows.is_maskable & is_word_start),
            "sentence_order_labels": pairs.label[:, None],
        },
    )
    return records, BuildCounts(
        record_tokens=int(rows.lengths.sum()),
        masked_tokens=int(masked["masked_lm_weights"].sum()),
    )


def _dynamic_records(
    pairs: segment_pairs.Pairs, token_ids: np.ndarray, tokenizer: Tokenizer
) -> tuple[list[bytes], BuildCounts]:
    """Encodes a batch of pairs without masks, A then B."""
    starts = np.stack([pairs.a_start, pairs.b_start], axis=1).ravel()
    lengths = np.stack([pairs.a_length, pairs.b_length], axis=1).ravel()
    borders = _starts(lengths)
    source = np.repeat(starts - borders[:-1], lengths) + np.arange(borders[-1])
    ids = token_ids[source]
    row_starts = borders[::2]
    records = record_files.encode_examples(
        features.dynamic_pretraining_features(),
        {
            "pair_ids": record_files.Ragged(ids, row_starts),
            "token_boundary": record_files.Ragged(
                tokenizer.word_starts[ids], row_starts
            ),
            "segment_a_length": pairs.a_length[:, None],
            "pair_label": pairs.label[:, None],
        },
    )
    num_specials = 2 * len(pairs) + int((pairs.b_length > 0).sum())
    return records, BuildCounts(record_tokens=len(ids) + num_specials)


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Returns where spans of these lengths start, and where the last ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
