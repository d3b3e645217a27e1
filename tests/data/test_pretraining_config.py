import pytest

from albert_tf.data import pretraining_config


def test_the_defaults_are_the_original_s():
    config = pretraining_config.PretrainingDataConfig()

    assert config.max_seq_length == 512
    assert config.num_prediction_slots == 20
    assert config.dupe_factor == 40
    assert config.token_budget == 509


def test_single_segments_have_one_separator_less():
    config = pretraining_config.PretrainingDataConfig(pair_objective="none")

    assert config.token_budget == 510


def test_permutation_doubles_the_prediction_slots():
    config = pretraining_config.PretrainingDataConfig(do_permutation=True)

    assert config.num_prediction_slots == 40


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("masking", "none"),
        ("pair_objective", "order"),
        ("max_seq_length", 7),
        ("max_predictions_per_seq", 0),
        ("max_predictions_per_seq", 510),
        ("masked_lm_prob", -0.1),
        ("masked_lm_prob", 0),
        ("masked_lm_prob", 1.5),
        ("masked_lm_prob", float("nan")),
        ("short_seq_prob", 1.5),
        ("ngram", 0),
        ("dupe_factor", 0),
        ("random_seed", -1),
    ],
)
def test_an_impossible_value_is_an_error_that_names_the_field(field, value):
    with pytest.raises(ValueError, match=f"`{field}` must be .*Received"):
        pretraining_config.PretrainingDataConfig(**{field: value})


def test_dynamic_masks_do_not_permute():
    with pytest.raises(ValueError, match="`do_permutation` needs"):
        pretraining_config.PretrainingDataConfig(
            masking="dynamic", do_permutation=True
        )


def test_reference_pairs_need_sentence_order():
    with pytest.raises(ValueError, match="`reference_pairs` changes"):
        pretraining_config.PretrainingDataConfig(
            pair_objective="nsp", reference_pairs=True
        )


def test_a_vocabulary_needs_a_file():
    with pytest.raises(ValueError, match="No vocabulary"):
        pretraining_config.Vocabulary().load()
