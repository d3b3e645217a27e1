"""Builds the pretraining records of one block of documents.

Data flow: block -> tokens -> pairs -> rows -> masks -> records. All of it is a
pure function of (block, vocabulary, settings), so the records do not depend on
the number of workers or on their order.

Source: google-research/albert,
`create_pretraining_data.create_training_instances`.
"""

import itertools
from typing import NamedTuple

import numpy as np

from albert_tf import features
from albert_tf.data import (
    corpus,
    example_codec,
    masking,
    record_files,
    segment_pairs,
)
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.shards import BuildCounts
from albert_tf.text.base import Tokenizer
from albert_tf.text.vocabulary_file import SpecialIds

# Rows that are masked and encoded together: enough to make NumPy's overhead
# small, few enough to keep the arrays in the processor's cache.
_BATCH_ROWS = 256
# Tokens that end a sentence, in both kinds of vocabulary.
_FINAL_TOKENS = [
    space + mark for space in ("", "\u2581") for mark in ".?!…。？！．"
]


class BlockPart(NamedTuple):
    """The records of a block that belong into one file, framed for it."""

    framed: bytes
    counts: BuildCounts


# Serialized records, and for each its tokens and its masked tokens.
_Encoded = tuple[list[bytes], np.ndarray, np.ndarray]


def build_block(
    block: corpus.Block, tokenizer: Tokenizer, config: PretrainingDataConfig
) -> list[BlockPart]:
    """Builds all records of a block.

    They are dealt, one after the other, to `block.num_parts` parts. The first
    part has the counts of the block's text.
    """
    # All draws of a block come from this generator, in a fixed order. Its key
    # is the block alone, so neither the process that draws nor the rest of the
    # corpus matters.
    rng = np.random.default_rng(
        np.random.SeedSequence(config.random_seed, spawn_key=block.key)
    )
    tokens = tokenize(block, tokenizer)
    pairs, text_counts = draw_pairs(tokens, rng, tokenizer, config)
    num_documents = len(tokens.document_starts) - 1
    text_counts += BuildCounts(
        documents=num_documents,
        sentences=len(tokens.sentence_starts) - 1,
        tokens=len(tokens.ids),
        unknown_tokens=int((tokens.ids == tokenizer.special_ids.unk).sum()),
        lone_tokens=len(tokens.ids) if num_documents == 1 else 0,
    )
    num_parts = block.num_parts
    counts = [text_counts] + [BuildCounts()] * (num_parts - 1)
    framed: list[list[bytes]] = [[] for _ in range(num_parts)]
    for first in range(0, len(pairs), _BATCH_ROWS):
        batch = pairs[first : first + _BATCH_ROWS]
        if config.masking == "static":
            encoded = _static_records(batch, tokens.ids, rng, tokenizer, config)
        else:
            encoded = _dynamic_records(batch, tokens.ids, tokenizer)
        records, lengths, num_masked = encoded
        for part in range(num_parts):
            rows = slice((part - first) % num_parts, None, num_parts)
            framed[part].append(record_files.frame_records(records[rows]))
            counts[part] += BuildCounts(
                records=len(records[rows]),
                label_1_records=int(batch.label[rows].sum()),
                record_tokens=int(lengths[rows].sum()),
                masked_tokens=int(num_masked[rows].sum()),
            )
    return list(map(BlockPart, map(b"".join, framed), counts))


def tokenize(
    block: corpus.Block, tokenizer: Tokenizer
) -> segment_pairs.TokenBlock:
    """Encodes a block; sentences and documents without a token are dropped."""
    documents = [document.sentences() for document in block.documents]
    if border := tokenizer.sentence_border:
        stripped = (filter(None, map(str.strip, texts)) for texts in documents)
        documents = [
            [border * (i > 0) + text for i, text in enumerate(texts)]
            for texts in stripped
        ]
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


