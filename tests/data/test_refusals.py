"""What building and reading records refuse: inputs and messages."""

import os
import sys

import pytest

from albert_tf.data import (
    builder,
    corpus,
    deduplication,
    record_columns,
    record_source,
    shard_building,
)
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.shards import BuildCounts
from albert_tf.features import ArraySpec
from albert_tf.text.documents import CorpusSettings
from tests import tiny
from tests.data.records import dynamic_record, static_record


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"masking": "none"}, "`masking` must be"),
        ({"pair_objective": "order"}, "`pair_objective` must be"),
        ({"runner": "cluster"}, "`runner` must be"),
        ({"deduplicate": "all"}, "`deduplicate` must be"),
        ({"max_seq_length": 7}, "`max_seq_length` must be"),
        ({"max_predictions_per_seq": 510}, "at most 509. Received"),
        ({"masked_lm_prob": 0}, "`masked_lm_prob` must be"),
        ({"masked_lm_prob": float("nan")}, "`masked_lm_prob` must be"),
        ({"short_seq_prob": 1.5}, "`short_seq_prob` must be"),
        ({"ngram": 0}, "`ngram` must be"),
        ({"dupe_factor": 0}, "`dupe_factor` must be"),
        ({"num_workers": 0}, "`num_workers` must be"),
        ({"random_seed": -1}, "`random_seed` must be"),
        ({"runner": "beam", "num_workers": 2}, "`num_workers` must be 1"),
        ({"masking": "dynamic", "do_permutation": True}, "`do_permutation` n"),
        ({"pair_objective": "nsp", "reference_pairs": True}, "changes senten"),
        ({"reference_pairs": True, "keep_more_text": True}, "excludes `keep_m"),
        ({"pair_objective": "none", "keep_more_text": False}, "never cut off"),
        ({"pair_objective": "sop", "random_next_sentence": True}, "means pai"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        PretrainingDataConfig(**settings)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("y,y.json", "'y.json' has the name of a folder, a sidecar"),
        ("y.partial", "'y.partial' has the name of"),
        ("new/", "'new/' has the name of a folder"),
        ("y,./y", "named twice"),
        ("folder/y,link/y", "named twice"),
        ("gs://b/z,gs://b/z", "named twice"),
    ],
)
def test_output_files_that_cannot_be_written(
    tmp_path, monkeypatch, names, message
):
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    os.symlink("folder", "link")

    with pytest.raises(ValueError, match=message):
        shard_building.output_files(PretrainingDataConfig(output_file=names))


@pytest.mark.parametrize("text", ["", "a", "2-1", "1-", "1,,2", "2-4"])
def test_shards_that_do_not_exist(text):
    config = PretrainingDataConfig(shards=text)

    with pytest.raises(ValueError, match="`shards` must be .* up to 3"):
        shard_building.chosen(config, [*"0123"])


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        ("a b", {"output_file": None}, "`output_file` must be given"),
        ("a b", {"input_file": None}, "`input_file` must be given"),
        ("a b", {"vocab_file": None}, "No vocabulary is given"),
        ("\n\n \n", {}, r"has no sentence: .*text"),
        ("a b\n", {}, "1 sentences: a pair needs two.*`keep_more_text`"),
        ("a b\n\nb\n", {}, "2 sentences: a pair needs two"),
    ],
)
def test_files_that_cannot_be_built(tmp_path, content, changes, message):
    (tmp_path / "text").write_text(content)
    settings = {
        "input_file": f"{tmp_path}/text",
        "output_file": f"{tmp_path}/out@2",
        "vocab_file": tiny.write_vocabulary(tmp_path / "vocab", "ab"),
    }

    with pytest.raises(ValueError, match=message):
        builder.build(PretrainingDataConfig(**settings | changes))

    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([static_record(9)], {"num_bytes": 7}, "a' has .* sidecar says 7 and"),
        (
            [static_record(9)],
            {"counts": BuildCounts(records=2)},
            "1 records, but its sidecar says .* and 2",
        ),
        ([dynamic_record(9)], {"with_sidecar": False}, "'input_ids' has 0"),
        (
            [static_record(9) | {"segment_ids": [0] * 7}],
            {"with_sidecar": False},
            "'segment_ids' has 7.*expected 8",
        ),
        ([], {}, "no record in .*a'"),
    ],
)
def test_record_files_that_are_not_what_they_should_be(
    write_records, records, options, message
):
    path = write_records("a", records, **options)

    with pytest.raises(ValueError, match=message):
        record_source.open_records(path)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([8], r"lengths 8 \(.*a\), 16 \(.*c\); the phases read 8\. Name"),
        ([8, 16, 32], r"the phases read 8, 16, 32\. Name"),
    ],
)
def test_lengths_that_files_do_not_have(
    write_records, tmp_path, lengths, message
):
    write_records("a", [static_record(20)])
    long = static_record(30, max_seq_length=16)
    write_records("c", [long], with_sidecar=False)

    with pytest.raises(ValueError, match=message):
        record_source.open_by_length(str(tmp_path / "*"), lengths)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "The examples give no record"),
        ([{"x": [], "y": []}], "Record 0 has .* 1 to max_seq_length=7"),
        ([{"x": [1] * 3, "y": [1] * 4}], "Record 0 has .*3, 4"),
    ],
)
def test_records_that_cannot_be_collected(records, message):
    specs = [
        ArraySpec(name=name, dtype="int32", is_sequence=True) for name in "xy"
    ]

    with pytest.raises(ValueError, match=message):
        record_columns.collect(records, tuple(specs), max_seq_length=7)


def test_an_empty_corpus_names_few_files(tmp_path):
    paths = [str(tmp_path / f"{number:02}.txt") for number in range(20)]
    for path in paths:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n \n")

    with pytest.raises(ValueError, match=r"has no sentence: .* and 17 more"):
        corpus.survey(paths, CorpusSettings())


def test_a_missing_package(monkeypatch):
    deduplication._bands.cache_clear()
    monkeypatch.setitem(sys.modules, "datasketch", None)

    with pytest.raises(ImportError, match="'minhash' needs .* datasketch"):
        deduplication.Deduplicator("minhash")
