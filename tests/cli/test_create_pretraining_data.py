import signal
import time

import pytest

from albert_tf.data import record_files, shards

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
TEXT = "a b c\nd d\nb c a a\n\nc c b\nd a b\nb b\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (tmp_path / "corpus.txt").write_text(TEXT)
    return tmp_path


@pytest.fixture
def run(run_before_imports, folder):
    """Runs the command in the folder; later flags override."""

    def start(*extra):
        return run_before_imports(
            "create_pretraining_data.py",
            "--input_file=corpus.txt",
            "--output_file=out.tf_record",
            "--vocab_file=vocab.txt",
            "--max_seq_length=16",
            "--max_predictions_per_seq=3",
            *extra,
            folder=folder,
        )

    return start


@pytest.fixture
def build(run, folder):
    """As `run`, for what ends well; returns the sidecar, too."""

    def start(*extra):
        done = run(*extra)
        assert done.returncode == 0, done.stderr
        return done, shards.read(folder / "out.tf_record")

    return start


def test_records_a_sidecar_and_a_summary_are_made(build, folder):
    result, shard = build()

    records = record_files.RecordFile(folder / "out.tf_record")
    assert shard.counts.records == len(records)
    assert shard.config["dupe_factor"] == 40
    assert "documents              2" in result.stdout
    assert "tokens a second" in result.stdout
    assert "\r" not in result.stderr  # No progress bar outside a terminal.


def test_the_original_s_flag_asks_for_next_sentence_pairs(build):
    _, shard = build(
        "--random_next_sentence=True",
        "--dupe_factor=5",
        "--input_file_mode=r",
        "--nodo_lower_case",
        "--do_permutation",
        "--masked_lm_prob=0.2",
    )

    expected = {
        "pair_objective": "nsp",
        "masked_lm_prob": 0.2,
        "do_lower_case": False,
    }
    assert shard.config == shard.config | expected


# Tests of the library have the other reasons.
def test_what_cannot_be_built_is_one_line_and_leaves_nothing(run, folder):
    assert "`max_seq_length`" in run("--max_seq_length=4").error
    (folder / "corpus.txt").write_bytes(b"a b\nb \xff\n")
    assert "corpus.txt, line 2" in run().error
    assert not list(folder.glob("out*"))


def test_a_full_disk_is_an_error_that_leaves_nothing(run, small_disk):
    disk = small_disk(8192)

    result = run(
        f"--output_file={disk}/out", "--num_workers=2", "--dupe_factor=400"
    )

    assert "disk/out." in result.error
    assert "No space left on device" in result.error
    assert list(disk.iterdir()) == []


# Small blocks, so that a small corpus has some for each output file.
SMALL_BLOCKS = """
from albert_tf.data import corpus
corpus.BLOCK_CHARACTERS = 20_000
"""


def test_a_killed_build_keeps_its_finished_files_and_ends_as_an_unbroken_one(
    start_script, tiny_corpus, tiny_spm_model, tmp_path
):
    text = tiny_corpus.read_text("utf-8")
    (tmp_path / "corpus.txt").write_text(f"{text}\n" * 40, "utf-8")
    names = ["a", "b", "c", "d"]

    def start(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return start_script(
            "create_pretraining_data.py",
            "--input_file=../corpus.txt",
            f"--output_file={','.join(names)}",
            f"--spm_model_file={tiny_spm_model}",
            "--max_seq_length=32",
            "--max_predictions_per_seq=5",
            folder=folder,
            before=SMALL_BLOCKS,
        )

    unbroken = start("unbroken").wait()
    assert unbroken.returncode == 0, unbroken.stderr
    command = start("killed")
    while not (tmp_path / "killed" / "b").exists():
        time.sleep(0.01)
    command.kill()
    assert command.wait().returncode == -signal.SIGKILL

    again = start("killed").wait()

    assert again.returncode == 0, again.stderr
    assert "a is finished; it is kept" in again.stdout
    assert "d is finished; it is kept" not in again.stdout
    assert contents(tmp_path / "killed") == contents(tmp_path / "unbroken")
    assert set(contents(tmp_path / "killed")) == {
        name + end for name in names for end in ("", ".index", ".json")
    }


def contents(folder):
    """The files, without a lock that a kill may leave."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}
