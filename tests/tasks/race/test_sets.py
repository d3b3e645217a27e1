import json

import pytest

from albert_tf.tasks.race import sets as sets_lib
from albert_tf.tasks.race.sets import RaceConfig

QUESTION = {
    "id": "q1",
    "context": "Snow is white.",
    "question": "What is white?",
    "options": ["Snow", "Coal", "Grass"],
    "answer": "A",
}


@pytest.fixture
def read(words):
    def make(*uses, **values):
        return sets_lib.read_sets(
            RaceConfig(**values), uses, tokenizer=words, max_seq_length=160
        )

    return make


def levels(one):
    return {example.level for example in one.examples}


def test_each_use_has_its_split(read, race_folder):
    sets = read("train", "eval", "predict", data_dir=str(race_folder))

    assert [len(one.examples) for one in sets.all] == [2, 3, 1]
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
        "eval",
        "predict",
        data_dir=str(race_folder),
        predict_file=str(path),
        article_field="context",
    )

    (example,) = sets.prediction[0].examples
    assert example.article == "Snow is white."
    # Sets may differ in the number of options.
    assert [one.data.num_choices for one in sets.all] == [4, 3]
    export = sets_lib.export_settings(RaceConfig(max_qa_length=9), sets, {})
    assert export == {"max_qa_length": 9, "num_choices": 3, "exit_patience": 0}


@pytest.mark.parametrize(
    ("uses", "values", "message"),
    [
        (["eval"], {}, "--data_dir or --eval_file must be given"),
        (["train"], {"max_qa_length": 160}, "`max_seq_length` must be greater"),
        (
            ["eval"],
            {"high_only": True, "eval_file": "a.jsonl"},
            "a.jsonl has no question of the level high. Leave out --high_only",
        ),
    ],
)
def test_questions_that_cannot_be_used_are_refused(
    uses, values, message, read, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    row = QUESTION | {"article": "Snow is white."}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n", "utf-8")

    with pytest.raises(ValueError, match=message):
        read(*uses, **values)


def test_answers_are_only_needed_before_predictions(read, race_folder):
    test_file = str(race_folder / "RACE" / "test" / "high" / "4.txt")

    assert read("predict", predict_file=test_file).prediction
    with pytest.raises(ValueError, match="1 of 1 questions have no answer"):
        read("eval", eval_file=test_file)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dropout_prob": -0.1}, "`dropout_prob` must be .* at least 0"),
        (
            {"high_only": True, "middle_only": True},
            "--high_only and --middle_only together leave no question",
        ),
        ({"id_field": "article"}, "must have its own name.* 'article'"),
    ],
)
def test_impossible_flags_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        RaceConfig(**values)
