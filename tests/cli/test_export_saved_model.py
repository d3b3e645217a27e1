import os
import pathlib
import re
import shutil

_BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"


def test_a_checkpoint_is_exported(run_script, tiny_spm_model, tmp_path):
    # A vocabulary beside its checkpoint may be shorter than the model's.
    shutil.copytree(_BASE, tmp_path / "base")
    shutil.copy(tiny_spm_model, tmp_path / "base" / "spiece.model")

    done = run_script(
        "export_saved_model.py",
        "--init_checkpoint=base",
        "--export_dir=served/albert",
        f"--spm_model_file={tiny_spm_model}",
        "--export_version=7",
        "--precision=bfloat16",
        folder=tmp_path,
    )

    assert done.returncode == 0
    assert " next: docker run " in done.stderr
    assert done.stderr.count("\n") == 1
    assert "tokens, mlm, fill_mask, sop\n" in done.stdout
    assert re.search(r"written    served/albert/7 \(\d\.\d\d MB\)", done.stdout)
    found = sorted(os.listdir(tmp_path / "served" / "albert"))
    assert found == ["7", "batching_parameters.txt"]


def test_the_next_command_names_the_version(
    run_script, tiny_spm_model, tmp_path
):
    (tmp_path / "served" / "3").mkdir(parents=True)
    shutil.copytree(_BASE, tmp_path / "base")
    shutil.copy(tiny_spm_model, tmp_path / "base" / "spiece.model")

    done = run_script(
        "export_saved_model.py",
        "--init_checkpoint=base",
        "--head=encoder",
        "--export_dir=served",
        "--format=litert",
        folder=tmp_path,
    )

    expected = " next: python -m albert_tf.predict served/4 < inputs "
    assert expected in done.stderr, done.stderr
