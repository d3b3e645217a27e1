import os
import re
import shutil

import pytest

from tests.cli.conftest import BASE


@pytest.fixture
def export(run_script, tiny_spm_model, tmp_path):
    """Exports a model with its vocabulary; returns what was printed."""

    def run(*flags):
        shutil.copytree(BASE, tmp_path / "base")
        # A vocabulary in the folder of a checkpoint may be shorter than the
        # model's.
        shutil.copy(tiny_spm_model, tmp_path / "base" / "spiece.model")
        return run_script(
            "export_saved_model.py",
            "--init_checkpoint=base",
            *flags,
            folder=tmp_path,
        )

    return run


def test_a_checkpoint_is_exported(export, tiny_spm_model, tmp_path):
    done = export(
        "--export_dir=served/albert",
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


def test_the_next_command_names_the_version(export, tmp_path):
    (tmp_path / "served" / "3").mkdir(parents=True)

    done = export("--head=encoder", "--export_dir=served", "--format=litert")

    expected = " next: python -m albert_tf.predict served/4 < inputs "
    assert expected in done.stderr, done.stderr
