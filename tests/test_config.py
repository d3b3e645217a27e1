import json
import operator

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.published_configs import PUBLISHED_SIZES, load_config


def test_defaults_are_those_of_xxlarge():
    assert AlbertConfig(vocab_size=30000) == load_config("xxlarge_v2")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"vocab_size": 0}, "`vocab_size` must be a whole number.*=0"),
        ({"hidden_dropout_prob": 1.0}, "`hidden_dropout_prob` .* below 1"),
        ({"initializer_range": "wide"}, "`initializer_range`.*'wide'"),
        (
            {"hidden_act": "swish"},
            "one of gelu, gelu_erf, relu, silu, tanh, linear.*'swish'",
        ),
        ({"parameter_sharing": "half"}, "one of all, attention, ffn, none"),
        (
            {"hidden_size": 512, "num_attention_heads": 6},
            "multiple of `num_attention_heads`.*hidden_size=512",
        ),
        (
            {"num_hidden_layers": 2, "num_hidden_groups": 3},
            "`num_hidden_groups` .*at most 2.*groups=3",
        ),
        ({"num_hidden_layers": 10**9}, "at most 10000.*=1000000000"),
    ],
)
def test_impossible_values_are_refused_by_name(fields, words):
    with pytest.raises(ValueError, match=words):
        AlbertConfig(**{"vocab_size": 9, **fields})


@pytest.mark.parametrize("num_layers", [12, 22, 47])
def test_groups_take_equal_runs_of_layers(num_layers):
    # In floating point, 22 groups of 22 layers would use one group twice.
    config = AlbertConfig(
        vocab_size=9, num_hidden_layers=num_layers, num_hidden_groups=num_layers
    )

    groups = [config.group_of_layer(layer) for layer in range(num_layers)]

    assert groups == list(range(num_layers))


@pytest.mark.parametrize(
    ("strategy", "attention", "feed_forward"),
    [
        ("all", (0, 0, 1, 1), (0, 0, 1, 1)),
        ("attention", (0, 0, 1, 1), (0, 1, 2, 3)),
        ("ffn", (0, 1, 2, 3), (0, 0, 1, 1)),
        ("none", (0, 1, 2, 3), (0, 1, 2, 3)),
    ],
)
def test_layers_of_a_group_share_what_the_strategy_says(
    strategy, attention, feed_forward
):
    config = AlbertConfig(
        vocab_size=9,
        num_hidden_layers=4,
        num_hidden_groups=2,
        parameter_sharing=strategy,
    )

    for half, expected in (("attention", attention), ("ffn", feed_forward)):
        found = tuple(config.weight_set(half, layer) for layer in range(4))
        assert found == expected
        assert config.num_weight_sets(half) == len(set(expected))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gap_size": 1}, "another 'gap_size' than 0 are not"),
        # To remove it would compute another model.
        (
            {"ln_type": "preln"},
            "^Models with another 'ln_type' than 'postln' are not supported. "
            "Received: ln_type='preln'.$",
        ),
        ({"layer_norm_eps": 1e-5}, "another 'layer_norm_eps' than 1e-12 are"),
        ({"hiden_size": 8}, "Unknown config key 'hiden_size'"),
    ],
)
def test_keys_that_would_be_ignored_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        AlbertConfig.from_dict({"vocab_size": 9} | values)


def test_the_size_of_the_vocabulary_is_needed():
    with pytest.raises(ValueError, match="no 'vocab_size'"):
        AlbertConfig.from_dict({"hidden_size": 64})


def test_keys_of_albert_zh_are_read():
    # brightmart/albert_zh, albert_config_base.json.
    sizes = {"fc_size": 768, "num_attention_heads": 12, "num_fc_layers": 3}
    sizes |= {"size_per_head": 128, "type": "first_token_transform"}
    unread = {f"pooler_{name}": value for name, value in sizes.items()}
    unread |= {"directionality": "bidi", "ln_type": "postln"}

    config = AlbertConfig.from_dict({"vocab_size": 21128} | unread)

    assert config == AlbertConfig(vocab_size=21128)


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "albert_config.json"
    path.write_text('{"vocab_size": -1}')

    with pytest.raises(ValueError, match="albert_config.json: `vocab_size` m"):
        AlbertConfig.from_json_file(path)


def test_the_config_of_a_released_model_is_ours(shared_data):
    path = shared_data / "data" / "configs" / "albert_base_zh_google.json"

    assert AlbertConfig.from_json_file(path) == load_config("base_zh")


def test_sizes_of_the_paper():
    # Lan et al. 2020, table 1; heads of the released configs.
    expected = {
        "base_v1": (12, 768, 128, 3072, 12),
        "large_v1": (24, 1024, 128, 4096, 16),
        "xlarge_v1": (24, 2048, 128, 8192, 16),
        "xxlarge_v1": (12, 4096, 128, 16384, 64),
        "xxlarge_zh": (12, 4096, 128, 16384, 16),
        "bert_base": (12, 768, 768, 3072, 12),
        "bert_large": (24, 1024, 1024, 4096, 16),
    }
    sizes = operator.attrgetter(
        *("num_hidden_layers", "hidden_size", "embedding_size"),
        *("intermediate_size", "num_attention_heads"),
    )

    for name, numbers in expected.items():
        assert sizes(load_config(name)) == numbers


def test_every_published_size_is_possible():
    for name in PUBLISHED_SIZES:
        config = load_config(name)
        text = json.dumps(config.to_dict())
        assert AlbertConfig.from_dict(json.loads(text)) == config


def test_a_config_is_loaded_from_a_file_or_by_a_published_name(tmp_path):
    path = tmp_path / "albert_config.json"
    load_config("base_zh").to_json_file(path)

    assert load_config(str(path)) == load_config("base_zh")
    with pytest.raises(FileNotFoundError, match="base_v3 is neither.*base_v1"):
        load_config("base_v3")
