import dataclasses
import json

import numpy as np
import pytest

from albert_tf.checkpoints import tf1_folder
from albert_tf.checkpoints.checkpoint import Checkpoint


def _assert_same(arrays, expected):
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("write", "stem"),
    [
        (tf1_folder.write_released, "model.ckpt-best"),
        (tf1_folder.write_ours, "model.ckpt"),
    ],
)
def test_what_is_written_is_read_back(
    source, tmp_path, tiny_spm_model, write, stem
):
    slots = {"bert/pooler/dense/bias/adam_m": np.ones(8, "float32")}
    arrays = source.arrays | slots | {"global_step": np.int64(7)}
    source = dataclasses.replace(
        source, arrays=arrays, vocabulary=str(tiny_spm_model)
    )

    assert write(str(tmp_path), source) == []

    found = tf1_folder.read(tmp_path)
    _assert_same(found.arrays, arrays)
    assert found.config == source.config
    assert found.vocabulary == str(tmp_path / "tiny.model")
    assert tf1_folder.resolve(tmp_path) == str(tmp_path / stem)


def test_module_names_lose_their_prefix_and_slots_may_be_left(source, tmp_path):
    arrays = {f"module/{name}": a for name, a in source.arrays.items()}
    arrays["global_step"] = np.int64(7)
    tf1_folder.write_ours(
        str(tmp_path), dataclasses.replace(source, arrays=arrays)
    )

    found = tf1_folder.read_arrays(tmp_path, with_slots=False)

    _assert_same(found, source.arrays)


@pytest.mark.parametrize("place", ["best", "checkpoints/step-00000007"])
def test_the_folder_of_a_run_tells_the_config(source, tmp_path, place):
    folder = tmp_path / place
    folder.mkdir(parents=True)
    tf1_folder.write_ours(str(folder), source)
    (folder / "albert_config.json").rename(tmp_path / "albert_config.json")

    for path in (tmp_path, folder):
        assert tf1_folder.read(path).config == source.config


def test_a_checkpoint_alone_tells_no_config(source, tmp_path):
    tf1_folder.write_ours(str(tmp_path), source)
    (tmp_path / "albert_config.json").unlink()

    found = tf1_folder.read(tmp_path)

    assert (found.config, found.vocabulary) == (None, None)


def test_the_original_is_not_told_what_it_cannot_do(source, tmp_path):
    config = dataclasses.replace(source.config, parameter_sharing="none")
    unshared = Checkpoint(arrays=source.arrays, config=config)
    tf1_folder.write_released(str(tmp_path), unshared)

    written = json.loads((tmp_path / "albert_config.json").read_text())
    assert "parameter_sharing" not in written
    assert written["num_hidden_groups"] == config.num_hidden_layers
    half = dataclasses.replace(config, parameter_sharing="ffn")
    with pytest.raises(ValueError, match="google-research/albert cannot"):
        tf1_folder.write_released(
            str(tmp_path), dataclasses.replace(unshared, config=half)
        )


def test_a_vocabulary_of_another_name_gets_one_that_is_found(
    source, tmp_path, tiny_spm_model
):
    renamed = tmp_path / "vocabulary.spm"
    renamed.write_bytes(tiny_spm_model.read_bytes())
    source = dataclasses.replace(source, vocabulary=str(renamed))
    tf1_folder.write_ours(str(tmp_path), source)

    found = tf1_folder.read(tmp_path)

    assert found.vocabulary == str(tmp_path / "spiece.model")
