import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.modeling.albert_model import AlbertModel
from tests import tiny
from tests.checkpoints.weights import weights_of

_POOLER = "bert/pooler/dense/bias"
_SQUAD = {
    "cls/squad/output_weights": np.zeros((2, 8), "float32"),
    "cls/squad/output_bias": np.zeros(2, "float32"),
}
_SLOT = {f"{_POOLER}/adam_m": np.zeros(8, "float32")}


def _changed(source, added=None, removed=()):
    kept = {n: a for n, a in source.arrays.items() if not n.startswith(removed)}
    return dataclasses.replace(source, arrays=kept | (added or {}))


@pytest.mark.parametrize(
    ("added", "removed"),
    [({}, ()), ({}, ("cls/", "bert/pooler/")), (_SQUAD | _SLOT, ())],
)
def test_heads_pooler_and_slots_are_optional(source, added, removed):
    checkpoint.check(_changed(source, added, removed), "x")


def test_heads_and_weights_are_recognised(source):
    more = _changed(
        source, {"global_step": np.int64(3), "output_bias": np.zeros(3)}
    )

    assert more.heads == {"cls/predictions", "cls/seq_relationship", "task"}
    assert "global_step" in more.arrays
    assert "global_step" not in more.weights


@pytest.mark.parametrize(
    ("added", "removed", "words"),
    [
        ({}, _POOLER, f"{_POOLER} is missing"),
        (
            {},
            "cls/predictions/output_bias",
            "cls/predictions/output_bias is missing",
        ),
        ({"output_bias": np.zeros(3)}, (), "output_weights is missing"),
        (
            {"answer_class/dense_0/bias": np.zeros(8)},
            (),
            "answer_class/dense_0/kernel is missing",
        ),
        ({"bert/x": np.zeros(3)}, (), "bert/x is unexpected"),
        (
            {_POOLER: np.zeros(9)},
            (),
            rf"{_POOLER} has shape \[9\], but the config implies \[8\]",
        ),
        (
            {_POOLER: np.zeros((8, 1))},
            (),
            rf"{_POOLER} has shape \[8, 1\], but the config implies \[8\]",
        ),
        (
            {"output_weights": np.zeros((3, 9)), "output_bias": np.zeros(3)},
            (),
            r"has shape \[3, 9\], but the config implies \['any', 8\]",
        ),
    ],
)
def test_weights_that_do_not_match_the_config_are_named(
    source, added, removed, words
):
    with pytest.raises(ValueError, match=f"'there'.*{words}"):
        checkpoint.check(_changed(source, added, removed), "there")


def test_sets_that_only_the_config_has_are_missing(source):
    config = dataclasses.replace(source.config, num_hidden_groups=2)

    with pytest.raises(ValueError, match="group_1.*is missing"):
        checkpoint.check(dataclasses.replace(source, config=config), "x")


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_the_weights_of_every_strategy_match_its_config(tiny_config, sharing):
    config = dataclasses.replace(tiny_config, parameter_sharing=sharing)
    arrays = weights_of(AlbertModel(config))

    checkpoint.check(Checkpoint(arrays=arrays, config=config), "x")


def test_a_checkpoint_without_a_config_says_what_to_pass():
    with pytest.raises(ValueError, match="Pass --albert_config_file"):
        checkpoint.known_config(Checkpoint(arrays={}))


def test_layers_that_share_nothing_are_groups(tiny_config):
    config = dataclasses.replace(tiny_config, parameter_sharing="none")

    grouped = checkpoint.as_groups(config, "x")

    assert (grouped.num_hidden_groups, grouped.parameter_sharing) == (2, "all")
    assert checkpoint.as_groups(tiny_config, "x") is tiny_config


@pytest.mark.parametrize("sharing", ["attention", "ffn"])
def test_half_a_layer_cannot_be_a_group(tiny_config, sharing):
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
    with pytest.raises(ValueError, match="no projection.*cannot be converted"):
        checkpoint.without_projection(arrays, config, "x")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(source, value):
    broken = np.full(8, value, "float32")
    damaged = dataclasses.replace(
        source, arrays=dict(source.arrays) | {_POOLER: broken}
    )

    with pytest.raises(ValueError, match=f"not finite.*, in {_POOLER}. The"):
        checkpoint.check(damaged, "x")


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        ({"hidden_act": "relu"}, {}, "hidden_act='relu', but.*'gelu'"),
        ({}, {"num_attention_heads": 4}, "num_attention_heads=2, but.*=4"),
        ({}, {"num_hidden_layers": 4}, "num_hidden_layers=2, but.*layers=4"),
        ({}, {"num_hidden_groups": 2}, "num_hidden_groups=1, but.*groups=2"),
        ({}, {"inner_group_num": 2}, "inner_group_num=1, but.*num=2"),
        (
            {"parameter_sharing": "none"},
            {"num_hidden_groups": 1},
            "parameter_sharing='none', but.*'all'",
        ),
    ],
)
def test_configs_that_make_other_outputs_of_the_weights(theirs, ours, words):
    known, wanted = (
        tiny.config(**{"num_hidden_layers": 2} | change)
        for change in (theirs, ours)
    )

    with pytest.raises(ValueError, match=f"'x' was made with {words}"):
        checkpoint.check_same_meaning(known, wanted, "x")


def test_configs_that_make_the_same_outputs():
    known = tiny.config(num_hidden_layers=2, parameter_sharing="none")
    for wanted in (
        dataclasses.replace(known, hidden_dropout_prob=0.5),
        dataclasses.replace(known, initializer_range=0.1),
        # The same layers, in other words.
        tiny.config(num_hidden_layers=2, num_hidden_groups=2),
    ):
        checkpoint.check_same_meaning(known, wanted, "x")
    checkpoint.check_same_meaning(
        known, tiny.config(), "x", may_change_layers=True
    )
