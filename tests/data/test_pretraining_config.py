import pytest

from albert_tf.data.pretraining_config import PretrainingDataConfig


def test_the_defaults_are_the_original_s():
    config = PretrainingDataConfig()

    assert config.max_seq_length == 512
    assert config.num_prediction_slots == 20
    assert config.dupe_factor == 40
    assert config.pair_objective == "sop"
    assert config.token_budget == 509


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        ({"pair_objective": "none"}, "token_budget", 510),
        ({"do_permutation": True}, "num_prediction_slots", 40),
        ({"masking": "dynamic"}, "dupe_factor", 1),
        ({"masking": "dynamic", "dupe_factor": 5}, "dupe_factor", 5),
        ({"random_next_sentence": True}, "pair_objective", "nsp"),
        ({}, "keep_more_text", False),
        ({"pair_objective": "nsp"}, "keep_more_text", False),
        ({"pair_objective": "none"}, "keep_more_text", True),
        ({"masking": "dynamic"}, "keep_more_text", True),
        (
            {"masking": "dynamic", "reference_pairs": True},
            "keep_more_text",
            False,
        ),
    ],
)
def test_settings_follow_from_others(settings, name, value):
    assert getattr(PretrainingDataConfig(**settings), name) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("masking", "none"),
        ("pair_objective", "order"),
        ("runner", "cluster"),
        ("deduplicate", "all"),
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
        ("num_workers", 0),
        ("random_seed", -1),
        ("max_bad_lines", -1),
    ],
)
def test_an_impossible_value_is_an_error_that_names_the_field(field, value):
    with pytest.raises(ValueError, match=f"`{field}` must be .*Received"):
        PretrainingDataConfig(**{field: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"masking": "dynamic", "do_permutation": True},
            "`do_permutation` needs",
        ),
        (
            {"pair_objective": "nsp", "reference_pairs": True},
            "`reference_pairs` changes",
        ),
        (
            {"reference_pairs": True, "keep_more_text": True},
            "excludes `keep_more_text`",
        ),
        (
            {"pair_objective": "none", "keep_more_text": False},
            "never cut off.*needs `keep_more_text`",
        ),
        (
            {"pair_objective": "sop", "random_next_sentence": True},
            "`random_next_sentence` means",
        ),
    ],
)
def test_settings_that_exclude_each_other_are_an_error(settings, message):
    with pytest.raises(ValueError, match=message):
        PretrainingDataConfig(**settings)


def test_records_do_not_depend_on_where_files_are_or_who_builds():
    here = PretrainingDataConfig(pair_objective="nsp")
    there = PretrainingDataConfig(
        input_file="a",
        output_file="b",
        vocab_file="c",
        text_field="d",
        max_bad_lines=3,
        num_workers=2,
        random_next_sentence=True,
    )

    assert here.record_settings() == there.record_settings()
    assert (
        here.record_settings()
        != PretrainingDataConfig(ngram=2).record_settings()
    )
