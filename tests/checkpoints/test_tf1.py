import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import discovery, load, tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.released import write as write_released
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests.checkpoints.weights import check_close, check_same

_DATA = ".data-00000-of-00001"


# Reading and writing arrays.


def test_a_failed_write_names_the_checkpoint(tmp_path, monkeypatch):
    def fail(**_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left")

    monkeypatch.setattr(tf.raw_ops, "SaveV2", fail)
    with pytest.raises(OSError, match="Cannot write checkpoint.*No space left"):
        tf1.write(tmp_path / "model", {"x": np.ones(3)})


# Google's released Chinese base model: its index, and outputs of its graph.


@pytest.fixture(scope="module")
def chinese(shared_data):
    return shared_data / "data" / "checkpoint_albert_base_zh_google"


@pytest.fixture(scope="module")
def chinese_model(chinese):
    config = AlbertConfig.from_json_file(chinese / "albert_config.json")
    return PretrainingModel(config)


def test_the_released_index_has_our_names_and_shapes(chinese, chinese_model):
    shapes = dict(tf.train.list_variables(tf1.resolve(chinese)))
    variables = variable_names.variables_by_tf1_name(chinese_model.weights)

    del shapes["global_step"]
    assert shapes == {name: list(v.shape) for name, v in variables.items()}


def test_the_released_graph_gives_the_same_outputs(
    chinese, chinese_model, tmp_path
):
    shapes = dict(tf.train.list_variables(tf1.resolve(chinese)))
    seeded = {}
    for index, name in enumerate(sorted(shapes)):
        rng = np.random.default_rng(1000 + index)
        values = rng.standard_normal(shapes[name]) * 0.05
        seeded[name] = np.float32(values) + name.endswith("gamma")
    seeded["global_step"] = np.array(0, "int64")
    tf1.write(tmp_path / "model", seeded)
    load.load_checkpoint(chinese_model, tmp_path)
    golden = np.load(chinese / "golden_seeded_weights.npz")
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: golden[name] for name in names}
    batch["masked_lm_positions"] = golden["mlm_positions"]

    outputs = chinese_model.albert(batch) | chinese_model(batch)

    logits = np.asarray(outputs["masked_lm_logits"]).reshape(6, -1)
    found = {
        "embedding_output": outputs["embedding_output"],
        "sequence_output": outputs["sequence_output"],
        "pooled_output": outputs["pooled_output"],
        "sop_logits": outputs["sentence_order_logits"],
        "mlm_logits_first512": logits[:, :512],
    }
    for name, array in found.items():
        check_close(array, golden[name], name)
    np.testing.assert_array_equal(logits.argmax(-1), golden["mlm_argmax"])


def test_module_names_lose_their_prefix_and_slots_may_be_left(source, tmp_path):
    arrays = {f"module/{name}": a for name, a in source.arrays.items()}
    arrays["global_step"] = np.int64(7)
    tf1.write_ours(str(tmp_path), dataclasses.replace(source, arrays=arrays))

    found = discovery.open(tmp_path).weights

    check_same(found, source.arrays)


@pytest.mark.parametrize("name", ["", "variables/variables"])
def test_an_unpacked_module_of_tf_hub(name, source, tmp_path, wordpiece):
    (tmp_path / "tfhub_module.pb").touch()
    tf1.write(
        tmp_path / "variables" / "variables",
        {f"module/{name}": array for name, array in source.arrays.items()},
    )
    (tmp_path / "assets").mkdir()
    source.config.to_json_file(tmp_path / "assets" / "albert_config.json")
    shutil.copy(wordpiece, tmp_path / "assets" / "vocab.txt")

    found = discovery.open(tmp_path / name)

    check_same(found.weights, source.arrays)
    assert found.config == source.config
    assert found.vocabulary == str(tmp_path / "assets" / "vocab.txt")


def test_the_original_gets_only_what_it_can_express(source, tmp_path):
    config = dataclasses.replace(source.config, parameter_sharing="none")
    unshared = Checkpoint(arrays=source.arrays, config=config)
    write_released(str(tmp_path), unshared)

    written = json.loads((tmp_path / "albert_config.json").read_text())
    assert "parameter_sharing" not in written
    assert written["num_hidden_groups"] == config.num_hidden_layers
