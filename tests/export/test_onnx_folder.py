"""Folders for transformers.js; `tests/examples/test_browser.py` runs them."""

import functools
import json
import logging
import pathlib

import numpy as np
import pytest

import albert_tf
from albert_tf.export import kept_labels, onnx_folder
from tests.exported_models import LABELS, TINY_CONFIG

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")

TEXTS = ["a house", "the cat sat on the mat", "half", ""]


@pytest.fixture
def export(tmp_path, export_task):
    """Exports a model for transformers.js, in `served` beside its files."""
    return functools.partial(export_task, folder=tmp_path, format="onnx")


def _constants(path):
    """Returns the shapes of the matrices in a file, and their types."""
    graph = onnx.load(path).graph
    found = ((*t.dims, t.data_type) for t in graph.initializer)
    return [one for one in found if len(one) > 2]


def test_int8_says_how_many_labels_it_keeps(export, tmp_path, caplog):
    file = tmp_path / "texts"
    file.write_text("\n".join([*TEXTS[:3], '["a house", "half"]']))

    with caplog.at_level(logging.WARNING):
        done = export("classifier", quantize="int8", compare_file=str(file))

    folder = tmp_path / "served" / "1"
    found = albert_tf.load_predictor(folder).predict(TEXTS)
    expected = albert_tf.load_predictor(
        tmp_path, head="classifier", labels=LABELS
    ).predict(TEXTS)
    for one, other in zip(found, expected, strict=True):
        # It is the file in int8 that runs.
        assert one != other
        shares = list(other["probabilities"].values())
        assert [*one["probabilities"].values()] == pytest.approx(
            shares, abs=0.1
        )
    config = json.loads((folder / "config.json").read_text())
    assert config["transformers.js_config"] == {"dtype": "int8"}
    text, card = "of 4 labels are kept", (folder / "README.md").read_text()
    assert text in str(done.summary) and text in card
    is_all = "4 of 4" in str(done.summary)
    assert ("measure the scores" in caplog.text) != is_all
    # The shared block is there once: 6 matrices, the tables, pooler and head.
    kept = _constants(folder / "onnx" / "model_int8.onnx")
    assert kept.count((16, 24, onnx.TensorProto.INT8)) == 1
    assert kept.count((16, 16, onnx.TensorProto.INT8)) == 5


def test_the_config_says_how_vectors_are_made(export, tmp_path):
    export("encoder")

    text = (tmp_path / "served" / "1" / "config.json").read_text()
    assert '"pooling": "mean"' in text and '"normalize": false' in text


def test_too_few_kept_labels_are_a_warning(caplog):
    same = [{"prediction": "a"}] * 98
    with caplog.at_level(logging.WARNING):
        text = kept_labels.summary([*same, 1, 2], [*same, 1, 3])
        assert text == "99 of 100 labels are kept (99.00%)"
        assert not caplog.text
        kept_labels.summary([*same, 1, 2], [*same, 2, 3])
    assert "98 of 100 labels are kept (98.00%)" in caplog.text


def test_vectors_have_no_labels_to_keep(export, tmp_path):
    file = tmp_path / "texts"
    file.write_text("a house\n")

    with pytest.raises(ValueError, match="no text that .* with a label"):
        export("encoder", compare_file=str(file))
    assert not (tmp_path / "served" / "1").exists()


def test_wordpiece_has_a_tokenizer_for_javascript(export, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = tmp_path / "vocab.txt"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s", "漢"]
    words += [f"w{i}" for i in range(300 - len(words))]
    vocabulary.write_text("\n".join(words))

    done = export("classifier", vocabulary, folder=tmp_path / "run")

    folder = pathlib.Path(done.summary.path)
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours = albert_tf.load_tokenizer(folder)
    for text in ("Cats, a 漢字 w7", "[MASK]"):
        found = theirs.encode(text, add_special_tokens=False).ids
        assert found == ours.encode_with_masks(text, "[MASK]")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert config["pad_token"] == "[PAD]"
    assert config["tokenizer_class"] == "BertTokenizer"


def test_a_bias_of_zero_and_any_shape(tmp_path):
    model = albert_tf.AlbertModel(TINY_CONFIG)
    path = str(tmp_path / "model.onnx")
    onnx_folder._write_model(path, model, has_pooler=True)

    session = onnxruntime.InferenceSession(path)
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (3, 7)):
        ids = rng.integers(0, 300, shape)
        ones = np.ones(shape, np.int64)
        batch = {
            "input_ids": ids,
            "attention_mask": ones,
            "token_type_ids": 0 * ones,
        }
        [found] = session.run(["last_hidden_state"], batch)
        expected = model(batch)["sequence_output"]
        np.testing.assert_allclose(found, expected, atol=1e-5)
