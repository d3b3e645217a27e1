import os
import pathlib
import re

import pytest

_BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"


def test_a_checkpoint_is_exported(run_script, tiny_spm_model, tmp_path):
    done = run_script(
        "export_saved_model.py",
        f"--init_checkpoint={_BASE}",
        f"--spm_model_file={tiny_spm_model}",
        "--export_dir=served/albert",
        "--export_version=7",
        "--precision=bfloat16",
        folder=tmp_path,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "tokens, mlm, fill_mask, sop\n" in done.stdout
    assert re.search(r"written    served/albert/7 \(\d\.\d\d MB\)", done.stdout)
    assert sorted(os.listdir(tmp_path / "served" / "albert")) == [
        "7",
        "batching_parameters.txt",
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "--init_checkpoint and --export_dir must be given"),
        (["--task=poetry"], "should be one of <encoder"),
        (
            [f"--init_checkpoint={_BASE}", "--export_dir=x", "--labels=a,b"],
            "`labels` can only be given for task=classifier",
        ),
        (
            [f"--init_checkpoint={_BASE}", "--export_dir=x"],
            "No vocabulary is given",
        ),
        (
            ["--init_checkpoint=nothing", "--export_dir=x"],
            "There is no checkpoint",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    flags, words, run_script, tmp_path
):
    done = run_script("export_saved_model.py", *flags, folder=tmp_path)

    assert done.returncode == 1
    assert re.fullmatch(rf"error: .*{words}.*\n", done.stderr)
    assert os.listdir(tmp_path) == []
