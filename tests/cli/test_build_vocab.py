import os

import pytest

SCRIPT = "build_vocab.py"


@pytest.fixture
def run(run_before_imports, tiny_corpus, tmp_path):
    """Builds a vocabulary of 200 tokens; later flags override."""

    def start(*extra):
        return run_before_imports(
            SCRIPT,
            f"--input_file={tiny_corpus}",
            "--output_prefix=p",
            "--vocab_size=200",
            *extra,
            folder=tmp_path,
        )

    return start


def test_a_vocabulary_is_built_and_summed_up(run, tiny_corpus, tmp_path):
    done = run(
        f"--input_file={tiny_corpus.parent}/corp*.txt",
        "--output_prefix=new/p",
    )

    assert done.returncode == 0
    assert " next: python create_pretraining_data.py --input_" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path / "new")) == ["p.model", "p.vocab"]
    words = " ".join(done.stdout.split())
    assert "tokens 200 sentences read 60" in words
    assert "written new/p.model, new/p.vocab" in words


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--input_file=nowhere/*.txt", "No file matches 'nowhere/*.txt'"),
        ("--vocab_size=5000", "Vocabulary size too high"),
    ],
)
def test_a_bad_flag_is_one_line(run, tmp_path, flag, message):
    assert message in run(flag).error
    assert list(tmp_path.iterdir()) == []
