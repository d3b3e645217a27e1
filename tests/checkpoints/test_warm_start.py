import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint, conversion, warm_start
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests.checkpoints.weights import starting, weights_of

_QUERY = (
    "bert/encoder/transformer/group_{}/inner_group_0/"
    "attention_1/self/query/kernel"
)
_FFN = (
    "bert/encoder/transformer/group_{}/inner_group_0/"
    "ffn_1/intermediate/dense/kernel"
)


@pytest.fixture
def make(tiny_config):
    def make_checkpoint(model_class=AlbertModel, **fields):
        config = dataclasses.replace(tiny_config, **fields)
        arrays = weights_of(model_class(config, seed=1))
        return Checkpoint(arrays=arrays, config=config)

    return make_checkpoint


def _assert_same_outputs(first, second):
    assert set(conversion.output_differences(first, second).values()) == {0.0}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("all", "none"),
        ("all", "attention"),
        ("all", "ffn"),
        ("attention", "none"),
        ("ffn", "none"),
        ("none", "none"),
    ],
)
def test_less_sharing_gives_the_same_outputs(make, before, after):
    source = make(
        num_hidden_layers=4,
        num_hidden_groups=2,
        inner_group_num=2,
        parameter_sharing=before,
    )

    unshared = warm_start.with_sharing(source, after)

    checkpoint.check(unshared, "x")
    assert unshared.config.parameter_sharing == after
    _assert_same_outputs(source, unshared)


@pytest.mark.parametrize(
    ("before", "after"),
    [("none", "all"), ("attention", "ffn"), ("ffn", "all")],
)
def test_more_sharing_is_refused(make, before, after):
    with pytest.raises(ValueError, match=f"{before}.*cannot become '{after}'"):
        warm_start.with_sharing(make(parameter_sharing=before), after)


def test_every_group_is_a_copy_of_the_first(make):
    source = make(num_hidden_groups=2)

    grouped = warm_start.with_groups(
        warm_start.with_layers(source, 6), num_groups=3
    )

    checkpoint.check(grouped, "x")
    for group in range(3):
        for name in (_QUERY, _FFN):
            np.testing.assert_array_equal(
                grouped.arrays[name.format(group)],
                source.arrays[name.format(0)],
            )


def test_groups_of_one_shared_block_give_the_same_outputs(make):
    source = make()

    _assert_same_outputs(source, warm_start.with_groups(source, 2))


def test_layers_that_share_nothing_have_no_groups(make):
    with pytest.raises(ValueError, match="--num_hidden_groups cannot be used"):
        warm_start.with_groups(make(parameter_sharing="none"), 2)


@pytest.mark.parametrize("sharing", ["all", "attention"])
def test_a_deeper_model_spreads_what_is_not_shared(make, sharing):
    source = make(num_hidden_layers=2, parameter_sharing=sharing)

    deeper = warm_start.with_layers(source, 4)

    checkpoint.check(deeper, "x")
    assert deeper.config.num_hidden_layers == 4
    assert _QUERY.format(1) not in deeper.arrays
    origins = [0] if sharing == "all" else [0, 0, 1, 1]
    for layer, origin in enumerate(origins):
        np.testing.assert_array_equal(
            deeper.arrays[_FFN.format(layer)],
            source.arrays[_FFN.format(origin)],
        )


def test_slots_and_step_stay_behind(make):
    source = make()
    slot = f"{_QUERY.format(0)}/adam_m"
    arrays = source.arrays | {"global_step": np.int64(3), slot: np.zeros(1)}
    source = dataclasses.replace(source, arrays=arrays)

    for started in (
        warm_start.with_layers(source, 3),
        warm_start.with_groups(source, 2),
        warm_start.with_sharing(source, "none"),
    ):
        assert started.arrays == started.weights


def test_heads_and_a_pooler_come_from_another_checkpoint(make):
    whole = make(PretrainingModel)
    encoder = starting(whole.arrays, "bert/embeddings/", "bert/encoder/")
    bare = dataclasses.replace(whole, arrays=encoder)

    merged = warm_start.merge(bare, whole)

    checkpoint.check(merged, "x")
    _assert_same_outputs(merged, whole)


def test_merging_what_is_there_already_is_an_error(make):
    with pytest.raises(
        ValueError, match="no head.*Its heads: cls/predictions, cls/seq"
    ):
        warm_start.merge(make(PretrainingModel), make(PretrainingModel))


def test_facts_of_a_head_come_only_with_that_head(make):
    whole = make(PretrainingModel)
    other = dataclasses.replace(
        whole,
        metadata=Metadata(
            task="custom", labels=("a", "b"), do_lower_case=False
        ),
    )
    encoder = starting(whole.arrays, "bert/")

    merged = warm_start.merge(dataclasses.replace(whole, arrays=encoder), other)

    # The classifier that the labels are of is not among the heads.
    assert merged.metadata == Metadata(task="custom", do_lower_case=False)
