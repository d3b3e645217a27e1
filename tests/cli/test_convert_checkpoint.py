import os
import re

from tests.cli.conftest import BASE


def test_a_checkpoint_is_converted_and_verified(run_script, tmp_path):
    done = run_script(
        "convert_checkpoint.py",
        f"--input_path={BASE}",
        "--output_path=out",
        "--output_format=huggingface",
        "--verify",
        folder=tmp_path,
    )

    assert done.returncode == 0
    assert re.fullmatch(
        r"\S+ next: python -m albert_tf.predict out < inputs .*\n", done.stderr
    )
    assert f"read      {BASE} (tf1)" in done.stdout
    assert "written   out (huggingface): 32 variables" in done.stdout
    assert "left out  global_step (the format cannot" in done.stdout
    assert "masked_lm_logits differs by at most 0\n" in done.stdout
    assert os.listdir(tmp_path) == ["out"]
