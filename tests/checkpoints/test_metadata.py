import pytest

from albert_tf.checkpoints.metadata import Metadata

_NAMES = ("ham", "spam")
_SPAN = Metadata(
    task="squad",
    head="span",
    do_lower_case=False,
    null_threshold=-1.5,
    null_from_cls=True,
    tokenizer_hash="abc",
    settings={"max_seq_length": 9, "text_columns": ["a", "b"]},
    evaluation={"scores": {"f1": 0.5}, "cautions": []},
)
_SEVERAL = Metadata(
    task="custom",
    labels=("a", "b"),
    multi_label=True,
    thresholds=(0.25, 0.75),
    target_mean=-3.0,
    target_scale=0.5,
)


@pytest.mark.parametrize("known", [_SPAN, _SEVERAL])
def test_what_is_written_is_read(known, tmp_path):
    known.write(tmp_path)

    assert Metadata.read(tmp_path) == known


def test_nothing_known_is_no_file(tmp_path):
    Metadata().write(tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert Metadata.read(tmp_path) == Metadata()


def test_the_thresholds_of_an_evaluation_are_known_label_by_label():
    scores = {"threshold_of_b": 0.5, "threshold_of_a": 0.1, "f1_micro": 1.0}
    some = {"threshold_of_a": 0.1}

    found = _SEVERAL.measured(scores, {"scores": scores})
    assert found.thresholds == (0.1, 0.5)
    assert found.chosen.thresholds == {"a": 0.1, "b": 0.5}
    assert found.evaluation == {"scores": scores}
    assert _SEVERAL.measured(some).thresholds is None
    assert _SPAN.measured({"null_threshold": 3.0}).null_threshold == 3
    assert _SPAN.chosen.thresholds == {"": -1.5}


@pytest.mark.parametrize(
    ("known", "assumed"),
    [
        (_SEVERAL, "a threshold of 0.5 for every label"),
        (Metadata(head="beam_span", null_threshold=1), "a null threshold of 0"),
        (_SPAN, ""),
    ],
)
def test_other_weights_share_nothing_measured_and_what_is_assumed_is_said(
    known, assumed
):
    others = known.measured({})

    assert (others.task, others.settings) == (known.task, known.settings)
    assert not others.evaluation and not others.chosen.entries
    assert (known.assumed, others.assumed) == ("", assumed)


def test_an_evaluation_replaces_only_what_it_chose():
    known = Metadata(labels=("a", "b"), temperature=2.0, thresholds=(0.3, 0.7))
    chosen = {"threshold_of_a": 0.4, "threshold_of_b": 0.6}

    found = known.evaluated({"scores": chosen})

    assert found.thresholds == (0.4, 0.6)
    assert found.temperature == 2
    assert found.evaluation == {"scores": chosen}
    assert known.evaluated({"scores": {}}).thresholds == (0.3, 0.7)


@pytest.mark.parametrize(
    ("known", "given", "num_outputs", "expected"),
    [
        ({"labels": _NAMES}, None, 2, _NAMES),
        ({"labels": _NAMES}, ("a", "b"), 2, ("a", "b")),
        ({}, None, 2, ("0", "1")),
        ({}, None, 1, ()),
        ({"labels": ()}, None, 1, ()),
        ({"labels": ("spam",), "multi_label": True}, None, 1, ("spam",)),
    ],
)
def test_labels_are_the_given_or_the_known_ones(
    known, given, num_outputs, expected
):
    labels = Metadata(**known).find_labels(num_outputs, given)

    assert labels == expected


def test_names_of_another_number_of_labels_are_replaced():
    numbered_from_1 = Metadata(labels=("LABEL_0", "a", "b"))

    assert numbered_from_1.find_labels(2, ("a", "b")) == ("a", "b")
