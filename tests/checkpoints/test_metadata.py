import pytest

from albert_tf.checkpoints import metadata
from albert_tf.checkpoints.metadata import Metadata

_SPAN = Metadata(
    task="squad",
    head="span",
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


@pytest.mark.parametrize("known", [_SPAN, _SEVERAL])
def test_what_is_written_is_read(known, tmp_path):
    metadata.write(tmp_path, known)

    assert metadata.read(tmp_path) == known


def test_nothing_known_is_no_file(tmp_path):
    metadata.write(tmp_path, Metadata())

    assert list(tmp_path.iterdir()) == []
    assert metadata.read(tmp_path) == Metadata()


def test_the_thresholds_of_an_evaluation_are_known_label_by_label():
    scores = {"threshold_of_b": 0.5, "threshold_of_a": 0.1, "f1_micro": 1.0}
    some = {"threshold_of_a": 0.1}

    assert _SEVERAL.with_thresholds(scores).thresholds == (0.1, 0.5)
    assert _SEVERAL.with_thresholds(some).thresholds is None
    assert _SPAN.with_thresholds({"null_threshold": 3.0}).null_threshold == 3
