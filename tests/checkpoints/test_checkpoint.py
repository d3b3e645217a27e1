import dataclasses
import pathlib

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint

_POOLER = "bert/pooler/dense/bias"
_SQUAD = {
    "cls/squad/output_weights": np.zeros((2, 8), "float32"),
    "cls/squad/output_bias": np.zeros(2, "float32"),
}
_SLOT = {f"{_POOLER}/adam_m": np.zeros(8, "float32")}


@pytest.mark.parametrize(
    ("added", "removed"),
    [({}, ()), ({}, ("cls/", "bert/pooler/")), (_SQUAD | _SLOT, ())],
)
def test_heads_pooler_and_slots_are_optional(source, added, removed):
    kept = {n: a for n, a in source.arrays.items() if not n.startswith(removed)}

    checkpoint.check(dataclasses.replace(source, arrays=kept | added), "x")


def test_a_vocabulary_is_written_under_its_name_or_another(
    wordpiece, tiny_spm_model, tmp_path
):
    (tmp_path / "words").mkdir()
    words = wordpiece.rename(tmp_path / "words" / "words.txt")
    pieces = Checkpoint(arrays={}, vocabulary=str(tiny_spm_model))

    checkpoint.write_vocabulary(pieces, str(tmp_path))
    checkpoint.write_vocabulary(pieces, str(tmp_path), "a.model")
    checkpoint.write_vocabulary(
        Checkpoint(arrays={}, vocabulary=str(words)), str(tmp_path)
    )

    written = filter(pathlib.Path.is_file, tmp_path.iterdir())
    model = tiny_spm_model.read_bytes()
    assert {path.name: path.read_bytes() for path in written} == {
        "tiny.model": model,
        "a.model": model,
        "vocab.txt": words.read_bytes(),
    }
