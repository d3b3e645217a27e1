import json

import pytest

from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.spec import DataRequest
from albert_tf.tasks.squad import sets as sets_lib
from albert_tf.tasks.squad.sets import SquadConfig
from albert_tf.tasks.squad.windows import WindowLengths

ANSWERED = {"answers": [{"text": "white", "answer_start": 8}]}
IMPOSSIBLE = {"answers": [], "is_impossible": True}
UNKNOWN = {"answers": []}


@pytest.fixture
def read(tmp_path, words):
    """Writes files of one question each, and reads the sets they make."""

    def make(uses, *, settings=None, **rows):
        paths = {}
        for name, row in rows.items():
            question = {"id": name, "question": "What?"} | row
            paragraph = {"context": "Snow is white.", "qas": [question]}
            path = tmp_path / f"{name}.json"
            content = {"data": [{"paragraphs": [paragraph]}]}
            path.write_text(json.dumps(content), "utf-8")
            paths[name] = str(path)
        config = SquadConfig(**paths, **settings or {})
        return sets_lib.read_sets(
            config,
            DataRequest(uses=uses, tokenizer=words, max_seq_length=96),
        )

    return make


def guids(sets):
    return [[example.guid for example in one.examples] for one in sets]


def test_each_use_has_its_file(read):
    sets = read(
        ["train", "eval", "predict"],
        settings={"n_best_size": 3, "doc_stride": 32, "max_query_length": 16},
        train_file=ANSWERED,
        eval_file=ANSWERED,
        predict_file=UNKNOWN,
    )

    assert guids(sets.all) == [["train_file"], ["eval_file"], ["predict_file"]]
    assert sets.data.name == "squad_v1"
    assert sets.data.lengths == WindowLengths(
        max_seq_length=96, doc_stride=32, max_query_length=16
    )
    assert sets.data.limits.n_best_size == 3


@pytest.mark.parametrize("uses", [["predict"], ["eval", "predict"]])
def test_predicted_questions_with_answers_are_evaluated(uses, read):
    sets = read(uses, predict_file=ANSWERED)

    # The same object, so that its windows and outputs are made once.
    assert sets.evaluation[0] is sets.prediction[0]


def test_a_file_to_evaluate_or_else_the_predicted_one_is_evaluated(read):
    rows = {"train_file": ANSWERED, "eval_file": ANSWERED}

    # Without being asked.
    assert guids(read(["train"], **rows).evaluation) == [["eval_file"]]
    found = read(["eval"], predict_file=ANSWERED).evaluation
    assert guids(found) == [["predict_file"]]


def test_predicted_questions_without_answers_are_not_evaluated(read):
    assert not read(["predict"], predict_file=UNKNOWN).evaluation
    assert not read(["predict"], predict_file=IMPOSSIBLE).evaluation
    version_2 = {"version_2_with_negative": True}
    assert read(
        ["predict"], predict_file=IMPOSSIBLE, settings=version_2
    ).evaluation
    assert read(["train"], train_file=IMPOSSIBLE, settings=version_2).train


def test_an_export_answers_as_the_run_did(read):
    settings = {"doc_stride": 32, "version_2_with_negative": True}
    data = read(["train"], train_file=ANSWERED, settings=settings).data

    threshold = Score("null_threshold", 1.5, Role.THRESHOLD)
    scores = Scores(entries=(threshold,))

    chosen = sets_lib.FINETUNING.chosen
    assert chosen(data, scores) == {"null_score_diff_threshold": 1.5}
    # Without an evaluation, it is that of the weights.
    assert chosen(data, Scores()) == {"null_score_diff_threshold": None}