def divide_sentences(
    block: segment_pairs.TokenBlock, final_ids: np.ndarray, *, max_length: int
) -> segment_pairs.TokenBlock:
    """Divides sentences that are too long, or alone in their document.

    They are divided after `final_ids`, the tokens that end a sentence, and
    where this is not enough, into equal parts of at most `max_length` tokens.
    """
    lengths = np.diff(block.sentence_starts)
    num_sentences = np.diff(block.document_starts)
    is_alone = np.repeat(num_sentences == 1, num_sentences)
    added = []
    for sentence in np.flatnonzero(is_alone | (lengths > max_length)):
        first, end = block.sentence_starts[sentence : sentence + 2].tolist()
        is_final = np.isin(block.ids[first:end], final_ids)
        # An ellipsis, and marks like `?!`, are one end.
        ends = np.flatnonzero(is_final[:-1] & ~is_final[1:])
        borders = [first, *(first + 1 + ends).tolist(), end]
        for start, stop in itertools.pairwise(borders):
            size = stop - start
            num_parts = -(-size // max_length)
            added += [start + size * k // num_parts for k in range(num_parts)]
    starts = np.union1d(block.sentence_starts, np.array(added, np.int64))
    return segment_pairs.TokenBlock(
        ids=block.ids,
        sentence_starts=starts,
        document_starts=np.searchsorted(
            starts, block.sentence_starts[block.document_starts]
        ),
    )


def draw_pairs(
    tokens: segment_pairs.TokenBlock,
    rng: np.random.Generator,
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
) -> tuple[segment_pairs.Pairs, BuildCounts]:
    """Draws the pairs of all copies of a block, truncated and shuffled.

    Returns them with the counts of tokens that were left out and repeated.
    """
    num_around = tokenizer.special_ids.num_around(config.num_segments)
    budget = config.max_seq_length - num_around
    if config.keep_more_text and config.pair_objective != "none":
        final_ids = {tokenizer.token_to_id(token) for token in _FINAL_TOKENS}
        tokens = divide_sentences(
            tokens,
            np.array([*final_ids - {tokenizer.special_ids.unk}], np.int32),
            # So that two always fit.
            max_length=budget // 2,
        )
    chunker = segment_pairs.Chunker(
        tokens,
        rng,
        budget=budget,
        short_prob=config.short_seq_prob,
    )
    copies, counts = [], BuildCounts()
    for _ in range(config.dupe_factor):
        pairs, without_pair = _draw_copy(chunker, config)
        copies.append(pairs)
        num_distinct = segment_pairs.num_distinct_tokens(pairs)
        num_in_pairs = int(pairs.a_length.sum() + pairs.b_length.sum())
        counts += BuildCounts(
            chunks_without_pair=without_pair,
            tokens_left_out=len(tokens.ids) - num_distinct,
            tokens_repeated=num_in_pairs - num_distinct,
        )
    pairs = np.concatenate(copies).view(np.recarray)
    return pairs[rng.permutation(len(pairs))], counts


def _draw_copy(
    chunker: segment_pairs.Chunker, config: PretrainingDataConfig
) -> tuple[segment_pairs.Pairs, int]:
    """Draws the pairs of a copy; returns them, and chunks without a pair."""
    objective, without_pair = config.pair_objective, 0
    if objective == "none":
        pairs = segment_pairs.single_segments(chunker)
    elif objective == "nsp":
        pairs = segment_pairs.next_sentence_pairs(
            chunker, is_fitted=bool(config.keep_more_text)
        )
    elif config.keep_more_text:
        pairs, without_pair = segment_pairs.fitted_order_pairs(chunker)
    else:
        pairs, without_pair = segment_pairs.sentence_order_pairs(
            chunker, reference_pairs=config.reference_pairs
        )
    is_swapped_when_read = objective == "sop" and config.masking == "dynamic"
    if objective == "sop" and not is_swapped_when_read:
        pairs = segment_pairs.swap_half(pairs, chunker.rng)
    truncated = segment_pairs.truncate(
        pairs,
        chunker.rng,
        budget=chunker.budget,
        random_ties=is_swapped_when_read,
    )
    return truncated, without_pair


def lay_out(
    pairs: segment_pairs.Pairs,
    token_ids: np.ndarray,
    special_ids: SpecialIds,
    *,
    max_seq_length: int,
) -> tuple[np.ndarray, ...]:
    """Lays pairs out in rows, as `[CLS] A [SEP] B [SEP]` and padding.

    The pairs are spans of `token_ids`, and short enough; one without a B gets
    one `[SEP]`. Returns `input_ids`; `segment_ids`, 1 for B and the `[SEP]`
    after it, both int32 `[B, S]`; which tokens are of A or B, bool `[B, S]`;
    and the lengths of the rows, special tokens included, int64 `[B]`.
    """
    column = np.arange(max_seq_length)
    begin = special_ids.num_before
    first_sep = (begin + pairs.a_length)[:, None]
    b_length = pairs.b_length[:, None]
    last_sep = first_sep + np.where(b_length > 0, b_length + 1, 0)
    in_a = (column >= begin) & (column < first_sep)
    in_b = (column > first_sep) & (column < last_sep)
    places = np.where(
        in_a,
        pairs.a_start[:, None] + column - begin,
        pairs.b_start[:, None] + column - first_sep - 1,
    )
    is_maskable = in_a | in_b
    input_ids = token_ids[np.where(is_maskable, places, 0)]
    input_ids[~is_maskable] = special_ids.pad
    if begin:
        input_ids[:, 0] = special_ids.cls
        rows = np.arange(len(pairs))
        input_ids[rows, first_sep[:, 0]] = special_ids.sep
        input_ids[rows, last_sep[:, 0]] = special_ids.sep
    is_second = (column > first_sep) & (column <= last_sep)
    segment_ids = is_second.astype(np.int32)
    return input_ids, segment_ids, is_maskable, last_sep[:, 0] + begin


def _static_records(
    pairs: segment_pairs.Pairs,
    token_ids: np.ndarray,
    rng: np.random.Generator,
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
) -> _Encoded:
    size = config.max_seq_length
    input_ids, segment_ids, is_maskable, lengths = lay_out(
        pairs, token_ids, tokenizer.special_ids, max_seq_length=size
    )
    is_real = np.arange(size) < lengths[:, None]
    is_word_start = tokenizer.word_starts[input_ids]
    masked = masking.mask_rows(
        rng,
        input_ids,
        lengths=lengths,
        is_maskable=is_maskable,
        is_word_start=is_word_start | (not config.do_whole_word_mask),
        config=config,
        tokenizer=tokenizer,
    )
    is_special = is_real & ~is_maskable
    records = example_codec.encode_examples(
        features.static_pretraining_features(
            max_seq_length=size, max_predictions=config.num_prediction_slots
        ),
        {
            **masked,
            "input_mask": is_real,
            "segment_ids": segment_ids,
            # TF1: special tokens count as word starts, padding does not.
            "token_boundary": is_special | (is_maskable & is_word_start),
            "sentence_order_labels": pairs.label[:, None],
        },
    )
    num_masked = masked["masked_lm_weights"].sum(axis=1)
    return records, lengths, num_masked


def _dynamic_records(
    pairs: segment_pairs.Pairs, token_ids: np.ndarray, tokenizer: Tokenizer
) -> _Encoded:
    """Encodes a batch of pairs without masks, A then B."""
    starts = np.stack([pairs.a_start, pairs.b_start], axis=1).ravel()
    lengths = np.stack([pairs.a_length, pairs.b_length], axis=1).ravel()
    borders = _starts(lengths)
    places = np.repeat(starts - borders[:-1], lengths) + np.arange(borders[-1])
    ids = token_ids[places]
    row_starts = borders[::2]
    records = example_codec.encode_examples(
        features.dynamic_pretraining_features(),
        {
            "pair_ids": example_codec.Ragged(ids, row_starts),
            "token_boundary": example_codec.Ragged(
                tokenizer.word_starts[ids], row_starts
            ),
            "segment_a_length": pairs.a_length[:, None],
            "pair_label": pairs.label[:, None],
        },
    )
    num_around = 2 + (pairs.b_length > 0)
    num_tokens = pairs.a_length + pairs.b_length
    num_tokens += num_around * tokenizer.special_ids.num_before
    return records, num_tokens, np.zeros(len(pairs))


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Returns where spans of these lengths start, and where the last ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
