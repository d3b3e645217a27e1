import hashlib
import itertools
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

import numpy as np
import pytest

from albert_tf import files
from albert_tf.data import (
    builder,
    corpus,
    pretraining_instances,
    record_files,
    record_index,
    record_source,
    shards,
    sidecar,
)
from albert_tf.data.pretraining_config import PretrainingDataConfig
from tests.text import text_files

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return path


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


def test_any_number_of_workers_writes_the_same_bytes(build, tmp_path):
    build("one")
    build("two", num_workers=2)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("name", text_files.NAMES)
def test_the_same_text_in_any_format_makes_the_same_records(
    build, text, tmp_path, name
):
    texts = [
        document.replace("\n", "! ").upper() + "!"
        for document in text.read_text().strip().split("\n\n")
    ]
    text_files.write(tmp_path / "plain.jsonl", texts)
    text_files.write(tmp_path / name, texts)

    build("expected", input_file=str(tmp_path / "plain.jsonl"))
    report = build("out", input_file=str(tmp_path / name))

    assert report.counts.documents == 12
    expected = (tmp_path / "expected").read_bytes()
    assert (tmp_path / "out").read_bytes() == expected
    digests = [
        sidecar.read(tmp_path / made).corpus_sha256
        for made in ("expected", "out")
    ]
    assert digests[0] == digests[1]


def test_several_files_hold_together_what_one_file_holds(build, tmp_path):
    build("whole")
    build(*"abcd")

    parts = b"".join((tmp_path / name).read_bytes() for name in "abcd")
    assert parts == (tmp_path / "whole").read_bytes()
    # 6 blocks, evenly and in order.
    blocks = [sidecar.read(tmp_path / name).blocks for name in "abcd"]
    assert blocks == [[0, 1], [1, 3], [3, 4], [4, 6]]


def test_the_sidecar_says_what_made_the_file(build, tmp_path, vocab_file):
    report = build("out", random_seed=7)

    made_by = sidecar.read(tmp_path / "out")
    content = (tmp_path / "out").read_bytes()
    assert made_by.config == report.config
    assert made_by.config.vocab_file == str(vocab_file)
    assert made_by.num_bytes == len(content)
    assert made_by.sha256 == hashlib.sha256(content).hexdigest()
    assert made_by.tokenizer_hash == report.config.load_tokenizer().hash
    assert made_by.special_ids.mask == 4
    assert made_by.corpus_files[0][0] == "corpus.txt"
    num_records = len(record_files.RecordFile(tmp_path / "out"))
    assert made_by.counts.records == num_records == report.counts.records
    assert report.counts.documents == 12
    assert report.counts.sentences == 48
    assert report.counts.tokens == 48 * 8
    values = json.loads((tmp_path / "out.json").read_text())
    assert values["config"]["random_seed"] == 7


def test_a_file_in_place_of_an_index_is_refused_before_anything_is_built(
    build, tmp_path
):
    (tmp_path / "b.index").write_text("mine")

    with pytest.raises(ValueError, match="b.index' exists already.*not the"):
        build("a", "b")

    assert (tmp_path / "b.index").read_text() == "mine"
    assert not (tmp_path / "a").exists()


def test_finished_files_are_kept(build, tmp_path):
    first = build("a", "b")
    written = (tmp_path / "a").stat().st_mtime_ns
    # A sidecar without its file is no finished file.
    (tmp_path / "b").unlink()

    again = build("a", "b", num_workers=2)

    assert (tmp_path / "a").stat().st_mtime_ns == written
    assert again.counts == first.counts
    assert again.kept_files == (str(tmp_path / "a"),)
    assert 0 < again.built.records < first.built.records


def test_files_on_both_sides_of_a_finished_one_are_built(build, tmp_path):
    build(*"abc")
    whole = [(tmp_path / name).read_bytes() for name in "abc"]
    for name in "ac":
        (tmp_path / name).unlink()

    build(*"abc")

    assert [(tmp_path / name).read_bytes() for name in "abc"] == whole


def test_a_file_that_was_cut_short_is_built_again(build, tmp_path, caplog):
    build("out")
    whole = (tmp_path / "out").read_bytes()
    (tmp_path / "out").write_bytes(whole[:-1])

    build("out")

    assert "was cut short; building it again" in caplog.text
    assert (tmp_path / "out").read_bytes() == whole


