import json
import os
import pathlib
import re

import pytest

_BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"


@pytest.fixture
def run(run_script, tmp_path):
    """Converts the tiny checkpoint of Google's format; later flags override."""

    def start(*extra):
        return run_script(
            "convert_checkpoint.py",
            f"--input_path={_BASE}",
            "--output_path=out",
            *extra,
            folder=tmp_path,
        )

    return start


def test_a_checkpoint_is_converted_and_verified(run, tmp_path):
    done = run("--output_format=huggingface", "--verify")

    assert done.returncode == 0
    assert re.fullmatch(
        r"\S+ next: python -m albert_tf.predict out < inputs .*\n", done.stderr
    )
    assert f"read      {_BASE} (tf1)" in done.stdout
    assert "written   out (huggingface): 32 variables" in done.stdout
    assert "left out  global_step (the format cannot" in done.stdout
    assert "masked_lm_logits differs by at most 0\n" in done.stdout
    assert os.listdir(tmp_path) == ["out"]


def test_a_warm_start_is_in_the_config(run, tmp_path):
    done = run(
        f"--input_path={_BASE}/model.ckpt-best",
        "--output_path=new/deeper",
        "--output_format=keras",
        "--num_hidden_layers=6",
        "--num_hidden_groups=2",
        "--parameter_sharing=attention",
    )

    assert done.returncode == 0, done.stderr
    path = tmp_path / "new" / "deeper" / "albert_config.json"
    wanted = {
        "num_hidden_layers": 6,
        "num_hidden_groups": 2,
        "parameter_sharing": "attention",
    }
    assert wanted.items() <= json.loads(path.read_text()).items()


def test_what_cannot_be_converted_is_one_line_before_any_slow_import(refuse):
    flags = (f"--input_path={_BASE}", "--output_path=out")

    assert "Pass --output_format" in refuse("convert_checkpoint.py", *flags)
