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
