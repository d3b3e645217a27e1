import hashlib
import itertools
import os
import pathlib
import resource
import subprocess
import sys

import pytest

from albert_tf import files
from albert_tf.data import (
    builder,
    corpus,
    pretraining_instances,
    record_files,
    record_source,
    shards,
)
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.shards import BuildCounts
from tests import tiny
from tests.data.records import LETTERS, twelve_documents
from tests.text import tokenizer_files


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    tiny.write_vocabulary(path, [*LETTERS, ""])
    return path


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Twelve documents in blocks of two."""
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 100)
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(twelve_documents()) + "\n")
    return path


@pytest.fixture
def build(vocab_file, text, tmp_path):
    """Builds into files of these names, with these settings."""

    def run(*names, **changes):
        settings = {
            "input_file": str(text),
            "output_file": ",".join(str(tmp_path / name) for name in names),
            "vocab_file": str(vocab_file),
            "max_seq_length": 24,
            "max_predictions_per_seq": 4,
            "dupe_factor": 2,
        }
        return builder.build(PretrainingDataConfig(**settings | changes))

    return run


def test_several_files_hold_together_what_one_file_holds(build, tmp_path):
    build("whole")
    build(*"abcd")

    parts = b"".join((tmp_path / name).read_bytes() for name in "abcd")
    assert parts == (tmp_path / "whole").read_bytes()
    # 6 blocks, evenly and in order.
    blocks = [shards.read(tmp_path / name).blocks for name in "abcd"]
    assert blocks == [[0, 1], [1, 3], [3, 4], [4, 6]]


def test_the_sidecar_says_what_made_the_file(build, tmp_path, vocab_file):
    report = build("out", random_seed=7)

    shard = shards.read(tmp_path / "out")
    content = (tmp_path / "out").read_bytes()
    assert shard.config == report.config.record_settings()
    assert shard.origin["vocab_file"] == str(vocab_file)
    assert shard.num_bytes == len(content)
    assert shard.sha256 == hashlib.sha256(content).hexdigest()
    assert shard.tokenizer_hash == report.config.load_tokenizer().fingerprint
    assert shard.special_ids.mask == 4
    num_records = len(record_files.RecordFile(tmp_path / "out"))
    counts = report.counts
    assert shard.counts.records == num_records == counts.records
    assert (counts.documents, counts.sentences) == (12, 48)
    assert counts.tokens == 48 * 8
    assert shard.config["random_seed"] == 7


# Six shards of whole blocks, and shards that are parts of blocks.
@pytest.mark.parametrize("num_files", [6, 15])
def test_finished_files_are_kept_and_the_others_are_built(
    build, tmp_path, num_files
):
    names = [f"part-{number:02}" for number in range(num_files)]
    first = build(*names)
    paths = [tmp_path / name for name in names]
    contents = [path.read_bytes() for path in paths]
    written = [path.stat().st_mtime_ns for path in paths]
    # A sidecar without its file is no finished file.
    paths[0].unlink()
    # One that was cut short, and one that has lost its index.
    paths[2].write_bytes(contents[2][:-1])
    (tmp_path / f"{names[3]}.index").unlink()

    again = build(*names, num_workers=2)

    assert [path.read_bytes() for path in paths] == contents
    assert again.counts == first.counts
    kept = [1, *range(4, num_files)]
    assert again.kept_files == tuple(str(paths[number]) for number in kept)
    for number in kept:
        assert paths[number].stat().st_mtime_ns == written[number]
    assert 0 < again.built.records < first.built.records


def test_a_stopped_build_leaves_whole_files_and_goes_on(
    build, tmp_path, monkeypatch
):
    build("a_whole", "b_whole")
    build_block = pretraining_instances.build_block

    def stop_at_block_4(block, **rest):
        if block.number == 4:
            raise KeyboardInterrupt
        return build_block(block, **rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pretraining_instances, "build_block", stop_at_block_4)
        build("a", "b")
    assert (tmp_path / "a").exists()
    assert not [path for path in tmp_path.iterdir() if path.name[0:2] == "b."]

    build("a", "b")

    for name in "ab":
        whole = (tmp_path / f"{name}_whole").read_bytes()
        assert (tmp_path / name).read_bytes() == whole


def test_a_full_disk_is_an_error_that_names_the_file(build, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            build("out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert caught.value.filename.startswith(str(tmp_path / "out"))
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("changes", "file", "message"),
    [
        ({"ngram": 2}, None, r"ngram=3 \(now 2\)"),
        ({"max_seq_length": 32}, None, r"max_seq_length=24 \(now 32\)"),
        # Other files of the same size.
        ({}, "corpus.txt", "corpus_sha256="),
        ({}, "vocab.txt", "tokenizer_hash="),
    ],
)
def test_a_file_of_another_build_is_not_overwritten(
    build, tmp_path, changes, file, message
):
    build("out")
    content = (tmp_path / "out").read_bytes()
    if file:
        letters = str.maketrans("ab", "ba")
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text.translate(letters))

    with pytest.raises(ValueError, match=f"{message}.*Choose another"):
        build("out", **changes)

    assert (tmp_path / "out").read_bytes() == content


def test_two_builds_of_the_same_file_do_not_meet(build, tmp_path, monkeypatch):
    build("whole")
    build_block = pretraining_instances.build_block
    errors = []

    def start_another(block, **rest):
        if block.number == 2:
            with pytest.raises(ValueError, match="is building .*/out'") as e:
                build("out", random_seed=2)
            errors.append(e)
        return build_block(block, **rest)

    monkeypatch.setattr(pretraining_instances, "build_block", start_another)
    build("out")

    assert len(errors) == 1
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not [name for name in os.listdir(tmp_path) if "lock" in name]


def records(path):
    """The records of a file, sorted."""
    source = record_source.open_records(str(path))
    return sorted(source.get(range(source.num_records)))


@pytest.mark.parametrize("end", ["", "a b c d\n" * 200])
def test_a_corpus_that_changes_while_it_is_read_is_an_error(
    build, tmp_path, text, monkeypatch, end
):
    survey = corpus.survey

    def change_afterwards(*found, **options):
        contents = survey(*found, **options)
        text.write_text(text.read_text()[:200] + end)
        return contents

    monkeypatch.setattr(corpus, "survey", change_afterwards)

    with pytest.raises(ValueError, match="was changed while it was read"):
        build("out")

    assert not list(tmp_path.glob("out*"))


def test_records_are_built_where_there_is_no_tensorflow(
    text, vocab_file, tmp_path
):
    absent = ("tensorflow", "keras", "apache_beam", "scipy", "sklearn")
    code = (
        "import runpy, sys; script = sys.argv.pop(1); "
        f"sys.modules.update(dict.fromkeys({absent})); "
        "runpy.run_path(script, run_name='__main__')"
    )
    script = pathlib.Path(__file__).parents[2] / "create_pretraining_data.py"
    arguments = [
        *(str(script), f"--input_file={text}", f"--vocab_file={vocab_file}"),
        *(f"--output_file={tmp_path}/out", "--masking=dynamic"),
    ]

    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True
    )

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out.json").exists()


def test_a_record_file_appears_when_its_index_is_there(
    build, tmp_path, monkeypatch
):
    seen = []
    replace = os.replace

    def note(source, target):
        replace(source, target)
        if str(target) == str(tmp_path / "a"):
            seen.extend(path.name for path in tmp_path.glob("a*"))

    monkeypatch.setattr(files.os, "replace", note)
    build("a")

    assert sorted(seen) == ["a", "a.index", "a.json"]


PARAGRAPH = " ".join("abcd" * 8)
MORE_TEXT = {"keep_more_text": True}


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        # 4 of 9.
        ("a b c d x\nx x x a\n", {}, "44.4% of the tokens are unknown"),
        # 3 of 20 tokens are masked in rows of 24, where 15% are asked for.
        (None, {"max_predictions_per_seq": 1}, "Full records need 4"),
        (None, MORE_TEXT, None),
        (None, {"max_predictions_per_seq": 1, "masking": "dynamic"}, None),
        # Paragraphs of 32 tokens.
        (f"{PARAGRAPH}\n{PARAGRAPH}\na b\nc d\n", {}, "is in no record. Put"),
        (f"{PARAGRAPH}\n{PARAGRAPH}\n", MORE_TEXT, None),
        (
            "a b c d\n\n" * 9 + "a b\nc d\n",
            {"masking": "dynamic"},
            "90.0% of the text is in no record. Documents of a single sentence",
        ),
        (
            "a b c d\nb c\nd a a\n" * 5,
            {"pair_objective": "nsp"},
            "100.0% of the tokens are in a file, or in the rest of one, with a",
        ),
        ("a b c d\nb c\nd a a\n" * 5, {}, None),
        # What other formats put between documents.
        *(
            (f"a b c d\nb c\n{mark}\n" * 5, {}, f"Lines such as {mark!r:.9}")
            for mark in ("* * *", "=====", "<|endoftext|>", "</doc>")
        ),
        ("a b c d\nb c\n<doc id='1'>\n" * 5, {}, "a blank line, not a mark"),
        (f"{'a b ' * 5000}\n", {"masking": "dynamic"}, "Put one sentence on a"),
    ],
)
def test_records_that_train_badly_are_warned_of(
    build, tmp_path, caplog, text, content, changes, message
):
    if content:
        text.write_text(content)

    build("out", **changes)

    if message is None:
        assert not caplog.text
    else:
        assert message in caplog.text


def test_symbols_that_lower_cased_text_never_has_are_named(
    build, tiny_corpus, tmp_path, caplog
):
    path = tokenizer_files.train_with_bytes(
        tmp_path / "p.model",
        tiny_corpus.read_text().splitlines(),
        vocab_size=500,
        normalization_rule_name="nmt_nfkc_cf",
        user_defined_symbols="[URL],<user>",
    )
    model = {"spm_model_file": path, "vocab_file": None}

    build("lower", **model)
    assert "Lower-cased text never has the symbols [URL]." in caplog.text

    caplog.clear()
    build("cased", do_lower_case=False, **model)
    assert "symbols" not in caplog.text


COUNTS = BuildCounts(
    documents=3,
    sentences=1200,
    records=400,
    tokens=20_000,
    unknown_tokens=50,
    lone_tokens=2_500,
    masked_tokens=6_000,
    tokens_left_out=80_000,
    record_tokens=40_000,
    chunks_without_pair=7,
    label_1_records=190,
)


def summary(settings=None, **facts):
    """The lines of a printed report, by name."""
    report = builder.BuildReport(
        config=PretrainingDataConfig(max_seq_length=128, **settings or {}),
        counts=COUNTS,
        seconds=2.0,
        **{"built": COUNTS, "kept_files": (), "num_bad_lines": 0} | facts,
    )
    pairs = (line.partition("  ") for line in str(report).splitlines())
    return {name: value.strip() for name, _, value in pairs}


def test_the_summary_of_a_static_build():
    assert summary() == {
        "documents": "3",
        "sentences": "1,200",
        "tokens": "20,000",
        "unknown tokens": "0.25%",
        "tokens left out": "80,000 of 40 copies (10.0%)",
        "records": "400",
        "chunks without a pair": "7",
        "label 1": "47.5%",
        "mean length": "100.0 of 128",
        "padding": "21.9%",  # 1 - 100 / 128
        "masked tokens": "15.0%",
        "tokens a second": "10,000 read, 20,000 written",
    }


def test_more_files_than_blocks_share_the_records(build, tmp_path):
    build("whole")
    names = [f"part-{number:02}" for number in range(15)]

    report = build(*names, num_workers=2)

    members = [shards.read(tmp_path / name) for name in names]
    # 6 blocks: two files, three files, ...
    assert [(shard.blocks, shard.part) for shard in members[:5]] == [
        ([0, 1], [0, 2]),
        ([0, 1], [1, 2]),
        ([1, 2], [0, 3]),
        ([1, 2], [1, 3]),
        ([1, 2], [2, 3]),
    ]
    dealt = [records(tmp_path / name) for name in names]
    whole = records(tmp_path / "whole")
    assert sorted(itertools.chain(*dealt)) == whole
    assert min(map(len, dealt)) > 0
    assert report.counts == shards.read(tmp_path / "whole").counts
    assert report.counts.documents == 12


def test_the_summary_of_other_builds():
    settings = {"masking": "dynamic", "dupe_factor": 4}
    dynamic = summary(settings, num_bad_lines=3)
    assert dynamic["tokens left out"] == "80,000 of 4 copies (100.0%)"
    assert dynamic["bad lines skipped"] == "3"
    assert dynamic["label 1"] == "half, drawn when read"
    assert dynamic["masked tokens"] == "drawn when read"

    nsp = summary({"pair_objective": "nsp"}, kept_files=("a", "b"))
    assert nsp["lone documents"] == "12.5% of the tokens"
    assert nsp["b is finished; it is kept"] == ""

    single = summary({"pair_objective": "none"}, built=BuildCounts())
    assert single["label 1"] == "no pairs"
    assert single["tokens a second"] == "nothing to build"


def test_the_summary_says_how_many_words_only_accents_tell_apart(text, build):
    assert not build("none").merged_share
    # With the accents, c alone is left.
    text.write_text("a b á\nb̂ c Ｃ\n" * 5)

    report = build("some")

    assert report.merged_share == 4 / 5
    assert "merged by accents      80.0% of words" in str(report)
