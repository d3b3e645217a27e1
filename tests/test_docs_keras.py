"""The examples of docs/keras.md run as they are printed, one after another."""

import pathlib
import re

import pytest

_PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "keras.md"


@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # XLA takes minutes to compile what these tiny models run once.
    monkeypatch.setattr(
        "keras.src.trainers.trainer.model_supports_jit", lambda model: False
    )
    page = _PAGE.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", page, re.M | re.S))
    names = {}

    for block in blocks:
        first_line = page[: block.start(1)].count("\n")
        # So that the lines of a traceback are those of the page.
        code = "\n" * first_line + block[1]
        exec(compile(code, str(_PAGE), "exec"), names)

    assert len(blocks) == 8
    saved = {path.stem for path in tmp_path.glob("*.keras")}
    assert {"functional", "two_towers", "classifier", "from_keras_hub"} < saved
    assert names["probabilities"].shape == (4, 2)
    assert names["encoder"](names["batch"])["pooled_output"].shape == (4, 16)
    assert len(names["history"].history["loss"]) == 3
