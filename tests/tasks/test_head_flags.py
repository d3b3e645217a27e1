import types

import pytest

from albert_tf.tasks import head_flags
from albert_tf.tasks.head_flags import HeadFlags


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"exit_patience": -1}, "`exit_patience` must be .*at least 0"),
        ({"dropout_prob": 1.0}, "`dropout_prob` must be"),
    ],
)
def test_a_flag_that_is_impossible_is_named(values, words):
    with pytest.raises(ValueError, match=words):
        HeadFlags(**values)


def test_labels_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="regression and multi-label"):
        head_flags.check_single_label(2, has_one_label=False)
    head_flags.check_single_label(0, has_one_label=False)


@pytest.mark.parametrize("settings", [{"use_tpu": True}, {"strategy": "tpu"}])
def test_a_tpu_cannot_drop_examples(settings):
    request = types.SimpleNamespace(
        task_config=HeadFlags(exit_patience=2),
        settings={"use_tpu": False, "strategy": "auto"} | settings,
    )

    with pytest.raises(ValueError, match="batches that shrink"):
        head_flags.check_devices(request)
    request.settings = {"use_tpu": False, "strategy": "one"}
    assert head_flags.check_devices(request) == {}
