import json

import pytest

from albert_tf.checkpoints import metadata
from albert_tf.checkpoints.metadata import Metadata

_ALL = Metadata(
    task="squad",
    do_lower_case=False,
    labels=("ham", "spam"),
    multi_label=True,
    null_threshold=-1.5,
    null_from_cls=True,
    tokenizer_hash="abc",
)
_PLACES = ["", "best", "best/model.ckpt", "checkpoints/step-00000007/model"]


def _folder_of(run, place):
    folder = run / place
    folder = folder.parent if "model" in folder.name else folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(folder, name, values):
    (folder / name).write_text(json.dumps(values))


@pytest.mark.parametrize("place", _PLACES)
def test_what_is_written_beside_weights_is_read(place, tmp_path):
    metadata.write(_folder_of(tmp_path, place), _ALL)

    assert metadata.read(tmp_path / place) == _ALL


def test_a_run_stands_for_its_best_weights(tmp_path):
    for place, threshold in (("checkpoints/step-00000007", 7.0), ("best", 5.0)):
        folder = _folder_of(tmp_path, place)
        metadata.write(folder, Metadata(null_threshold=threshold))

        assert metadata.read(tmp_path).null_threshold == threshold


def test_nothing_known_is_no_file(tmp_path):
    metadata.write(tmp_path, Metadata())

    assert list(tmp_path.iterdir()) == []
    assert metadata.read(tmp_path) == Metadata()
    assert metadata.read(tmp_path / "prefix") == Metadata()


_SEVERAL = Metadata(
    task="custom",
    labels=("a", "b"),
    multi_label=True,
    thresholds=(0.25, 0.75),
    target_mean=-3.0,
    target_scale=0.5,
)


def test_what_tables_need_is_written_and_read(tmp_path):
    metadata.write(tmp_path, _SEVERAL)

    assert metadata.read(tmp_path) == _SEVERAL


def test_the_thresholds_of_an_evaluation_are_known_label_by_label():
    scores = {"threshold_of_b": 0.5, "threshold_of_a": 0.1, "f1_micro": 1.0}

    assert _SEVERAL.tuned(scores).thresholds == (0.1, 0.5)
    assert _SEVERAL.tuned({"threshold_of_a": 0.1}).thresholds is None
    assert _ALL.tuned({"null_threshold": 3.0}).null_threshold == 3


@pytest.mark.parametrize("place", _PLACES)
def test_thresholds_and_scale_are_those_of_the_run(place, tmp_path):
    _folder_of(tmp_path, place)
    settings = {
        "labels": ["a", "b"],
        "multi_label": True,
        "target_mean": -3.0,
        "target_scale": 0.5,
    }
    # Of several seeds, those of the best one.
    results = {"threshold_of_a": 0.1, "threshold_of_b": 0.75}
    results |= {"threshold_of_a_best": 0.25, "threshold_of_b_best": 0.75}
    results["num_seeds"] = 2
    _write(tmp_path, "run.json", {"task": "custom", "settings": settings})
    _write(tmp_path, "eval_results.json", results)

    assert metadata.read(tmp_path / place) == _SEVERAL


def test_a_label_may_end_like_the_result_of_the_best_seed(tmp_path):
    settings = {"labels": ["a", "a_best"], "multi_label": True}
    results = {"threshold_of_a": 0.25, "threshold_of_a_best": 0.75}
    _write(tmp_path, "run.json", {"settings": settings})
    _write(tmp_path, "eval_results.json", results)

    assert metadata.read(tmp_path).thresholds == (0.25, 0.75)


def test_thresholds_may_be_in_another_file_than_the_labels(tmp_path):
    _write(tmp_path, "metadata.json", {"thresholds": [0.25, 0.75]})
    config = {
        "id2label": {"0": "a", "1": "b"},
        "problem_type": "multi_label_classification",
    }
    _write(tmp_path, "config.json", config)

    assert metadata.read(tmp_path) == Metadata(
        labels=("a", "b"), multi_label=True, thresholds=(0.25, 0.75)
    )


def test_the_activation_of_a_preset_means_several_labels(tmp_path):
    _write(tmp_path, "task.json", {"config": {"activation": "sigmoid"}})

    assert metadata.read(tmp_path) == Metadata(multi_label=True)


@pytest.mark.parametrize("place", _PLACES)
def test_the_files_of_a_run_are_read(place, tmp_path):
    _folder_of(tmp_path, place)
    settings = {"labels": ["ham", "spam"], "tokenizer": "abc"}
    _write(tmp_path, "run.json", {"task": "squad", "settings": settings})
    _write(tmp_path, "eval_results.json", {"null_threshold": -1.5})

    assert metadata.read(tmp_path / place) == Metadata(
        task="squad",
        labels=("ham", "spam"),
        null_threshold=-1.5,
        tokenizer_hash="abc",
    )


def test_of_several_seeds_the_threshold_of_the_best_counts(tmp_path):
    results = {"null_threshold": 9.0, "null_threshold_best": -1.5}
    results["num_seeds"] = 2
    _write(tmp_path, "eval_results.json", results)

    assert metadata.read(tmp_path).null_threshold == -1.5


def test_a_fact_beside_the_weights_comes_before_the_run_s(tmp_path):
    _write(tmp_path, "eval_results.json", {"null_threshold": 9.0})
    _write(tmp_path, "run.json", {"task": "squad"})
    metadata.write(_folder_of(tmp_path, "best"), Metadata(null_threshold=2.0))

    found = metadata.read(tmp_path / "best")

    assert (found.null_threshold, found.task) == (2.0, "squad")


