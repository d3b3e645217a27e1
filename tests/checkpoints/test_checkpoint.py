import errno
import pathlib

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata


def test_a_vocabulary_is_written_under_its_name_or_another(
    wordpiece, tiny_spm_model, tmp_path
):
    (tmp_path / "words").mkdir()
    words = wordpiece.rename(tmp_path / "words" / "words.txt")
    pieces = Checkpoint(arrays={}, vocabulary=str(tiny_spm_model))

    checkpoint.write_vocabulary(pieces, str(tmp_path))
    checkpoint.write_vocabulary(pieces, str(tmp_path), "a.model")
    checkpoint.write_vocabulary(
        Checkpoint(arrays={}, vocabulary=str(words)), str(tmp_path)
    )

    written = filter(pathlib.Path.is_file, tmp_path.iterdir())
    model = tiny_spm_model.read_bytes()
    assert {path.name: path.read_bytes() for path in written} == {
        "tiny.model": model,
        "a.model": model,
        "vocab.txt": words.read_bytes(),
    }


def test_other_formats_have_logits_of_temperature_1():
    weights = np.array([[1, 2], [3, 4]], "float32")
    source = Checkpoint(
        arrays={"output_weights": weights, "output_bias": weights[0]},
        metadata=Metadata(temperature=4.0, thresholds=(0.5, 0.5)),
    )

    found = checkpoint.in_units_of_labels(source)

    np.testing.assert_array_equal(found.arrays["output_weights"], weights / 4)
    np.testing.assert_array_equal(found.arrays["output_bias"], weights[0] / 4)
    # It is known to be 1, and not to be chosen again.
    assert found.metadata == Metadata(temperature=1.0, thresholds=(0.5, 0.5))


@pytest.mark.parametrize(
    ("mean", "is_scaled"), [(10.0, False), (1.7e9, True)], ids=["", "times"]
)
def test_numbers_stay_scaled_if_float32_is_too_coarse_for_them(mean, is_scaled):
    source = Checkpoint(
        arrays={
            "output_weights": np.ones((1, 4), "float32"),
            "output_bias": np.ones(1, "float32"),
        },
        metadata=Metadata(target_mean=mean, target_scale=5.0),
    )

    found = checkpoint.in_units_of_labels(source)

    assert (found.metadata.target_mean == mean) == is_scaled
    bias = found.arrays["output_bias"].item()
    assert bias == (1.0 if is_scaled else 15.0)


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
