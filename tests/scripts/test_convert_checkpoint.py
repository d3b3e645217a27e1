import json
import os
import pathlib
import re

import pytest

_BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"


def test_a_checkpoint_is_converted_and_verified(run_script, tmp_path):
    done = run_script(
        "convert_checkpoint.py",
        f"--input_path={_BASE}",
        "--output_path=theirs",
        "--output_format=huggingface",
        "--verify",
        folder=tmp_path,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert f"read      {_BASE} (tf1)" in done.stdout
    assert "written   theirs (huggingface): 32 variables" in done.stdout
    assert "left out  global_step (the format cannot store it)" in done.stdout
    assert "masked_lm_logits differs by at most 0\n" in done.stdout
    assert os.listdir(tmp_path) == ["theirs"]


def test_a_warm_start_says_so_in_the_config(run_script, tmp_path):
    done = run_script(
        "convert_checkpoint.py",
        f"--input_path={_BASE}/model.ckpt-best",
        "--output_path=new/deeper",
        "--output_format=keras",
        "--num_hidden_layers=6",
        "--num_hidden_groups=2",
        "--parameter_sharing=attention",
        folder=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    config = json.loads(
        (tmp_path / "new" / "deeper" / "albert_config.json").read_text()
    )
    found = {
        key: config[key]
        for key in (
            "num_hidden_layers",
            "num_hidden_groups",
            "parameter_sharing",
        )
    }
    assert list(found.values()) == [6, 2, "attention"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--output_format=keras"],
            "`input_path` is missing. Pass --input_path",
        ),
        (["--output_format=onnx"], "should be one of.*keras_hub"),
        (
            ["--input_path=nothing", "--output_format=keras"],
            "no checkpoint 'nothing'",
        ),
        (
            [
                f"--input_path={_BASE}",
                "--output_format=keras",
                "--vocab_file=vocab",
            ],
            "`vocab_file` must end in .txt.*vocab_file='vocab'",
        ),
        (
            [
                f"--input_path={_BASE}",
                "--output_format=keras",
                "--spm_model_file=nothing.model",
            ],
            "nothing.model",
        ),
        (
            [
                f"--input_path={_BASE}",
                "--output_format=keras",
                "--albert_config_file=base_v2",
            ],
            "the weights do not match the config",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line(run_script, tmp_path, flags, words):
    done = run_script(
        "convert_checkpoint.py", *flags, "--output_path=out", folder=tmp_path
    )

    assert done.returncode == 1
    assert re.fullmatch(rf"error: .*{words}.*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []
