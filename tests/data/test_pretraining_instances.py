import json

import numpy as np
import pytest
from scipy import stats

from albert_tf.data import (
    corpus,
    pretraining_config,
    pretraining_instances,
    record_files,
    segment_pairs,
)
from albert_tf.text.tokenizer import load_tokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    letters = [f"##{word[-1]}" for word in WORDS]
    path.write_text("\n".join([*SPECIALS, "word", *letters]) + "\n")
    return load_tokenizer(vocab_file=path)


def text_block(num_documents=6, num_sentences=9, number=0, seed=0):
    """Sentences of two to five words, two tokens a word."""
    rng = np.random.default_rng(seed)
    return corpus.Block(
        number=number,
        documents=[
            corpus.Document(
                text="\n".join(
                    " ".join(rng.choice(WORDS, rng.integers(2, 6)))
                    for _ in range(num_sentences)
                ),
                is_split=True,
            )
            for _ in range(num_documents)
        ],
    )


def config(**changes):
    values = {
        "max_seq_length": 24,
        "max_predictions_per_seq": 5,
        "dupe_factor": 3,
    }
    return pretraining_config.PretrainingDataConfig(**values | changes)


def build(tmp_path, block, tokenizer, settings):
    framed, counts = pretraining_instances.build_block(
        block, tokenizer, settings
    )
    path = tmp_path / "a.tf_record"
    path.write_bytes(framed)
    records = record_files.RecordFile(path).verified()
    return [record_files.decode_example(data) for data in records], counts


def original_ids(record):
    ids = record["input_ids"].copy()
    used = record["masked_lm_weights"] == 1
    ids[record["masked_lm_positions"][used]] = record["masked_lm_ids"][used]
    return ids


def test_rows_are_laid_out_with_special_tokens_and_padding(tokenizer):
    pairs = segment_pairs.Pairs(
        a_start=np.array([4, 0]),
        a_length=np.array([2, 3]),
        b_start=np.array([1, 0]),
        b_length=np.array([3, 0]),
        label=np.array([1, 0]),
    )

    rows = pretraining_instances.lay_out(
        pairs,
        np.array([10, 11, 12, 13, 14, 15], np.int32),
        tokenizer.special_ids,
        max_seq_length=9,
    )

    assert rows.input_ids.tolist() == [
        [2, 14, 15, 3, 11, 12, 13, 3, 0],
        [2, 10, 11, 12, 3, 0, 0, 0, 0],
    ]
    assert rows.segment_ids.tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert rows.is_maskable[0].tolist() == [0, 1, 1, 0, 1, 1, 1, 0, 0]
    assert rows.lengths.tolist() == [8, 5]


def test_sentences_and_documents_without_a_token_are_dropped(tokenizer):
    documents = [
        corpus.Document(text=text, is_split=True)
        for text in ("worda wordb\n\u200b\nwordc", "\u200b", "wordd")
    ]

    tokens = pretraining_instances.tokenize(
        corpus.Block(number=0, documents=documents), tokenizer
    )

    assert tokens.sentence_starts.tolist() == [0, 4, 6, 8]
    assert tokens.document_starts.tolist() == [0, 2, 3]


@pytest.mark.parametrize("permute", [False, True])
def test_static_records_agree_with_themselves(tmp_path, tokenizer, permute):
    settings = config(do_permutation=permute)
    records, counts = build(tmp_path, text_block(), tokenizer, settings)

    assert len(records) == counts.records > 0
    most = max(r["masked_lm_weights"].sum() for r in records)
    # Whole words of two tokens, 15% of 24; permutation adds as many.
    assert most == (8 if permute else 4)
    for record in records:
        length = record["input_mask"].sum()
        ids = original_ids(record)
        assert record["input_mask"][:length].all()
        assert ids[0] == 2 and ids[length - 1] == 3
        assert (ids[:length] == 3).sum() == 2
        middle = ids.tolist().index(3)
        assert record["segment_ids"].sum() == length - middle - 1
        assert not ids[length:].any()
        assert len(record["masked_lm_ids"]) == (10 if permute else 5)
        budget = round(0.15 * length) * (2 if permute else 1)
        assert record["masked_lm_weights"].sum() <= budget
    for count, name in (
        (counts.record_tokens, "input_mask"),
        (counts.masked_tokens, "masked_lm_weights"),
        (counts.label_1_records, "next_sentence_labels"),
    ):
        assert count == sum(r[name].sum() for r in records)


