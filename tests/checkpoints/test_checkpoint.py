import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint

_POOLER = "bert/pooler/dense/bias"


def _with(source, **arrays):
    renamed = {name.replace("__", "/"): a for name, a in arrays.items()}
    return dataclasses.replace(source, arrays=dict(source.arrays) | renamed)


def _without(source, *names):
    kept = {n: a for n, a in source.arrays.items() if not n.startswith(names)}
    return dataclasses.replace(source, arrays=kept)


def test_heads_pooler_and_slots_may_be_there_or_not(source):
    checkpoint.check(source, "x")
    checkpoint.check(_without(source, "cls/", "bert/pooler/"), "x")
    squad = {
        "cls__squad__output_weights": np.zeros((2, 8), "float32"),
        "cls__squad__output_bias": np.zeros(2, "float32"),
    }
    slots = {"bert__pooler__dense__bias__adam_m": np.zeros(8, "float32")}
    checkpoint.check(_with(source, **squad, **slots), "x")


def test_heads_and_weights_are_told_apart(source):
    more = _with(source, global_step=np.int64(3), output_bias=np.zeros(3))

    assert more.heads == {"cls/predictions", "cls/seq_relationship", "task"}
    assert "global_step" in more.arrays
    assert "global_step" not in more.weights


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: _without(s, _POOLER), f"{_POOLER} is missing"),
        (
            lambda s: _without(s, "cls/predictions/output_bias"),
            "cls/predictions/output_bias is missing",
        ),
        (
            lambda s: _with(s, output_bias=np.zeros(3, "float32")),
            "output_weights is missing",
        ),
        (
            lambda s: _with(s, answer_class__dense_0__bias=np.zeros(8, "f")),
            "answer_class/dense_0/kernel is missing",
        ),
        (
            lambda s: _with(s, bert__x=np.zeros(3, "float32")),
            "bert/x is left over",
        ),
        (
            lambda s: _with(s, bert__pooler__dense__bias=np.zeros(9)),
            rf"{_POOLER} is \[9\], the config wants \[8\]",
        ),
        (
            lambda s: _with(
                s, output_weights=np.zeros((3, 9)), output_bias=np.zeros(3)
            ),
            r"output_weights is \[3, 9\], the config wants \['any', 8\]",
        ),
        (
            lambda s: dataclasses.replace(
                s, config=dataclasses.replace(s.config, num_hidden_groups=2)
            ),
            "group_1.*is missing",
        ),
    ],
)
def test_weights_that_are_not_the_config_s_are_named(source, change, words):
    with pytest.raises(ValueError, match=f"'there'.*{words}"):
        checkpoint.check(change(source), "there")


def test_a_checkpoint_without_a_config_says_what_to_pass():
    with pytest.raises(ValueError, match="Pass --albert_config_file"):
        checkpoint.known_config(Checkpoint(arrays={}))


def test_nothing_shared_is_as_many_groups_as_layers(tiny_config):
    config = dataclasses.replace(tiny_config, parameter_sharing="none")

    grouped = checkpoint.as_groups(config, "x")

    assert (grouped.num_hidden_groups, grouped.parameter_sharing) == (2, "all")
    assert checkpoint.as_groups(tiny_config, "x") is tiny_config


@pytest.mark.parametrize("sharing", ["attention", "ffn"])
def test_half_a_block_cannot_be_a_group(tiny_config, sharing):
    config = dataclasses.replace(tiny_config, parameter_sharing=sharing)

    with pytest.raises(ValueError, match=f"Theirs cannot express.*{sharing}"):
        checkpoint.as_groups(config, "Theirs")


def test_equal_widths_get_an_identity_and_lose_it_again(source):
    config = dataclasses.replace(source.config, embedding_size=8)
    equal = dataclasses.replace(source, config=config, arrays={})

    arrays = checkpoint.with_projection(equal)

    kernel, bias = sorted(arrays, reverse=True)
    np.testing.assert_array_equal(arrays[kernel], np.eye(8))
    np.testing.assert_array_equal(arrays[bias], np.zeros(8))
    assert checkpoint.without_projection(arrays, config, "x") == {}
    assert checkpoint.with_projection(source).keys() == source.arrays.keys()
    arrays[bias][3] = 1
    with pytest.raises(ValueError, match="no projection.*cannot be expressed"):
        checkpoint.without_projection(arrays, config, "x")


def test_an_impossible_config_names_its_file():
    with pytest.raises(ValueError, match="there: .*vocab_size"):
        checkpoint.config_of({}, "there")


def test_the_vocabulary_s_ending_tells_its_kind(tiny_spm_model, tmp_path):
    wordpiece = tmp_path / "vocab.txt"
    wordpiece.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")

    for path, size in ((tiny_spm_model, 300), (wordpiece, 6)):
        found = Checkpoint(arrays={}, vocabulary=str(path))
        assert checkpoint.load_tokenizer(found).vocab_size == size