def test_the_files_of_hugging_face_are_read(tmp_path):
    names = {"1": "good", "0": "bad"}
    _write(tmp_path, "config.json", {"id2label": names})
    _write(tmp_path, "tokenizer_config.json", {"do_lower_case": False})

    assert metadata.read(tmp_path) == Metadata(
        labels=("bad", "good"), do_lower_case=False
    )


def test_labels_without_names_are_unknown(tmp_path):
    names = {"0": "LABEL_0", "1": "LABEL_1"}
    _write(tmp_path, "config.json", {"id2label": names})

    assert metadata.read(tmp_path) == Metadata()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {
                "problem_type": "multi_label_classification",
                "id2label": {"0": "a", "1": "b"},
            },
            Metadata(labels=("a", "b"), multi_label=True),
        ),
        (
            {
                "problem_type": "single_label_classification",
                "id2label": {"0": "a", "1": "b"},
            },
            Metadata(labels=("a", "b")),
        ),
        # A number has no label, whatever its name.
        (
            {"problem_type": "regression", "id2label": {"0": "stars"}},
            Metadata(labels=()),
        ),
        ({"id2label": {"0": "stars"}}, Metadata()),
        (
            {"architectures": ["AlbertForMultipleChoice"]},
            Metadata(task="race"),
        ),
    ],
)
def test_the_problem_of_a_hugging_face_folder_is_read(
    config, expected, tmp_path
):
    _write(tmp_path, "config.json", config)

    assert metadata.read(tmp_path) == expected


def test_in_a_keras_hub_preset_the_file_has_another_name(tmp_path):
    _write(tmp_path, "metadata.json", {"keras_version": "3", "tasks": []})
    assert metadata.read(tmp_path) == Metadata()

    metadata.write(tmp_path, _ALL, name=metadata.PRESET_METADATA_FILE)

    assert metadata.read(tmp_path) == _ALL


@pytest.mark.parametrize(
    ("file", "values", "words"),
    [
        ("metadata.json", [], "damaged: expected a JSON object"),
        ("metadata.json", {"label": []}, "unknown keys: label. The known"),
        ("metadata.json", {"labels": "ab"}, "damaged: .*labels.*'ab'"),
        ("metadata.json", {"labels": [1]}, "damaged: .*must be text"),
        ("metadata.json", {"labels": ["a", "a"]}, "must differ.*labels=a,a"),
        ("metadata.json", {"multi_label": 1}, "must be true or false"),
        ("metadata.json", {"null_from_cls": 1}, "must be true or false"),
        ("config.json", {"id2label": []}, "JSON object as 'id2label', found l"),
        ("config.json", {"id2label": {"0": 1, "1": 2}}, "must be text"),
        ("config.json", {"id2label": {"0": "a", "1": "a"}}, "must differ"),
        (
            "config.json",
            {"id2label": {"0": "a", "2": "b"}},
            "numbers from 0 to 1. Received: 0, 2",
        ),
        ("run.json", {"settings": []}, "JSON object as 'settings', found list"),
        ("metadata.json", {"task": 1}, "damaged: `task`.*must be text"),
        ("metadata.json", {"tokenizer_hash": 1}, "`tokenizer_hash`"),
        ("metadata.json", {"do_lower_case": 1}, "must be true or false"),
        ("metadata.json", {"null_threshold": "x"}, "`null_threshold` must be"),
        ("metadata.json", {"multi_label": 1}, "must be true or false"),
        ("metadata.json", {"thresholds": 0.5}, "`thresholds` a list"),
        (
            "metadata.json",
            {"labels": ["a"], "thresholds": ["x"]},
            r"`thresholds\[0\]` must be",
        ),
        (
            "metadata.json",
            {"labels": ["a", "b"], "thresholds": [0.5]},
            "`thresholds` must have a number for each of the 2 lab.* 1",
        ),
        ("metadata.json", {"target_scale": "x"}, "`target_scale` must be"),
        ("eval_results.json", [], "damaged: expected a JSON object"),
        ("run.json", [], "damaged: expected a JSON object"),
    ],
)
def test_damaged_files_are_named(file, values, words, tmp_path):
    _write(tmp_path, file, values)

    with pytest.raises(ValueError, match=f"{file}.*{words}"):
        metadata.read(tmp_path)


@pytest.mark.parametrize(
    ("known", "given", "number", "expected"),
    [
        (("ham", "spam"), None, 2, ("ham", "spam")),
        (("ham", "spam"), ("a", "b"), 2, ("a", "b")),
        (None, None, 2, ("0", "1")),
        (None, None, 1, ()),
        ((), None, 1, ()),
    ],
)
def test_labels_are_the_given_or_the_known_ones(known, given, number, expected):
    found = metadata.find_labels(
        Metadata(labels=known), number, where="x", given=given
    )

    assert found == expected


def test_a_single_output_of_several_labels_has_one_name():
    known = Metadata(labels=("spam",), multi_label=True)

    assert metadata.find_labels(known, 1, where="x") == ("spam",)


@pytest.mark.parametrize(
    ("given", "number", "words"),
    [
        (("a", "b"), 3, "means 3 labels, but --labels names 2: a, b. Pass"),
        (("a", "b"), 1, "regression, without labels, but --labels names 2"),
        (None, 3, "means 3 labels, but 'run' names 2: ham, spam"),
    ],
)
def test_the_number_of_labels_must_be_the_model_s(given, number, words):
    known = Metadata(labels=("ham", "spam"))

    with pytest.raises(ValueError, match=words):
        metadata.find_labels(known, number, where="run", given=given)


@pytest.mark.parametrize("given", [("spam", "ham"), ("spam", "eggs")])
def test_labels_in_another_order_are_refused(given):
    known = Metadata(labels=("ham", "spam"))

    with pytest.raises(ValueError, match="other outputs: .* they are ham,spam"):
        metadata.find_labels(known, 2, where="run", given=given)