def test_a_file_that_has_lost_its_index_is_built_again(build, tmp_path, caplog):
    build("out")
    index = tmp_path / "out.index"
    whole = index.read_bytes()
    index.unlink()

    build("out")

    assert "has lost its index; building it again" in caplog.text
    assert index.read_bytes() == whole


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

    assert caught.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ngram": 2}, "ngram is 3 there, 2 here"),
        ({"max_seq_length": 32}, "max_seq_length is 24 there, 32 here"),
        ({"corpus": "a b c\na b\n"}, "corpus_sha256 is"),
        ({"vocabulary": "e\n"}, "tokenizer_hash is"),
        ({"sidecar": None}, "exists already, and no sidecar says what made it"),
    ],
)
def test_a_file_of_another_build_is_not_overwritten(
    build, tmp_path, text, vocab_file, changes, message
):
    build("out")
    content = (tmp_path / "out").read_bytes()
    changes = dict(changes)
    text.write_text(text.read_text() + changes.pop("corpus", ""))
    tokens = vocab_file.read_text() + changes.pop("vocabulary", "")
    vocab_file.write_text(tokens)
    if "sidecar" in changes:
        changes.pop("sidecar")
        (tmp_path / "out.json").unlink()

    with pytest.raises(ValueError, match=f"{message}.*Remove it, or choose"):
        build("out", **changes)

    assert (tmp_path / "out").read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"has no sentence: .*other\.txt"),
        ("\n\n \n", r"has no sentence: .*other\.txt"),
        ("a b c d\n", "1 sentences: a pair needs two.*`keep_more_text`"),
    ],
)
def test_a_corpus_without_a_pair_is_an_error(build, tmp_path, content, message):
    other = tmp_path / "other.txt"
    other.write_text(content)

    with pytest.raises(ValueError, match=message):
        build("out", input_file=str(other))

    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("names", "changes", "message"),
    [
        (("a", "./a"), {}, "named twice"),
        ((), {}, "`output_file` must be given"),
        ("a", {"input_file": None}, "`input_file` must be given"),
        ("a", {"vocab_file": None}, "No vocabulary is given"),
    ],
)
def test_files_that_cannot_be_built_are_an_error(
    build, names, changes, message
):
    with pytest.raises(ValueError, match=message):
        build(*names, **changes)


def test_many_unknown_tokens_are_warned_of(build, tmp_path, caplog):
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("a b c d x\nx x x a\n")

    build("out", input_file=str(foreign))

    # 4 of 9.
    assert "44.4% of the tokens are unknown" in caplog.text


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


def test_a_file_that_another_build_has_finished_meanwhile_is_kept(
    build, tmp_path, monkeypatch
):
    locked_in_turn = shards.locked_in_turn

    def build_first(paths):
        monkeypatch.setattr(shards, "locked_in_turn", locked_in_turn)
        build("out")
        return locked_in_turn(paths)

    monkeypatch.setattr(shards, "locked_in_turn", build_first)

    with pytest.raises(ValueError, match="has built .* in the meantime"):
        build("out")

    assert sidecar.read(tmp_path / "out").num_bytes > 0


def test_a_corpus_of_the_same_name_and_size_is_another(build, tmp_path, text):
    build("out")
    content = text.read_text()
    swapped = content.replace("a", "x").replace("b", "a").replace("x", "b")
    text.write_text(swapped)
    assert len(swapped) == len(content)

    with pytest.raises(ValueError, match="corpus_sha256 is .* there"):
        build("out")


def records(*paths):
    """The records of files, sorted."""
    files = [record_files.RecordFile(path).verified() for path in paths]
    return sorted(itertools.chain(*files))


def test_a_new_file_changes_no_other_record(build, tmp_path, text):
    for name in "az":
        (tmp_path / f"{name}-new.txt").write_text("a b c d\nd c\n\n" * 9)

    build("old")
    build("new", input_file=f"{tmp_path}/?-new.txt")
    build("both", input_file=f"{tmp_path}/a*.txt,{text},{tmp_path}/z*.txt")

    old, new, both = (tmp_path / name for name in ("old", "new", "both"))
    assert records(old, new) == records(both)


def test_equal_files_get_other_draws(build, tmp_path, text):
    (tmp_path / "copy.txt").write_text(text.read_text())

    build("one")
    report = build("two", input_file=f"{text},{tmp_path}/copy.txt")

    once, twice = records(tmp_path / "one"), records(tmp_path / "two")
    assert report.counts.documents == 24
    assert len(twice) > 1.5 * len(once)
    assert len(set(twice)) > 0.9 * len(twice)
    assert set(once) < set(twice)


def test_shards_are_named_by_their_number(build, tmp_path):
    build("whole")

    build("train@3")

    names = [f"train-0000{number}-of-00003" for number in range(3)]
    found = sorted(path.name for path in tmp_path.glob("train*"))
    assert found == sorted(
        name + end for name in names for end in ("", ".json", ".index")
    )
    parts = b"".join((tmp_path / name).read_bytes() for name in names)
    assert parts == (tmp_path / "whole").read_bytes()
    source = record_source.open_records(f"{tmp_path}/train@3")
    assert source.num_records == len(records(tmp_path / "whole"))


def test_shards_of_several_machines_are_those_of_one(
    build, tmp_path, monkeypatch
):
    contents = {}
    for folder, chosen in {"one": None, "a": "0-1,4", "b": "2-3"}.items():
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        report = build(output_file="train@5", shards=chosen)
        contents[folder] = {
            path.name: path.read_bytes()
            for path in (tmp_path / folder).iterdir()
        }
        assert report.counts.records > 0

    assert contents["a"] | contents["b"] == contents["one"]
    assert len(contents["a"]) == 9 and len(contents["b"]) == 6


def test_a_shard_that_does_not_exist_is_an_error(build, tmp_path):
    with pytest.raises(ValueError, match="from 0 to 3, .*shards='2-4'"):
        build("train@4", shards="2-4")

    assert not list(tmp_path.glob("train*"))


@pytest.mark.parametrize("pair_objective", ["nsp", "sop"])
def test_a_block_of_one_document_is_counted(build, tmp_path, pair_objective):
    lone = tmp_path / "lone.txt"
    lone.write_text("a b c d\nb c\nd a a\n" * 5)

    counts = build(
        "out", input_file=str(lone), pair_objective=pair_objective
    ).counts

    assert counts.lone_tokens == counts.tokens == 45
    assert build("text").counts.lone_tokens == 0


def test_a_corpus_that_moved_is_the_same(build, tmp_path, text):
    build("out")
    (tmp_path / "new").mkdir()
    moved = text.rename(tmp_path / "new" / "other.txt")

    assert build("out", input_file=str(moved)).kept_files


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


@pytest.mark.parametrize("num_workers", [1, 2])
def test_more_files_than_blocks_share_the_records(build, tmp_path, num_workers):
    build("whole")
    names = [f"part-{number:02}" for number in range(15)]

    report = build(*names, num_workers=num_workers)

    whole = list(record_files.RecordFile(tmp_path / "whole").verified())
    found = [sidecar.read(tmp_path / name) for name in names]
    # 6 blocks: two files, three files, ...
    parts = [(facts.blocks, facts.part) for facts in found[:5]]
    assert parts == [
        ([0, 1], [0, 2]),
        ([0, 1], [1, 2]),
        ([1, 2], [0, 3]),
        ([1, 2], [1, 3]),
        ([1, 2], [2, 3]),
    ]
    dealt = [
        list(record_files.RecordFile(tmp_path / name).verified())
        for name in names
    ]
    assert sorted(itertools.chain(*dealt)) == sorted(whole)
    assert min(map(len, dealt)) > 0
    assert report.counts == sidecar.read(tmp_path / "whole").counts
    assert report.counts.documents == 12


def test_parts_of_a_block_are_resumed(build, tmp_path):
    names = [f"part-{number:02}" for number in range(15)]
    build(*names)
    contents = [(tmp_path / name).read_bytes() for name in names]
    for name in names[3:9]:
        (tmp_path / name).unlink()

    build(*names)

    assert [(tmp_path / name).read_bytes() for name in names] == contents


def test_files_for_which_no_record_is_left_are_empty(build, tmp_path, caplog):
    small = tmp_path / "small.txt"
    small.write_text("a b c d\nb c\n")

    report = build(*"pqr", input_file=str(small), dupe_factor=1)

    assert report.counts.records == 1
    assert [(tmp_path / name).stat().st_size > 0 for name in "pqr"] == [
        *(True, False, False)
    ]
    assert "2 of 3 files have no record" in caplog.text


def test_a_last_block_without_a_pair_does_not_fail(build, tmp_path, text):
    text.write_text(text.read_text() + "\na b c\n")

    report = build(*"abcdefg")

    assert (tmp_path / "g").read_bytes() == b""
    assert report.counts.sentences == 49
    assert build(*"abcdefg").kept_files == tuple(
        str(tmp_path / name) for name in "abcdefg"
    )


def test_a_corpus_without_a_pair_leaves_none_of_its_files(build, tmp_path):
    lone = tmp_path / "lone.txt"
    lone.write_text("a b c d\n\nb c\n")

    with pytest.raises(ValueError, match="2 sentences: a pair needs two"):
        build(*"pqr", input_file=str(lone))

    assert not [path for path in tmp_path.iterdir() if path.name[0] in "pqr."]


