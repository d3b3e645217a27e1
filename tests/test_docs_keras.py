"""The examples of two pages run as they are printed, one after another."""

import pathlib
import re

import pytest

_DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture
def run_examples(tmp_path, monkeypatch):
    """Runs the Python blocks of a page; returns their number and names."""
    monkeypatch.chdir(tmp_path)
    # XLA takes minutes to compile what these tiny models run once.
    monkeypatch.setattr(
        "keras.src.trainers.trainer.model_supports_jit", lambda model: False
    )

    def run(name):
        page = (_DOCS / name).read_text(encoding="utf-8")
        blocks = list(re.finditer(r"^```python\n(.*?)^```$", page, re.M | re.S))
        names = {}
        for block in blocks:
            first_line = page[: block.start(1)].count("\n")
            # So that the lines of a traceback are those of the page.
            code = "\n" * first_line + block[1]
            exec(compile(code, name, "exec"), names)
        return len(blocks), names

    return run


@pytest.mark.slow
def test_the_examples_of_in_keras_run(run_examples, tmp_path):
    num_blocks, names = run_examples("keras.md")

    assert num_blocks == 8
    saved = {path.stem for path in tmp_path.glob("*.keras")}
    assert {"functional", "two_towers", "classifier", "from_keras_hub"} < saved
    assert names["probabilities"].shape == (4, 2)
    assert names["encoder"](names["batch"])["pooled_output"].shape == (4, 16)
    assert len(names["history"].history["loss"]) == 3


@pytest.mark.slow
def test_the_examples_of_small_models_run(run_examples):
    num_blocks, names = run_examples("small_models.md")

    assert num_blocks == 2
    assert len(names["model"].trainable_variables) == 8
