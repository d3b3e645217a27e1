import os
import pathlib
import re
import shutil

import pytest

_BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"


@pytest.fixture
def run(run_script, tmp_path):
    """Exports the tiny checkpoint of Google's format; later flags override."""

    def start(*extra):
        return run_script(
            "export_saved_model.py",
            f"--init_checkpoint={_BASE}",
            "--export_dir=served/albert",
            *extra,
            folder=tmp_path,
        )

    return start


def test_a_checkpoint_is_exported(run, tiny_spm_model, tmp_path):
    # A vocabulary beside its checkpoint may be shorter than the model's.
    shutil.copytree(_BASE, tmp_path / "base")
    shutil.copy(tiny_spm_model, tmp_path / "base" / "spiece.model")
    done = run(
        "--init_checkpoint=base",
        f"--spm_model_file={tiny_spm_model}",
        "--export_version=7",
        "--precision=bfloat16",
    )

    assert done.returncode == 0
    assert " next: docker run " in done.stderr
    assert done.stderr.count("\n") == 1
    assert "tokens, mlm, fill_mask, sop\n" in done.stdout
    assert re.search(r"written    served/albert/7 \(\d\.\d\d MB\)", done.stdout)
    found = sorted(os.listdir(tmp_path / "served" / "albert"))
    assert found == ["7", "batching_parameters.txt"]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--export_dir=", "`export_dir` must be given"),
        ("--task=poetry", "should be one of <encoder"),
        ("--head=squad", "should be one of <encoder"),
    ],
)
def test_bad_flags_are_one_line_before_any_slow_import(flag, words, refuse):
    given = (f"--init_checkpoint={_BASE}", "--export_dir=served", flag)

    assert words in refuse("export_saved_model.py", *given)
