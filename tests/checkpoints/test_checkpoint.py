"""Facts about a checkpoint; contradictions are in test_refusals."""

import errno

import pytest

from albert_tf.checkpoints import checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata

_NAMES = ("ham", "spam")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EMFILE, "Too many open files"), OSError),
        (MemoryError("None is left"), MemoryError),
        (FileNotFoundError(errno.ENOENT, "No such file"), ValueError),
        (OSError("truncated file"), ValueError),
    ],
)
def test_faults_of_the_machine_are_no_damage(error, kind):
    with pytest.raises(kind) as raised, checkpoint.naming("folder"):
        raise error

    is_damage = "folder' is damaged" in str(raised.value)
    assert is_damage == (kind is ValueError)


@pytest.mark.parametrize(
    ("known", "wanted", "warning"),
    [
        ({"labels": _NAMES}, {"labels": _NAMES}, ""),
        ({"labels": _NAMES}, {"do_lower_case": True}, ""),
        ({"labels": ("HAM", "SPAM")}, {"labels": _NAMES}, ""),
        # Others may have named them otherwise.
        ({"labels": _NAMES}, {"labels": ("0", "1")}, "labels=['ham', 'spam']"),
    ],
)
def test_what_is_the_same_or_unknown_is_used(known, wanted, warning, caplog):
    source = Checkpoint(metadata=Metadata(**known))

    source.check_task(Metadata(**wanted))

    assert warning in caplog.text
    assert bool(warning) == bool(caplog.text)
