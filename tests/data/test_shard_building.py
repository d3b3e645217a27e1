"""What a build does with its files is tested in test_builder.py."""

import pytest

from albert_tf.data import shard_building
from albert_tf.data.pretraining_config import PretrainingDataConfig
from tests.data.records import make_shard


def output_files(names):
    config = PretrainingDataConfig(output_file=names)
    return shard_building.output_files(config)


def test_output_files_are_separated_by_commas():
    assert output_files(" a, b/c ,,d,e@2") == [
        *("a", "b/c", "d", "e-00000-of-00002", "e-00001-of-00002")
    ]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", "3"), ("0-2", "012"), ("5, 1-2", "125"), (None, "0123456")],
)
def test_shards_are_chosen_by_numbers_and_ranges(text, numbers):
    config = PretrainingDataConfig(shards=text)

    assert shard_building.chosen(config, [*"0123456"]) == [*numbers]


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        ("", "exists already, and has no sidecar"),
        (".index", "exists already, and has no sidecar"),
        (".json", "is in the place of a sidecar"),
    ],
)
def test_a_file_of_the_user_is_not_overwritten(tmp_path, suffix, message):
    (tmp_path / f"train{suffix}").write_text("{}")
    planned = make_shard(str(tmp_path / "train"))

    with pytest.raises(ValueError, match=rf"train{suffix}' {message}"):
        shard_building.finished(planned)


def test_a_sidecar_whose_records_were_removed_may_be_replaced(tmp_path):
    path = str(tmp_path / "train")
    shard_building.write_sidecar(make_shard(path, ngram=2))

    assert shard_building.finished(make_shard(path)) is None


def test_a_shard_that_was_finished_meanwhile_is_not_written_again(tmp_path):
    planned = make_shard(str(tmp_path / "out"))
    shard_building.write(planned, [])

    with pytest.raises(ValueError, match="in the meantime"):
        shard_building.write(planned, [])
