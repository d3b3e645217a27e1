import dataclasses
import hashlib
import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.data import (
    builder,
    corpus,
    pretraining_config,
    pretraining_instances,
    record_files,
    sidecar,
)
from albert_tf.data.sidecar import BuildCounts

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
    (shard,) = builder.plan_shards([str(tmp_path / "a")], 3, MADE_BY)
    return shard


def test_shards_get_neighbouring_blocks_and_all_of_them():
    planned = builder.plan_shards(["a", "b", "c"], 8, MADE_BY)

    assert [list(shard.blocks) for shard in planned] == [
        [0, 1],
        [2, 3, 4],
        [5, 6, 7],
    ]
    assert planned[1].made_by.flags == {"dupe_factor": 40, "blocks": [2, 5]}


def test_more_files_than_blocks_are_an_error():
    with pytest.raises(ValueError, match="Name at most 1. Received: 2 files"):
        builder.plan_shards(["a", "b"], 1, MADE_BY)


def test_a_file_named_twice_is_an_error():
    with pytest.raises(ValueError, match="named twice"):
        builder.plan_shards(["a", "./a"], 5, MADE_BY)


def test_a_shard_that_is_not_there_has_to_be_built(shard):
    assert builder.finished_counts(shard) is None


def test_a_finished_shard_tells_its_counts(shard):
    finish(shard)

    assert builder.finished_counts(shard) == COUNTS


def test_a_shard_of_another_size_is_built_again(shard, caplog):
    finish(shard)
    with open(shard.path, "wb") as file:
        file.write(b"123")

    assert builder.finished_counts(shard) is None
    assert "was cut short; it is built again" in caplog.text


def test_a_sidecar_without_its_file_is_no_finished_shard(shard):
    sidecar.write(shard.path, shard.finished_sidecar(COUNTS, 5, "sum"))

    assert builder.finished_counts(shard) is None