def test_boundaries_are_word_starts_and_special_tokens(tmp_path, tokenizer):
    records, _ = build(tmp_path, text_block(), tokenizer, config())

    for record in records:
        ids = original_ids(record)
        continues = ids > 5  # Ids after 5, `word`, are letters.
        expected = (record["input_mask"] == 1) & ~continues
        np.testing.assert_array_equal(record["token_boundary"], expected)


def test_half_of_the_order_labels_are_1_and_mean_swapped(tmp_path, tokenizer):
    block = corpus.Block(
        number=0,
        documents=[corpus.Document(text="worda\nwordb", is_split=True)],
    )
    records, counts = build(
        tmp_path,
        block,
        tokenizer,
        config(dupe_factor=1000, short_seq_prob=0.0),
    )

    assert abs(counts.label_1_records - 500) < 4 * np.sqrt(250)
    for record in records:
        first_letter = original_ids(record)[2]
        assert (first_letter == 7) == (record["next_sentence_labels"][0] == 1)


def test_single_segments_fill_the_row(tmp_path, tokenizer):
    settings = config(pair_objective="none", short_seq_prob=0.0)

    records, counts = build(tmp_path, text_block(), tokenizer, settings)

    full = [record["input_mask"].sum() == 24 for record in records]
    assert np.mean(full) > 0.7  # All but the ends of documents.
    assert counts.label_1_records == 0
    for record in records:
        assert (original_ids(record) == 3).sum() == 1
        assert not record["segment_ids"].any()


def test_dynamic_records_hold_the_pair_in_the_order_of_the_text(
    tmp_path, tokenizer
):
    block = text_block()
    settings = config(masking="dynamic", dupe_factor=1, short_seq_prob=0.0)

    records, counts = build(tmp_path, block, tokenizer, settings)

    text = pretraining_instances.tokenize(block, tokenizer).ids.tolist()
    assert counts.record_tokens == sum(len(r["pair_ids"]) + 3 for r in records)
    for record in records:
        ids, a_length = record["pair_ids"].tolist(), record["segment_a_length"]
        assert len(ids) <= 21
        a, b = ids[: a_length[0]], ids[a_length[0] :]
        assert a and b
        assert find(text, a, 0) <= find(text, b, len(a))
        np.testing.assert_array_equal(
            record["token_boundary"], record["pair_ids"] <= 5
        )
        assert record["pair_label"].tolist() == [0]


def find(text, part, start):
    for index in range(start, len(text)):
        if text[index : index + len(part)] == part:
            return index
    raise ValueError("not in the text")


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_records_are_a_function_of_block_and_seed(tokenizer, masking):
    block, settings = text_block(), config(masking=masking)

    first = pretraining_instances.build_block(block, tokenizer, settings)
    again = pretraining_instances.build_block(block, tokenizer, settings)
    elsewhere = pretraining_instances.build_block(
        text_block(number=1), tokenizer, settings
    )
    reseeded = pretraining_instances.build_block(
        block, tokenizer, config(masking=masking, random_seed=1)
    )

    assert first == again
    assert first[0] != elsewhere[0]
    assert first[0] != reseeded[0]


def test_a_block_without_tokens_has_no_records(tokenizer):
    block = corpus.Block(
        number=0, documents=[corpus.Document(text="\u200b", is_split=True)]
    )

    framed, counts = pretraining_instances.build_block(
        block, tokenizer, config()
    )

    assert framed == b"" and counts.documents == 0


# Against the original's output over other seeds: golden/README.md, section 6.


@pytest.fixture(scope="module")
def golden(shared_data):
    path = shared_data / "golden/pretraining_data/stats.json"
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def reference_columns(shared_data, tmp_path_factory):
    """Records built as the original builds them."""
    folder = tmp_path_factory.mktemp("records")
    return golden_records(shared_data, folder, reference_pairs=True)


def golden_records(shared_data, tmp_path, **changes):
    tokenizer = load_tokenizer(
        spm_model_file=shared_data / "data/spm/30k-clean.model"
    )
    text = shared_data / "golden/pretraining_data/corpus.txt"
    (block,) = corpus.read_blocks([str(text)])
    settings = pretraining_config.PretrainingDataConfig(
        max_seq_length=128, dupe_factor=2, **changes
    )
    records, _ = build(tmp_path, block, tokenizer, settings)
    return stack(records)


def stack(records):
    return {
        name: np.stack([record[name] for record in records])
        for name in records[0]
    }


def replacement_counts(columns):
    """Returns how many slots show [MASK], the original and another token."""
    used = columns["masked_lm_weights"] == 1
    row, _ = np.nonzero(used)
    shown = columns["input_ids"][row, columns["masked_lm_positions"][used]]
    is_mask, is_kept = shown == 4, shown == columns["masked_lm_ids"][used]
    return np.array([is_mask.sum(), is_kept.sum(), (~is_mask & ~is_kept).sum()])


