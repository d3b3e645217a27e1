"""Schedules as text, and the phases that they make together."""

from albert_tf.training.run_config import Phase
from tests.training.test_refusals import pretraining


def phases_of(**schedules):
    config = pretraining(train_batch_size=64, **schedules)
    return [
        (one.first_step, one.depth, one.max_seq_length, one.batch_size)
        for one in config.phases
    ]


def test_the_defaults_are_those_of_the_paper():
    config = pretraining(num_train_steps=125_000)

    assert config.train_batch_size == 4096
    assert config.objectives == ("mlm", "sop")
    assert config.primary_metric == "masked_lm_loss"
    assert config.phases == (
        Phase(first_step=0, depth=12, max_seq_length=64, batch_size=4096),
    )


def test_a_phase_has_the_share_of_masks_of_its_schedule():
    def shares(**settings):
        return [one.masked_lm_prob for one in pretraining(**settings).phases]

    assert shares() == [None]
    assert shares(masked_lm_prob=0.2) == [None]
    assert shares(mask_schedule="0.3@0,1@5,0.15@9") == [0.3, 1, 0.15]
    assert shares(depth_schedule="6@0,12@5") == [None, None]


def test_phases_begin_wherever_a_schedule_changes():
    found = phases_of(
        depth_schedule="3@0,6@30,12@60%",
        length_schedule="16@0,64@90",
        batch_schedule="32@0%,64@30",
    )

    assert found == [
        (0, 3, 16, 32),
        (30, 6, 16, 64),
        (60, 12, 16, 64),
        (90, 12, 64, 64),
    ]
