import json
import os
import sys

import pytest

from benchmarks import gpu
from tests import tiny

_FIGURES = {
    "losses": {"2 x 8": 11.0},
    "milliseconds": {"encode 2 x 8": 2.0},
    "versions": "an engine 1.0",
    "device": "a GPU",
}
_FLASH = _FIGURES | {"has_kernel": True, "difference": 0.001}


def test_the_table_has_ratios_to_transformers():
    slower = _FIGURES | {"milliseconds": {"encode 2 x 8": 3.0}}

    lines = gpu.table({"jax": _FIGURES, "transformers": slower}).splitlines()

    assert lines[0] == "| | jax | transformers | transformers / jax |"
    assert lines[2] == "| encode 2 x 8 | 2 | 3 | 1.50 |"


@pytest.mark.parametrize(
    ("program", "change", "words"),
    [
        ("flash", {}, None),
        ("flash", {"has_kernel": False}, "no attention of cuDNN"),
        ("flash", {"difference": 0.9}, "0.9 of its largest value"),
        ("flash", {"difference": float("nan")}, "nan of its largest"),
        ("transformers", {"device": "cpu"}, "other devices"),
    ],
)
def test_figures_that_cannot_be_compared(program, change, words):
    results = {"jax": _FIGURES, program: _FLASH | change}

    found = gpu.problems(results)

    assert len(found) == bool(words)
    assert all(words in problem for problem in found)


@pytest.mark.slow
def test_all_programs_on_a_cpu(tmp_path, monkeypatch, capsys):
    path = tmp_path / "config.json"
    tiny.config(max_position_embeddings=16).to_json_file(str(path))
    arguments = {
        "config": path,
        "shapes": "2x8",
        "predictions": 2,
        "rounds": 1,
        "calls": 1,
        "peer_python": os.environ.get("ALBERT_TF_PEER_PYTHON", sys.executable),
    }
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr(sys, "argv", ["gpu.py", *flags])

    gpu.main()

    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"jax", "flash", "tensorflow"} <= results.keys()
    for figures in results.values():
        assert [*figures["milliseconds"]] == [
            "encode 2 x 8",
            "training step, 2 x 8",
        ]
    jax, flash = (results[name]["losses"] for name in ("jax", "flash"))
    assert flash == pytest.approx(jax, rel=1e-3)