def test_inputs_that_are_one_file_count_once(build, tmp_path, text):
    os.symlink(text, tmp_path / "link.txt")

    report = build("out", input_file=f"{text},{tmp_path}/./*.txt")

    # The vocabulary matches the pattern, too: 9 lines.
    assert report.counts.sentences == 48 + len(TOKENS)


def test_many_inputs_make_short_sidecars_and_short_errors(build, tmp_path):
    for number in range(2000):
        (tmp_path / f"in-{number:04}.txt").write_text("a b\nc d\n")
    names = ",".join(str(path) for path in tmp_path.glob("in-*.txt"))
    build("out", input_file=names)
    assert sidecar.read(tmp_path / "out").num_corpus_files == 2000
    assert (tmp_path / "out.json").stat().st_size < 6000

    (tmp_path / "in-2000.txt").write_text("d d\nc d\n")
    with pytest.raises(ValueError, match="made by another build") as caught:
        build("out", input_file=f"{tmp_path}/in-*.txt")
    assert len(str(caught.value)) < 500


def test_bad_lines_are_skipped_and_reported(build, tmp_path):
    lines = tmp_path / "c4.json"
    good = '{"body": "A b c? D a b! C c?"}\n'
    lines.write_text(good + "{\n" + good)

    report = build(
        "out", input_file=str(lines), text_field="body", max_bad_lines=1
    )

    assert report.counts.documents == 2
    assert report.num_bad_lines == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # 3 of 20 tokens are masked in rows of 24, where 15% are asked for.
        ({"max_predictions_per_seq": 1}, "Full records need 4"),
        ({"max_predictions_per_seq": 4}, None),
        ({"max_predictions_per_seq": 4, "do_permutation": True}, None),
        ({"max_predictions_per_seq": 1, "masking": "dynamic"}, None),
    ],
)
def test_too_few_predictions_are_warned_of(build, caplog, changes, message):
    build("out", **changes)

    assert ("are to be predicted, not" in caplog.text) == bool(message)
    assert (message or "") in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # Paragraphs of 32 tokens.
        ({}, "of the text is in no record.*one sentence .not a paragraph."),
        ({"keep_more_text": True}, None),
        ({"masking": "dynamic"}, None),
        ({"pair_objective": "none"}, None),
    ],
)
def test_much_text_that_is_left_out_is_warned_of(
    build, tmp_path, caplog, changes, message
):
    other = tmp_path / "paragraphs.txt"
    paragraph = " ".join("abcd" * 8)
    other.write_text(f"{paragraph}\n{paragraph}\na b\nc d\n")

    report = build("out", input_file=str(other), **changes)

    assert bool(message) == (report.left_out_share > 0.2)
    assert ("is in no record" in caplog.text) == bool(message)
    if message:
        assert re.search(message, caplog.text)


def test_documents_of_one_sentence_are_warned_of(build, tmp_path, caplog):
    other = tmp_path / "short.txt"
    other.write_text("a b c d\n\n" * 9 + "a b\nc d\n")

    report = build("out", input_file=str(other), masking="dynamic")

    # 36 of 40 tokens, and both copies.
    assert report.left_out_share == 0.9
    assert "single sentence give no pair" in caplog.text


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
        [
            sys.executable,
            "-c",
            code,
            *arguments,
        ],
        capture_output=True,
        text=True,
    )

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out.json").exists()


def test_neither_building_nor_inspecting_imports_tensorflow():
    code = (
        "import sys, albert_tf.data.builder, albert_tf.data.inspect; "
        "print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.split() == ["False", "False"]


def test_every_shard_has_an_index_that_opens_it(build, tmp_path, monkeypatch):
    build("a", "b")
    whole = [record_files.RecordFile(tmp_path / name) for name in "ab"]
    monkeypatch.setattr(record_index, "scan", None)

    source = record_source.open_records([str(tmp_path / n) for n in "ab"])

    records = [record for file in whole for record in file.verified()]
    assert source.get(np.arange(source.num_records)) == records


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


def test_what_a_build_left_that_was_killed_at_the_end_of_a_file_is_removed(
    build, tmp_path
):
    build("a", "b")
    before = sorted(path.name for path in tmp_path.iterdir())
    lock = pathlib.Path(files.lock_path(tmp_path / "a"))
    partial = pathlib.Path(files.partial_name(tmp_path / "a.index"))
    lock.touch()
    partial.touch()

    build("a", "b")

    assert sorted(path.name for path in tmp_path.iterdir()) == before