def word_runs(columns):
    """Returns lengths of runs of masked words, and masked words by record."""
    runs, num_masked = [], []
    for index, weights in enumerate(columns["masked_lm_weights"]):
        positions = columns["masked_lm_positions"][index][weights == 1]
        ids = columns["input_ids"][index].copy()
        ids[positions] = 4
        is_text = (columns["input_mask"][index] == 1) & (ids != 2) & (ids != 3)
        hidden = np.isin(np.arange(len(ids)), positions)[is_text]
        word = np.cumsum(columns["token_boundary"][index][is_text])
        masked_words = np.unique(word[hidden])
        breaks = np.nonzero(np.diff(masked_words) > 1)[0]
        runs += np.diff([0, *(breaks + 1), len(masked_words)]).tolist()
        num_masked.append(len(masked_words))
    return np.array(runs), np.array(num_masked)


def run_shares(runs):
    counts = np.bincount(np.minimum(runs, 6), minlength=7)[1:]
    return counts / counts.sum()


def statistics(columns):
    lengths = columns["input_mask"].sum(axis=1)
    b_lengths = columns["segment_ids"].sum(axis=1) - 1
    num_masked = columns["masked_lm_weights"].sum(axis=1)
    replaced = replacement_counts(columns)
    runs, masked_words = word_runs(columns)
    shares = run_shares(runs)
    return {
        "num_instances": len(lengths),
        "tokens_non_padding": lengths.sum(),
        "length_mean": lengths.mean(),
        "length_sd": lengths.std(),
        "fraction_full_length": (lengths == 128).mean(),
        "label1_fraction": columns["next_sentence_labels"].mean(),
        "segment_a_mean": (lengths - b_lengths - 3).mean(),
        "segment_b_mean": b_lengths.mean(),
        "predictions_mean": num_masked.mean(),
        "fraction_masked": num_masked.sum() / lengths.sum(),
        "fraction_at_cap_20": (num_masked == 20).mean(),
        "replaced_by_mask": replaced[0] / replaced.sum(),
        "kept": replaced[1] / replaced.sum(),
        "replaced_by_random": replaced[2] / replaced.sum(),
        "masked_words_per_instance": masked_words.mean(),
        **{f"run_of_{k}_words": shares[k - 1] for k in range(1, 6)},
        "run_of_6_or_more_words": shares[5],
        "mean_run_words": runs.mean(),
        "fraction_start_pieces": columns["token_boundary"].sum()
        / lengths.sum(),
    }


def test_the_statistics_are_measured_as_the_recorded_ones(shared_data, golden):
    path = shared_data / "golden/pretraining_data/original.tf_record"
    records = map(
        record_files.decode_example, record_files.RecordFile(path).verified()
    )

    measured = statistics(stack(list(records)))

    assert measured == pytest.approx(golden["this_file"])


def test_every_statistic_is_within_4_deviations_of_the_original(
    reference_columns, golden
):
    measured = statistics(reference_columns)

    assert measured.keys() == golden["twenty_other_seeds"].keys()
    for name, recorded in golden["twenty_other_seeds"].items():
        deviation = abs(measured[name] - recorded["mean"])
        assert deviation <= 4 * recorded["sd"], name


def test_statistics_of_masks_do_not_depend_on_the_pairs(
    tmp_path, shared_data, golden
):
    measured = statistics(golden_records(shared_data, tmp_path))

    for name, recorded in golden["twenty_other_seeds"].items():
        if name.startswith(("run_", "replaced_", "kept", "fraction_masked")):
            deviation = abs(measured[name] - recorded["mean"])
            assert deviation <= 4 * recorded["sd"], name
    # Differs: no pairs of a lone sentence, so labels are balanced.
    num_records = measured["num_instances"]
    assert abs(measured["label1_fraction"] - 0.5) < 2 / np.sqrt(num_records)


def test_replacements_and_runs_of_masked_words_pass_a_chi_squared_test(
    reference_columns, golden
):
    replaced = replacement_counts(reference_columns)
    expected = np.array([0.8, 0.1, 0.1]) * replaced.sum()
    assert stats.chisquare(replaced, expected).pvalue > 1e-3

    runs, _ = word_runs(reference_columns)
    recorded = golden["twenty_other_seeds"]
    names = [f"run_of_{k}_words" for k in range(1, 6)]
    shares = [recorded[name]["mean"] for name in names]
    expected = np.array([*shares, 1 - sum(shares)]) * len(runs)
    counts = run_shares(runs) * len(runs)
    assert stats.chisquare(counts, expected).pvalue > 1e-3
