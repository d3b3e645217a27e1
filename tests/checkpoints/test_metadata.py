import json

import pytest

from albert_tf.export import beside_checkpoint


def leave_run(folder, *labels):
    identity = {"settings": {"labels": labels}}
    (folder / "run.json").write_text(json.dumps(identity))


@pytest.mark.parametrize(
    "path", ["", "best", "best/model", "checkpoints/model-7/model"]
)
def test_the_labels_of_a_run(path, tmp_path):
    leave_run(tmp_path, "ham", "spam")
    place = tmp_path / path
    folder = place.parent if place.name == "model" else place
    folder.mkdir(parents=True, exist_ok=True)

    assert beside_checkpoint.find_labels(place, 2) == ("ham", "spam")


def test_the_labels_of_hugging_face(tmp_path):
    names = {"1": "good", "0": "bad"}
    (tmp_path / "config.json").write_text(json.dumps({"id2label": names}))

    assert beside_checkpoint.find_labels(tmp_path, 2) == ("bad", "good")


def test_labels_that_say_nothing_are_numbers(tmp_path):
    names = {"0": "LABEL_0", "1": "LABEL_1"}
    (tmp_path / "config.json").write_text(json.dumps({"id2label": names}))

    assert beside_checkpoint.find_labels(tmp_path, 2) == ("0", "1")
    assert beside_checkpoint.find_labels(tmp_path / "prefix", 1) == ()


def test_given_labels_come_first(tmp_path):
    leave_run(tmp_path, "ham", "spam")

    assert beside_checkpoint.find_labels(tmp_path, 2, ("a", "b")) == ("a", "b")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (3, "3 outputs, which is 3 labels; --labels names 2: a, b"),
        (1, "1 outputs, which is regression: no labels; --labels names 2"),
    ],
)
def test_too_many_or_too_few_labels(number, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        beside_checkpoint.find_labels(tmp_path, number, ("a", "b"))


@pytest.mark.parametrize("key", ["null_threshold", "null_threshold_best"])
def test_the_null_threshold_of_a_run(key, tmp_path):
    results = {"null_threshold": 9.0, key: -1.5}
    (tmp_path / "eval_results.json").write_text(json.dumps(results))
    (tmp_path / "best").mkdir()

    found = beside_checkpoint.find_null_threshold(tmp_path / "best" / "model")

    assert found == -1.5


def test_no_run(tmp_path):
    assert beside_checkpoint.find_null_threshold(tmp_path / "model") is None


def test_damaged_results(tmp_path):
    (tmp_path / "eval_results.json").write_text("[")

    with pytest.raises(ValueError, match="damaged: wanted a JSON object"):
        beside_checkpoint.find_null_threshold(tmp_path)