def test_a_file_that_no_sidecar_explains_is_not_overwritten(shard):
    with open(shard.path, "wb") as file:
        file.write(b"mine")

    with pytest.raises(ValueError, match="no sidecar says what made it"):
        builder.finished_counts(shard)


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
        builder.finished_counts(other)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n")
    return pretraining_config.Vocabulary(vocab_file=str(path))


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Twelve documents of about 60 characters, in blocks of two."""
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 100)
    rng = np.random.default_rng(0)
    path = tmp_path / "corpus.txt"
    documents = [
        "\n".join(" ".join(rng.choice(list("abcd"), 8)) for _ in range(4))
        for _ in range(12)
    ]
    path.write_text("\n\n".join(documents) + "\n")
    return path


@pytest.fixture
def build(vocabulary, text, tmp_path):
    """Builds into files of these names, with these settings."""

    def run(*names, num_workers=1, input_files=None, **changes):
        settings = {
            "max_seq_length": 24,
            "max_predictions_per_seq": 4,
            "dupe_factor": 2,
        }
        return builder.build(
            config=pretraining_config.PretrainingDataConfig(
                **settings | changes
            ),
            vocabulary=vocabulary,
            input_files=str(input_files or text),
            output_files=[str(tmp_path / name) for name in names],
            num_workers=num_workers,
        )

    return run


def test_any_number_of_workers_writes_the_same_bytes(build, tmp_path):
    build("one")
    build("two", num_workers=2)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_several_files_hold_together_what_one_file_holds(build, tmp_path):
    build("whole")
    build("a", "b", "c")

    parts = b"".join((tmp_path / name).read_bytes() for name in "abc")
    assert parts == (tmp_path / "whole").read_bytes()
    assert all((tmp_path / name).stat().st_size for name in "abc")


def test_the_sidecar_says_what_made_the_file(build, tmp_path, vocabulary):
    report = build("out", random_seed=7)

    made_by = sidecar.read(tmp_path / "out")
    content = (tmp_path / "out").read_bytes()
    assert made_by.num_bytes == len(content)
    assert made_by.sha256 == hashlib.sha256(content).hexdigest()
    assert made_by.tokenizer_hash == vocabulary.load().hash
    assert made_by.special_ids["mask"] == 4
    assert made_by.flags["random_seed"] == 7
    assert made_by.flags["corpus_files"][0][0] == "corpus.txt"
    offsets, _ = record_files.index_records(tmp_path / "out")
    assert made_by.counts["records"] == len(offsets) == report.counts.records
    assert report.counts.documents == 12
    assert report.counts.sentences == 48
    assert report.counts.tokens == 48 * 8


def test_finished_files_are_kept(build, tmp_path):
    first = build("a", "b")
    written = (tmp_path / "a").stat().st_mtime_ns
    (tmp_path / "b").unlink()

    again = build("a", "b")

    assert (tmp_path / "a").stat().st_mtime_ns == written
    assert again.counts == first.counts
    assert again.kept_files == (str(tmp_path / "a"),)
    assert 0 < again.built.records < first.built.records


def test_a_stopped_build_leaves_whole_files_and_goes_on(
    build, tmp_path, monkeypatch
):
    build("a_whole", "b_whole")
    build_block = pretraining_instances.build_block

    def stop_at_block_4(block, *rest):
        if block.number == 4:
            raise KeyboardInterrupt
        return build_block(block, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pretraining_instances, "build_block", stop_at_block_4)
        build("a", "b")
    assert (tmp_path / "a").exists()
    assert not [path for path in tmp_path.iterdir() if path.name[0:2] == "b."]

    build("a", "b")

    for name in "ab":
        whole = (tmp_path / f"{name}_whole").read_bytes()
        assert (tmp_path / name).read_bytes() == whole


def test_a_file_of_another_build_is_not_overwritten(build, tmp_path):
    build("out")
    content = (tmp_path / "out").read_bytes()

    with pytest.raises(ValueError, match="ngram is 3 there, 2 wanted"):
        build("out", ngram=2)

    assert (tmp_path / "out").read_bytes() == content


def test_a_corpus_that_changed_is_another_build(build, text):
    build("out")
    text.write_text(text.read_text() + "a b c\n")

    with pytest.raises(ValueError, match="corpus_files is"):
        build("out")


def test_a_full_disk_is_an_error_that_names_the_file(build, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            build("out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert caught.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("content", ["", "\n\n \n"])
def test_an_empty_corpus_is_an_error(build, tmp_path, content):
    empty = tmp_path / "empty.txt"
    empty.write_text(content)

    with pytest.raises(ValueError, match=r"has no sentence: .*empty\.txt"):
        build("out", input_files=empty)


def test_a_corpus_of_one_sentence_has_no_pair(build, tmp_path):
    lonely = tmp_path / "lonely.txt"
    lonely.write_text("a b c d\n")

    with pytest.raises(ValueError, match="1 sentences: a pair needs two"):
        build("out", input_files=lonely)

    assert not list(tmp_path.glob("out*"))


def test_a_corpus_of_one_sentence_is_enough_without_pairs(build, tmp_path):
    lonely = tmp_path / "lonely.txt"
    lonely.write_text("a b c d\n")

    report = build("out", input_files=lonely, pair_objective="none")

    assert report.counts.records == 2


def test_more_files_than_the_corpus_has_blocks_are_an_error(build):
    with pytest.raises(ValueError, match="Name at most 6. Received: 7 files"):
        build(*"abcdefg")


@pytest.mark.parametrize(("names", "num_workers"), [((), 1), (("out",), 0)])
def test_a_build_needs_a_worker_and_an_output(build, names, num_workers):
    with pytest.raises(ValueError, match="at least one worker and one output"):
        build(*names, num_workers=num_workers)


def test_many_unknown_tokens_are_warned_of(build, tmp_path, caplog):
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("a b c d x\nx x x a\n")

    build("out", input_files=foreign)

    # 4 of 9.
    assert "44.4% of the tokens are unknown" in caplog.text


def test_nothing_on_the_way_imports_tensorflow():
    code = (
        "import sys, albert_tf.data.builder; "
        "print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.split() == ["False", "False"]


def test_the_sidecar_is_readable_json(build, tmp_path):
    build("out")

    values = json.loads((tmp_path / "out.json").read_text())

    assert values["flags"]["blocks"] == [0, 6]


def test_the_sidecar_says_where_the_vocabulary_lay(build, vocabulary, tmp_path):
    build("one")

    flags = sidecar.read(tmp_path / "one").flags
    assert flags["vocab_file"] == vocabulary.vocab_file
    assert flags["spm_model_file"] is None
