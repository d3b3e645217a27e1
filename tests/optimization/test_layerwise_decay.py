import keras
import pytest

from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.optimization import layerwise_decay
from tests import tiny

EMBEDDINGS = "albert/embeddings/word_embeddings"
PROJECTION = "albert/encoder/embedding_projection/kernel"
POOLER = "albert/pooler/kernel"
HEAD = "sentence_order_head/output_weights"


def multipliers(decay=0.5, freeze_embeddings=False, **settings):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("plain Python, whose models are slow to build elsewhere")
    model = PretrainingModel(tiny.config(num_hidden_layers=4, **settings))
    return layerwise_decay.learning_rate_multipliers(
        [variable.path for variable in model.trainable_variables],
        decay=decay,
        freeze_embeddings=freeze_embeddings,
    )


def attention(weight_set):
    return f"albert/encoder/attention_{weight_set}_0/query/kernel"


def feed_forward(weight_set):
    return f"albert/encoder/feed_forward_{weight_set}_0/intermediate/kernel"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            # Four levels; a layer norm is on that of its neighbours.
            {},
            {
                EMBEDDINGS: 0.125,
                "albert/embeddings/layer_norm/beta": 0.125,
                PROJECTION: 0.25,
                attention(0): 0.5,
                feed_forward(0): 0.5,
                POOLER: 1,
                HEAD: 1,
            },
        ),
        # Without a projection there is no level for it.
        ({"embedding_size": 8}, {EMBEDDINGS: 0.25}),
        (
            # Each group is a level.
            {"num_hidden_groups": 2},
            {attention(1): 0.5, feed_forward(1): 0.5}
            | {attention(0): 0.25, EMBEDDINGS: 0.0625},
        ),
        (
            # A shared half belongs to the last layers that use it.
            {"parameter_sharing": "attention"},
            {attention(0): 0.5}
            | {feed_forward(i): 0.5 ** (4 - i) for i in range(4)},
        ),
    ],
)
def test_each_level_has_half_the_rate_of_the_level_above(settings, expected):
    assert expected.items() <= multipliers(**settings).items()


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_only_frozen_embeddings_have_the_multiplier_0(decay):
    free = multipliers(decay)
    frozen = multipliers(decay, freeze_embeddings=True)

    for name, multiplier in frozen.items():
        is_embedding = name.startswith("albert/embeddings/")
        assert multiplier == (0 if is_embedding else free[name])
