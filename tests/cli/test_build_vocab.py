import os


def test_a_vocabulary_is_built_and_summed_up(
    run_before_imports, tiny_corpus, tmp_path
):
    done = run_before_imports(
        "build_vocab.py",
        f"--input_file={tiny_corpus.parent}/corp*.txt",
        "--output_prefix=new/p",
        "--vocab_size=200",
        folder=tmp_path,
    )

    assert done.returncode == 0
    assert " next: python create_pretraining_data.py --input_" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path / "new")) == ["p.model", "p.vocab"]
    words = " ".join(done.stdout.split())
    assert "tokens 200 sentences read 60" in words
    assert "written new/p.model, new/p.vocab" in words
