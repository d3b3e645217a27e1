import pytest

from albert_tf.data import record_files, shards

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
TEXT = "a b c\nd d\nb c a a\n\nc c b\nd a b\nb b\n"


@pytest.fixture
def build(run_before_imports, tmp_path):
    """Makes records of the text; returns what the command printed."""

    def run(output_file, *extra):
        (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
        (tmp_path / "corpus.txt").write_text(TEXT)
        done = run_before_imports(
            "create_pretraining_data.py",
            "--input_file=corpus.txt",
            f"--output_file={output_file}",
            "--vocab_file=vocab.txt",
            "--max_seq_length=16",
            "--max_predictions_per_seq=3",
            *extra,
            folder=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_records_a_sidecar_and_a_summary_are_made(build, tmp_path):
    done = build(
        "out.tf_record",
        # Flags of the original.
        "--random_next_sentence=True",
        "--input_file_mode=r",
        "--nodo_lower_case",
        "--do_permutation",
        "--masked_lm_prob=0.2",
    )

    shard = shards.read(tmp_path / "out.tf_record")
    records = record_files.RecordFile(tmp_path / "out.tf_record")
    assert shard.counts.records == len(records)
    expected = {
        "dupe_factor": 40,
        "pair_objective": "nsp",
        "masked_lm_prob": 0.2,
        "do_lower_case": False,
    }
    assert shard.config == shard.config | expected
    assert "documents              2" in done.stdout
    assert "tokens a second" in done.stdout
    assert "\r" not in done.stderr  # No progress bar outside a terminal.


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_records_that_no_command_reads_are_named_before_the_build(
    scheme, build, tmp_path
):
    output = f"{scheme}://{tmp_path}/out"

    done = build(output)

    is_read = scheme == "file"
    assert (f"TensorFlow does not read {output}" in done.stderr) != is_read
    assert ("next: " in done.stderr) == is_read
    assert ("--read_order=files\n" in done.stderr) == is_read
