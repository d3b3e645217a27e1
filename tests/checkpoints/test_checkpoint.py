import dataclasses
import pathlib

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.modeling.albert_model import AlbertModel
from tests.checkpoints.weights import weights_of

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


def test_heads_and_weights_are_recognised(source):
    more = {"global_step": np.int64(3), "output_bias": np.zeros(3)}
    source = dataclasses.replace(source, arrays=source.arrays | more)

    assert source.heads == {"cls/predictions", "cls/seq_relationship", "task"}
    assert "global_step" in source.arrays
    assert "global_step" not in source.weights


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_the_weights_of_every_strategy_match_its_config(tiny_config, sharing):
    config = dataclasses.replace(tiny_config, parameter_sharing=sharing)
    arrays = weights_of(AlbertModel(config))

    checkpoint.check(Checkpoint(arrays=arrays, config=config), "x")


def test_layers_that_share_nothing_are_groups(tiny_config):
    config = dataclasses.replace(tiny_config, parameter_sharing="none")

    grouped = checkpoint.as_groups(config, "x")

    assert (grouped.num_hidden_groups, grouped.parameter_sharing) == (2, "all")
    assert checkpoint.as_groups(tiny_config, "x") is tiny_config


def test_equal_widths_get_an_identity_and_lose_it_again(source):
    config = dataclasses.replace(source.config, embedding_size=8)
    equal = dataclasses.replace(source, config=config, arrays={})

    arrays = checkpoint.with_projection(equal)

    kernel, bias = sorted(arrays, reverse=True)
    np.testing.assert_array_equal(arrays[kernel], np.eye(8))
    np.testing.assert_array_equal(arrays[bias], np.zeros(8))
    assert checkpoint.without_projection(arrays, config, "x") == {}
    assert checkpoint.with_projection(source).keys() == source.arrays.keys()


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
