import os
import pathlib
import re
import resource
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "build_vocab.py"


def run(*arguments):
    return subprocess.run(
        [sys.executable, os.fspath(SCRIPT), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


def test_a_vocabulary_is_built_and_summed_up(tiny_corpus, tmp_path):
    done = run(
        f"--input_file={tiny_corpus.parent}/corp*.txt",
        f"--output_prefix={tmp_path / 'new' / 'p'}",
        "--vocab_size=200",
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert {p.name for p in (tmp_path / "new").iterdir()} == {
        "p.model",
        "p.vocab",
    }
    words = " ".join(done.stdout.split())
    assert "tokens 200 sentences read 60" in words
    assert "characters covered 100.0000%" in words
    assert "p.model" in words
    assert "p.vocab" in words


def test_long_sentences_are_mentioned(tiny_corpus, tmp_path):
    corpus = tmp_path / "c.txt"
    corpus.write_text(tiny_corpus.read_text("utf-8") + "a" * 5000, "utf-8")

    done = run(
        f"--input_file={corpus}",
        f"--output_prefix={tmp_path / 'p'}",
        "--vocab_size=200",
    )

    assert "left out 1 longer than 4,192 bytes" in " ".join(done.stdout.split())


def test_help_answers_at_once():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert "--vocab_size" in done.stdout
    # Of the processor, which other processes do not change as they do a clock.
    assert after.ru_utime - before.ru_utime < 1


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--input_file=nowhere/*.txt", "No file matches 'nowhere/*.txt'"),
        ("--vocab_size=5000", "too small for `vocab_size`=5000"),
        ("--vocab_size=5", "`vocab_size` must be more than 13"),
        ("--vocab_size=many", "many"),
        ("--character_coverage=3", "character_coverage"),
        ("--no_such_flag", "no_such_flag"),
        ("--output_prefix=", "`output_prefix` must be given"),
    ],
)
def test_bad_input_ends_with_one_line(tiny_corpus, tmp_path, flag, message):
    done = run(
        f"--input_file={tiny_corpus}", f"--output_prefix={tmp_path}/p", flag
    )

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no usable sentence"),
        (b"One sentence.\n", "too small for `vocab_size`"),
        (b"good\nbad \xff\n", "c.txt, line 2: not UTF-8"),
    ],
)
def test_a_bad_corpus_ends_with_one_line(tmp_path, content, message):
    (tmp_path / "c.txt").write_bytes(content)

    done = run(
        f"--input_file={tmp_path / 'c.txt'}", f"--output_prefix={tmp_path}/p"
    )

    assert done.returncode == 1
    assert re.fullmatch(f"error: .*{message}.*\n", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["c.txt"]


def test_a_full_disk_is_an_error_that_leaves_nothing(tiny_corpus, small_disk):
    disk = small_disk(8192)

    done = run(
        f"--input_file={tiny_corpus}",
        f"--output_prefix={disk}/p",
        "--vocab_size=200",
    )

    assert done.returncode == 1
    assert re.fullmatch(
        r"error: .*/p\.\w+: No space left on device\n", done.stderr
    )
    assert list(disk.iterdir()) == []
