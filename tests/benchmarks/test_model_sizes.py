import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.published_configs import load_config
from benchmarks import model_sizes
from tests import tiny


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base_v2", 11_683_584),
        ("large_v1", 17_683_968),
        ("xlarge_v2", 58_724_864),
        ("xxlarge_v1", 222_595_584),
        ("base_zh", 10_547_968),
    ],
)
def test_published_models_have_the_published_parameters(name, expected):
    assert model_sizes.encoder_parameters(load_config(name)) == expected


@pytest.mark.parametrize(
    ("embedding_size", "strategy", "millions"),
    [
        (128, "all", 12),
        (128, "attention", 64),
        (128, "ffn", 38),
        (128, "none", 89),
        (768, "all", 31),
        (768, "attention", 83),
        (768, "ffn", 57),
        (768, "none", 108),
    ],
)
def test_sharing_strategies_have_the_sizes_of_table_4(
    embedding_size, strategy, millions
):
    config = AlbertConfig(
        vocab_size=30000,
        embedding_size=embedding_size,
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=3072,
        parameter_sharing=strategy,
    )

    count = model_sizes.encoder_parameters(config)

    # The last is 109.08 million by the architecture, 108.49 without pooler.
    assert abs(count / 1e6 - millions) < 1.1


@pytest.mark.parametrize("strategy", ["all", "attention", "ffn", "none"])
def test_the_parts_add_up_to_the_built_model(strategy):
    config = tiny.config(
        parameter_sharing=strategy, num_hidden_groups=2, inner_group_num=2
    )
    parts = model_sizes.encoder_parts(config)
    parts += model_sizes.head_parts(config)

    built = PretrainingModel(config).count_params()

    assert sum(part.parameters for part in parts) == built


def test_a_window_has_scores_of_three_blocks():
    parts = {
        window: model_sizes.encoder_parts(
            tiny.config(attention_window=window), length=1000
        )
        for window in (0, 10)
    }

    # 3 layers, H = 8; scores and averages.
    fewer = sum(part.flops for part in parts[0]) - sum(
        part.flops for part in parts[10]
    )
    assert fewer == 3 * 2 * 2 * (1000 - 30) * 8


def test_operations_of_one_layer_by_hand():
    config = AlbertConfig(
        vocab_size=100,
        embedding_size=2,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )

    flops = {
        part.name: part.flops
        for list_parts in (model_sizes.encoder_parts, model_sizes.head_parts)
        for part in list_parts(config, length=10)
    }

    assert flops["embedding projection"] == 2 * 2 * 4
    # Four 4x4 products; 10 scores of 4 entries, 10 values of 4.
    assert flops["attention sublayers"] == 2 * (4 * 16 + 10 * 4 + 10 * 4)
    assert flops["feed-forward sublayers"] == 2 * (4 * 8 + 8 * 4)
    # 15% of the positions: 4x2 transform and 2x100 decoder.
    assert flops["masked-LM head"] == pytest.approx(
        0.15 * 2 * (4 * 2 + 2 * 100)
    )
    # Once for each sequence of 10.
    assert flops["pooler"] == pytest.approx(2 * 4 * 4 / 10)
    assert flops["sentence-order head"] == pytest.approx(2 * 4 * 2 / 10)
