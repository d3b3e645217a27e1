import json

import pytest

from albert_tf.checkpoints import metadata
from albert_tf.checkpoints.metadata import Metadata

_SPAN = Metadata(
    task="squad",
    do_lower_case=False,
    null_threshold=-1.5,
    null_from_cls=True,
    tokenizer_hash="abc",
)
_SEVERAL = Metadata(
    task="custom",
    labels=("a", "b"),
    multi_label=True,
    thresholds=(0.25, 0.75),
    target_mean=-3.0,
    target_scale=0.5,
)
_PLACES = ["", "best/model.ckpt", "checkpoints/step-00000007/model"]
_MULTI = {"problem_type": "multi_label_classification"}


def _folder_of(run, place):
    folder = run / place
    folder = folder.parent if "model" in folder.name else folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(folder, name, values):
    (folder / name).write_text(json.dumps(values))


@pytest.mark.parametrize("known", [_SPAN, _SEVERAL])
@pytest.mark.parametrize("place", _PLACES)
def test_what_is_written_beside_weights_is_read(place, known, tmp_path):
    metadata.write(_folder_of(tmp_path, place), known)

    assert metadata.read(tmp_path / place) == known


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


def test_the_thresholds_of_an_evaluation_are_known_label_by_label():
    scores = {"threshold_of_b": 0.5, "threshold_of_a": 0.1, "f1_micro": 1.0}
    some = {"threshold_of_a": 0.1}

    assert _SEVERAL.with_thresholds(scores).thresholds == (0.1, 0.5)
    assert _SEVERAL.with_thresholds(some).thresholds is None
    assert _SPAN.with_thresholds({"null_threshold": 3.0}).null_threshold == 3


@pytest.mark.parametrize(
    ("labels", "results", "scores", "thresholds"),
    [
        (("a", "b"), {"a": 0.1, "b": 0.5}, {}, (0.1, 0.5)),
        # A label may end like the result of the best seed.
        (
            ("a", "a_best"),
            {"a": 0.25, "a_best": 0.75},
            {"num_seeds": 2},
            (0.25, 0.75),
        ),
    ],
)
@pytest.mark.parametrize("place", _PLACES)
def test_weights_evaluated_later_have_the_thresholds_of_the_run(
    place, labels, results, scores, thresholds, tmp_path
):
    known = Metadata(labels=labels, multi_label=True)
    metadata.write(_folder_of(tmp_path, place), known)
    results = {f"threshold_of_{name}": t for name, t in results.items()}
    scores = scores | {"null_threshold": 9.0}
    _write(tmp_path, "eval_results.json", results | scores)

    found = metadata.read(tmp_path / place)

    assert (found.thresholds, found.null_threshold) == (thresholds, 9.0)


def test_a_fact_beside_the_weights_comes_before_the_run_s(tmp_path):
    _write(tmp_path, "eval_results.json", {"null_threshold": 9.0})
    metadata.write(_folder_of(tmp_path, "best"), Metadata(null_threshold=2.0))

    assert metadata.read(tmp_path / "best").null_threshold == 2


_THRESHOLDS = {"metadata.json": {"thresholds": [0.25, 0.75]}}
_CASED = {"tokenizer_config.json": {"do_lower_case": False}}
_NUMBER = {"problem_type": "regression"}
_CHOICE = {"architectures": ["AlbertForMultipleChoice"]}
_SIGMOID = {"task.json": {"config": {"activation": "sigmoid"}}}
_KERAS_HUB = {
    "metadata.json": {"keras_version": "3", "tasks": []},
    "albert_metadata.json": {"task": "race"},
}


def _config(*labels, **fields):
    names = {str(number): label for number, label in enumerate(labels)}
    return {"config.json": {"id2label": names} | fields}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            _config("b", "a") | _CASED,
            {"labels": ("b", "a"), "do_lower_case": False},
        ),
        (_config("LABEL_0", "LABEL_1"), {}),
        (
            _config("a", "b", **_MULTI) | _THRESHOLDS,
            {
                "labels": ("a", "b"),
                "multi_label": True,
                "thresholds": (0.25, 0.75),
            },
        ),
        # A number has no label, whatever its name.
        (_config("stars", **_NUMBER), {"labels": ()}),
        (_config("stars"), {}),
        (_config("LABEL_0", **_CHOICE), {"task": "race"}),
        (_SIGMOID, {"multi_label": True}),
        (_KERAS_HUB, {"task": "race"}),
    ],
)
def test_the_files_of_other_formats_are_read(files, expected, tmp_path):
    for name, values in files.items():
        _write(tmp_path, name, values)

    assert metadata.read(tmp_path) == Metadata(**expected)
