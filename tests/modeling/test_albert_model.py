import numpy as np
import pytest

from albert_tf.config import published_config
from albert_tf.modeling import summary
from albert_tf.modeling.albert_model import AlbertModel
from tests import tiny


@pytest.fixture
def dropping_config():
    return tiny.config(
        hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2
    )


def test_hidden_states_are_returned_if_asked_for(tiny_config, tiny_batch):
    plain = AlbertModel(tiny_config)(tiny_batch)
    full = AlbertModel(tiny_config, output_hidden_states=True)(tiny_batch)

    states = full.pop("hidden_states")
    assert [state.shape for state in states] == [(2, 5, 8)] * 4
    np.testing.assert_array_equal(states[-1], full["sequence_output"])
    assert list(plain) == list(full)
    for name, values in plain.items():
        np.testing.assert_array_equal(values, full[name])


def test_mask_and_segments_default_to_ones_and_zeros(tiny_config, tiny_batch):
    model = AlbertModel(tiny_config)
    ids = tiny_batch["input_ids"]

    short = model({"input_ids": ids})
    full = model(
        {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
        }
    )

    np.testing.assert_array_equal(
        short["sequence_output"], full["sequence_output"]
    )


def test_refuses_sequences_longer_than_the_positions(tiny_config):
    with pytest.raises(ValueError, match="of 8 tokens. Shorten the seq"):
        AlbertModel(tiny_config)({"input_ids": np.zeros((1, 8), "int32")})


def test_the_seed_decides_all_weights(tiny_config):
    first, again, other = (
        AlbertModel(tiny_config, seed=seed) for seed in (4, 4, 5)
    )

    for x, y, z in zip(
        first.weights, again.weights, other.weights, strict=True
    ):
        np.testing.assert_array_equal(x, y)
        if x.name not in ("beta", "gamma", "bias"):
            assert (np.asarray(x) != np.asarray(z)).any(), x.path


def test_no_two_variables_start_alike():
    model = AlbertModel(tiny.config(parameter_sharing="none"))

    kernels = [np.asarray(w) for w in model.weights if w.name == "kernel"]

    assert len({kernel.ravel()[0] for kernel in kernels}) == len(kernels)


def test_dropout_acts_in_training_only(dropping_config, tiny_batch):
    model = AlbertModel(dropping_config)

    def run(**arguments):
        return np.asarray(model(tiny_batch, **arguments)["pooled_output"])

    np.testing.assert_array_equal(run(), run(seed=[1, 2]))
    assert (run() != run(training=True, seed=[1, 2])).any()


def test_the_seed_of_a_call_decides_its_masks(dropping_config, tiny_batch):
    model = AlbertModel(dropping_config)

    def run(seed):
        outputs = model(tiny_batch, training=True, seed=np.array(seed))
        return np.asarray(outputs["pooled_output"])

    np.testing.assert_array_equal(run([1, 2]), run([1, 2]))
    assert (run([1, 2]) != run([1, 3])).any()


def test_without_a_seed_every_call_drops_others(dropping_config, tiny_batch):
    model = AlbertModel(dropping_config)

    first, second = (
        np.asarray(model(tiny_batch, training=True)["pooled_output"])
        for _ in range(2)
    )

    assert (first != second).any()


def test_the_dropout_seed_is_for_training_and_given_before_drawn(tiny_config):
    model = AlbertModel(tiny_config)

    assert model.dropout_seed(training=False, seed=[1, 2]) is None
    assert model.dropout_seed(training=True, seed=[1, 2]) == [1, 2]
    assert model.dropout_seed(training=True, seed=None).shape == (2,)


def test_published_base_has_the_published_number_of_parameters():
    model = AlbertModel(published_config("base_v2"))

    assert model.count_params() == 11_683_584


@pytest.mark.parametrize("strategy", ["all", "attention", "ffn", "none"])
def test_the_formula_counts_what_is_built(strategy):
    config = tiny.config(
        parameter_sharing=strategy, num_hidden_groups=2, inner_group_num=2
    )

    built = AlbertModel(config).count_params()

    assert built == summary.encoder_parameters(config)


def test_a_bert_configuration_is_a_model_too(tiny_batch):
    bert = tiny.config(embedding_size=8, parameter_sharing="none")

    outputs = AlbertModel(bert)(tiny_batch)

    assert np.isfinite(outputs["sequence_output"]).all()
