"""The command that compares runs."""

import json
import subprocess
import sys

import pytest

from albert_tf.compare import __main__ as compare


def make_run(folder, text):
    """Writes a run whose seed and whose one answer are the folder's name."""
    (folder / "eval").mkdir(parents=True)
    (folder / "eval_results.json").write_text(json.dumps({"accuracy": 0.5}))
    (folder / "flags.txt").write_text(f"--random_seed={folder.name}\n")
    header = "index\tprediction\tlabel\ttext_a\ttext_b"
    rows = f"{header}\n0\t{folder.name}\tham\t{text}\t\n"
    (folder / "eval" / "predictions.tsv").write_text(rows, "utf-8")
    return str(folder)


def test_a_table_and_a_page(tmp_path, capsys):
    names = ("ham", "spam")
    runs = [make_run(tmp_path / name, "é <b>\x1b[2J") for name in names]
    page = tmp_path / "page.html"

    code = compare.main([*runs, f"--output={page}"])

    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert "1 of 1 answers differ" in out
    assert "é <b>\\x1b[2J" in out
    html = page.read_text("utf-8")
    assert "McNemar" in html
    assert "--random_seed=ham" in html
    assert "<b>" not in html


@pytest.mark.slow
def test_tensorflow_prints_nothing(tmp_path):
    run = make_run(tmp_path / "ham", "a")

    done = subprocess.run(
        [sys.executable, "-m", "albert_tf.compare", run],
        capture_output=True,
        check=True,
    )

    assert done.stderr == b""


def test_what_cannot_be_is_one_line(tmp_path, capsys):
    run = make_run(tmp_path / "1", "a")

    codes = [
        compare.main(["nowhere"]),
        compare.main([run, run]),
        compare.main([run, f"--output={tmp_path}"]),
    ]

    assert codes == [1, 1, 1]
    lines = capsys.readouterr().err.splitlines()
    assert [line[:7] for line in lines] == ["error: "] * 3
    assert lines[0] == "error: 'nowhere' is not a run that has been evaluated."
