import dataclasses

import pytest

from albert_tf.data import shards, sidecar
from albert_tf.data.build_summary import BuildCounts

MADE_BY = sidecar.Sidecar(
    masking="static",
    max_seq_length=128,
    max_predictions_per_seq=20,
    num_prediction_slots=20,
    pair_objective="sop",
    masked_lm_prob=0.15,
    ngram=3,
    favor_shorter_ngram=True,
    do_whole_word_mask=True,
    tokenizer_hash="abc",
    vocab_size=30000,
    special_ids={},
    forbidden_ids=[],
    flags={"dupe_factor": 40},
    counts={},
    num_bytes=0,
    sha256="",
)
COUNTS = BuildCounts(records=2, documents=1)


def finish(shard):
    with open(shard.path, "wb") as file:
        file.write(b"12345")
    sidecar.write(shard.path, shard.finished_sidecar(COUNTS, 5, "sum"))


@pytest.fixture
def shard(tmp_path):
    (shard,) = shards.plan_shards([str(tmp_path / "a")], 3, MADE_BY)
    return shard


def test_shards_get_neighbouring_blocks_and_all_of_them():
    planned = shards.plan_shards(["a", "b", "c"], 8, MADE_BY)

    assert [list(shard.blocks) for shard in planned] == [
        [0, 1],
        [2, 3, 4],
        [5, 6, 7],
    ]
    assert planned[1].made_by.flags == {"dupe_factor": 40, "blocks": [2, 5]}


def test_more_files_than_blocks_are_an_error():
    with pytest.raises(ValueError, match="Name at most 1. Received: 2 files"):
        shards.plan_shards(["a", "b"], 1, MADE_BY)


def test_a_file_named_twice_is_an_error():
    with pytest.raises(ValueError, match="named twice"):
        shards.plan_shards(["a", "./a"], 5, MADE_BY)


def test_a_shard_that_is_not_there_has_to_be_built(shard):
    assert shards.finished_counts(shard) is None


def test_a_finished_shard_tells_its_counts(shard):
    finish(shard)

    assert shards.finished_counts(shard) == COUNTS


def test_a_shard_of_another_size_is_built_again(shard, caplog):
    finish(shard)
    with open(shard.path, "wb") as file:
        file.write(b"123")

    assert shards.finished_counts(shard) is None
    assert "was cut short; it is built again" in caplog.text


def test_a_sidecar_without_its_file_is_no_finished_shard(shard):
    sidecar.write(shard.path, shard.finished_sidecar(COUNTS, 5, "sum"))

    assert shards.finished_counts(shard) is None


def test_a_file_that_no_sidecar_explains_is_not_overwritten(shard):
    with open(shard.path, "wb") as file:
        file.write(b"mine")

    with pytest.raises(ValueError, match="no sidecar says what made it"):
        shards.finished_counts(shard)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 512}, "max_seq_length is 128 there, 512 wanted"),
        ({"tokenizer_hash": "xyz"}, "tokenizer_hash is 'abc' there"),
        ({"flags": {"dupe_factor": 5}}, "dupe_factor is 40 there, 5 wanted"),
    ],
)
def test_a_shard_of_another_build_is_an_error_that_says_what_differs(
    shard, change, message
):
    finish(shard)
    made_by = dataclasses.replace(shard.made_by, **change)
    other = dataclasses.replace(shard, made_by=made_by)

    with pytest.raises(ValueError, match=f"{message}.*Remove it, or choose"):
        shards.finished_counts(other)
