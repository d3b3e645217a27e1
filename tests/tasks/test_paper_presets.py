import pytest

from albert_tf.published_configs import load_config
from albert_tf.tasks import paper_presets
from albert_tf.tasks.classification import glue
from albert_tf.training import run_config

# Lan et al. 2020, table 14: rate, batch, ALBERT dropout, classifier dropout,
# steps, warm-up, length.
TABLE_14 = """
CoLA     1e-5  16  0    0.1  5336  320  512
STS-B    2e-5  16  0    0.1  3598  214  512
SST-2    1e-5  32  0    0.1  20935 1256 512
MNLI     3e-5  128 0    0.1  10000 1000 512
QNLI     1e-5  32  0    0.1  33112 1986 512
QQP      5e-5  128 0.1  0.1  14000 1000 512
RTE      3e-5  32  0.1  0.1  800   200  512
MRPC     2e-5  32  0    0.1  800   200  512
WNLI     2e-5  16  0.1  0.1  2000  250  512
squad_v1 5e-5  48  0    0.1  3649  365  384
squad_v2 3e-5  48  0    0.1  8144  814  512
race     2e-5  32  0.1  0.1  12000 1000 512
"""
ROWS = [line.split() for line in TABLE_14.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_settings_are_those_of_the_table(row):
    found = paper_presets.paper_settings(row[0].lower())

    assert [
        found.learning_rate,
        found.train_batch_size,
        found.albert_dropout,
        found.dropout_prob,
        found.num_train_steps,
        found.num_warmup_steps,
        found.max_seq_length,
    ] == [float(number) for number in row[1:]]


def test_every_glue_task_has_settings():
    for name in glue.GLUE_DATASETS:
        for preset in run_config.PRESETS:
            assert paper_presets.paper_settings(name, preset)


def test_the_second_version_has_its_own_for_race_alone():
    for row in ROWS:
        first, second = (
            paper_presets.paper_settings(row[0].lower(), preset)
            for preset in ("paper", "paper_v2")
        )
        assert (first == second) == (row[0] != "race")

    race = paper_presets.paper_settings("race", "paper_v2")
    assert (race.learning_rate, race.albert_dropout) == (1e-5, 0)


def test_dropout_goes_into_the_config():
    config = load_config("base_v1")

    found = paper_presets.paper_settings("cola").with_dropout(config)

    assert config.hidden_dropout_prob == 0.1
    assert found.hidden_dropout_prob == 0
    assert found.attention_probs_dropout_prob == 0


def test_what_the_paper_does_not_have_is_refused():
    with pytest.raises(ValueError, match="no settings for the task 'custom'"):
        paper_presets.paper_settings("custom")
