import gzip
import re

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


def test_json_lines_are_read_and_bad_ones_are_skipped(build, folder):
    lines = ['{"body": "A b c? D d! B c a a."}'] * 3
    data = "\n".join([*lines, "{}", ""]).encode()
    (folder / "c4.json.gz").write_bytes(gzip.compress(data))

    result, shard = build(
        "--input_file=c4.json.gz", "--text_field=body", "--max_bad_lines=1"
    )

    assert shard.counts.documents == 3
    assert "bad lines skipped      1\n" in result.stdout


def test_text_that_is_left_out_is_counted_and_warned_of(build, folder):
    paragraph = "a b c d " * 8
    (folder / "corpus.txt").write_text(f"{paragraph}\n{paragraph}\n{TEXT}")

    result, _ = build()

    # Two paragraphs of 32 tokens.
    line = r"\ntokens left out +[0-9,]+ of 40 copies \(\d\d\.\d%\)\n"
    assert re.search(line, result.stdout)
    assert "of the text is in no record" in result.stderr


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


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--max_seq_length=4", ["`max_seq_length`", "at least 8"]),
        ("--output_file=corpus.txt/out", ["corpus.txt"]),
        ("--output_file=./corpus.txt", ["'./corpus.txt' exists already"]),
        ("--output_file=a,a.json", ["'a.json' has the name of"]),
        ("--output_file=s4://b/a", ["'s4://b/a.json' cannot be read", "s4"]),
    ],
)
def test_a_bad_flag_is_an_error_of_one_line(run, flag, words):
    message = run(flag).error

    for word in words:
        assert word in message


def test_a_bad_corpus_is_an_error_of_one_line(run, folder):
    (folder / "corpus.txt").write_bytes(b"a b\nb \xff\n")

    message = run().error

    assert "corpus.txt" in message and "line 2" in message
    assert not list(folder.glob("out*"))


def test_a_full_disk_is_an_error_that_leaves_nothing(run, small_disk):
    disk = small_disk(8192)

    result = run(
        f"--output_file={disk}/out", "--num_workers=2", "--dupe_factor=400"
    )

    assert "disk/out." in result.error
    assert "No space left on device" in result.error
    assert list(disk.iterdir()) == []
