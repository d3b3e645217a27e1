import json

import pytest

from albert_tf.tasks.race import sets as sets_lib
from albert_tf.tasks.race.sets import RaceConfig
from albert_tf.tasks.spec import DataRequest
from tests.tasks.race.conftest import QUESTION


@pytest.fixture
def read(words):
    def make(*uses, **values):
        return sets_lib.read_sets(
            RaceConfig(**values),
            DataRequest(uses=uses, tokenizer=words, max_seq_length=160),
        )

    return make


def levels(example_set):
    return {example.level for example in example_set.examples}


def test_each_use_has_its_split(read, race_folder):
    sets = read("train", "eval", "predict", data_dir=str(race_folder))

    assert [len(one.examples) for one in sets.all] == [2, 3, 1]
    # The answers of those to predict are not known.
    assert sets.prediction[0].examples[0].label is None
    assert sets.data.lengths.max_seq_length == 160
    assert sets.data.num_choices == 4


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"middle", "high"}),
        ({"middle_only": True}, {"middle"}),
        ({"high_only": True}, {"high"}),
    ],
)
def test_levels_may_be_left_out(values, expected, read, race_folder):
    sets = read("eval", data_dir=str(race_folder), **values)
    passages = race_folder / "all.txt"
    passages.write_text(
        "\n".join(
            path.read_text("utf-8")
            for path in (race_folder / "RACE" / "dev").rglob("*.txt")
        )
    )
    of_file = read("eval", eval_file=str(passages), **values)

    assert levels(sets.evaluation[0]) == expected
    assert levels(of_file.evaluation[0]) == expected


def test_a_file_replaces_its_split(read, race_folder, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(QUESTION) + "\n", "utf-8")

    sets = read(
        "eval", "predict", data_dir=str(race_folder), predict_file=str(path)
    )

    (example,) = sets.prediction[0].examples
    assert example.article == "Snow is white."
    # Sets may differ in the number of options.
    assert [one.data.num_choices for one in sets.all] == [4, 3]


def test_record_files_of_the_original_are_ignored(read, race_folder, caplog):
    sets = read("train", data_dir=str(race_folder), train_file="a.tf_record")

    assert len(sets.train.examples) == 2
    assert "--train_file=a.tf_record is ignored" in caplog.text
