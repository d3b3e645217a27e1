"""Levels of the model, from the embeddings to the head."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.optimization import layer_rates

EMBEDDINGS = "albert/embeddings/word_embeddings"
PROJECTION = "albert/encoder/embedding_projection/kernel"
POOLER = "albert/pooler/kernel"
HEAD = "sentence_order_head/output_weights"


def factors(decay=0.5, freeze_embeddings=False, **settings):
    values = {
        "vocab_size": 9,
        "embedding_size": 3,
        "hidden_size": 4,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "intermediate_size": 6,
        "max_position_embeddings": 5,
    }
    model = PretrainingModel(AlbertConfig(**values | settings))
    return layer_rates.rate_factors(
        [variable.path for variable in model.trainable_variables],
        decay=decay,
        freeze_embeddings=freeze_embeddings,
    )


def block(half, number):
    names = {"attention": "query", "feed_forward": "intermediate"}
    return f"albert/encoder/{half}_{number}_0/{names[half]}/kernel"


def test_a_shared_block_makes_four_levels():
    found = factors()

    assert found[EMBEDDINGS] == found["albert/embeddings/layer_norm/beta"]
    assert [
        found[name]
        for name in (
            EMBEDDINGS,
            PROJECTION,
            block("attention", 0),
            block("feed_forward", 0),
            POOLER,
            HEAD,
        )
    ] == [0.125, 0.25, 0.5, 0.5, 1, 1]


def test_without_a_projection_there_is_no_level_for_it():
    assert factors(embedding_size=4)[EMBEDDINGS] == 0.25


def test_each_group_is_a_level():
    found = factors(num_hidden_groups=2)

    assert found[block("attention", 1)] == found[block("feed_forward", 1)]
    assert found[block("attention", 1)] == 0.5
    assert found[block("attention", 0)] == 0.25
    assert found[EMBEDDINGS] == 0.0625


def test_a_half_that_is_shared_stands_with_the_last_layers_it_serves():
    found = factors(parameter_sharing="attention")

    own = [found[block("feed_forward", layer)] for layer in range(4)]
    assert own == [0.0625, 0.125, 0.25, 0.5]
    assert found[block("attention", 0)] == 0.5


def test_without_decay_all_learn_alike():
    assert set(factors(decay=1.0).values()) == {1.0}


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_frozen_embeddings_have_the_factor_0_and_no_others(decay):
    free, frozen = factors(decay), factors(decay, freeze_embeddings=True)

    for name, factor in frozen.items():
        is_embedding = name.startswith("albert/embeddings/")
        assert factor == (0 if is_embedding else free[name])
