"""Hugging Face folders: ours read back, and both ways with transformers.

Transformers is no dependency. ALBERT_TF_PEER_PYTHON names a Python that has
it, with torch; without it those tests are skipped.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import conversion, huggingface, tf1, variable_names
from albert_tf.checkpoints.conversion_config import ConversionJob
from albert_tf.modeling.albert_model import AlbertModel

_PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"
_WEIGHTS = "model.safetensors"


def _edit_tensors(folder, edit):
    path = folder / _WEIGHTS
    tensors = safetensors.numpy.load_file(path)
    edit(tensors)
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})


def _edit_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def _assert_same(arrays, expected):
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert arrays[name].dtype == np.float32


@pytest.fixture
def folder(source, tmp_path):
    """A folder of the tiny model."""
    huggingface.write(str(tmp_path), source)
    return tmp_path


def test_what_is_written_is_read_back(source, folder):
    found = huggingface.read(folder)

    _assert_same(found.arrays, source.arrays)
    assert found.config == source.config
    assert found.vocabulary is None


def test_kernels_are_stored_the_other_way_round(source, folder):
    tensors = safetensors.numpy.load_file(folder / _WEIGHTS)

    name = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight"
    ours = (
        "bert/encoder/transformer/group_0/inner_group_0/"
        "ffn_1/intermediate/dense/kernel"
    )
    np.testing.assert_array_equal(tensors[name], source.arrays[ours].T)
    # Tied: said once.
    assert "predictions.decoder.weight" not in tensors


@pytest.mark.parametrize("name", ["model_base", "model_groups"])
def test_the_recorded_models_go_out_and_in(name, tmp_path):
    source = tf1.read_folder(_PARITY / name)

    left_out = huggingface.write(str(tmp_path), source)

    found = huggingface.read(tmp_path)
    assert set(left_out) == set(source.arrays) - set(source.weights)
    _assert_same(found.arrays, source.weights)
    assert found.config == source.config


def test_equal_widths_travel_with_an_identity(tmp_path):
    source = tf1.read_folder(_PARITY / "model_groups")
    huggingface.write(str(tmp_path), source)

    name = "albert.encoder.embedding_hidden_mapping_in.weight"
    tensors = safetensors.numpy.load_file(tmp_path / _WEIGHTS)

    np.testing.assert_array_equal(tensors[name], np.eye(48))


def test_layers_of_their_own_are_groups(source, tmp_path):
    config = dataclasses.replace(source.config, parameter_sharing="none")
    arrays = _fresh_arrays(config)
    huggingface.write(
        str(tmp_path),
        dataclasses.replace(source, config=config, arrays=arrays),
    )

    found = huggingface.read(tmp_path)

    assert found.config.num_hidden_groups == config.num_hidden_layers
    _assert_same(found.arrays, arrays)


def _fresh_arrays(config):
    named = variable_names.variables_by_tf1_name(AlbertModel(config).weights)
    return {name: np.asarray(variable) for name, variable in named.items()}


_HEADS = {
    "AlbertForPreTraining": {},
    "AlbertForSequenceClassification": {
        "output_weights": np.ones((3, 8), "float32"),
        "output_bias": np.ones(3, "float32"),
    },
    "AlbertForQuestionAnswering": {
        "cls/squad/output_weights": np.ones((2, 8), "float32"),
        "cls/squad/output_bias": np.ones(2, "float32"),
    },
}


@pytest.mark.parametrize("architecture", _HEADS)
def test_heads_tell_the_class(source, tmp_path, architecture):
    arrays = source.arrays | _HEADS[architecture]
    source = dataclasses.replace(source, arrays=arrays)
    huggingface.write(str(tmp_path), source)

    config = json.loads((tmp_path / "config.json").read_text())

    assert config["architectures"] == [architecture]
    _assert_same(huggingface.read(tmp_path).arrays, arrays)
    if "output_bias" in arrays:
        assert list(config["id2label"]) == ["0", "1", "2"]


def test_what_has_no_place_is_listed(source, tmp_path):
    extra = {
        "bert/pooler/dense/bias/adam_m": np.ones(8, "float32"),
        "end_logits/dense_1/bias": np.ones(1, "float32"),
    }
    source = dataclasses.replace(source, arrays=source.arrays | extra)

    assert huggingface.write(str(tmp_path), source) == sorted(extra)


@pytest.mark.parametrize("is_wordpiece", [False, True])
def test_the_vocabulary_travels(source, tmp_path, tiny_spm_model, is_wordpiece):
    vocabulary = tiny_spm_model
    if is_wordpiece:
        vocabulary = tmp_path / "vocab_chinese.txt"
        vocabulary.write_text("[UNK]\n[CLS]\n[PAD]\n[SEP]\n[MASK]\na\n")
    source = dataclasses.replace(
        source, vocabulary=str(vocabulary), do_lower_case=False
    )
    folder = tmp_path / "out"
    folder.mkdir()
    huggingface.write(str(folder), source)

    found = huggingface.read(folder)
    config = json.loads((folder / "config.json").read_text())

    name = "vocab.txt" if is_wordpiece else "spiece.model"
    assert found.vocabulary == str(folder / name)
    assert not found.do_lower_case
    expected = [2, 1, 3] if is_wordpiece else [0, 2, 3]
    keys = ("pad_token_id", "bos_token_id", "eos_token_id")
    assert [config[key] for key in keys] == expected


def test_older_and_barer_files_are_read(source, folder):
    def make_bare(tensors):
        for name in list(tensors):
            array = tensors.pop(name)
            if name.startswith("albert."):
                tensors[name.removeprefix("albert.")] = array
        tensors["embeddings.position_ids"] = np.arange(7)[None]

    _edit_tensors(folder, make_bare)

    found = huggingface.read(folder).arrays

    encoder = {n: a for n, a in source.arrays.items() if n.startswith("bert/")}
    _assert_same(found, encoder)


def test_tied_copies_are_taken_once_and_must_be_equal(source, folder):
    def copy(tensors):
        name = "albert.embeddings.word_embeddings.weight"
        tensors["predictions.decoder.weight"] = tensors[name].copy()
        tensors["predictions.decoder.bias"] = tensors.pop("predictions.bias")

    def untie(tensors):
        tensors["predictions.decoder.weight"][3] += 1

    _edit_tensors(folder, copy)
    _assert_same(huggingface.read(folder).arrays, source.arrays)
    _edit_tensors(folder, untie)

    with pytest.raises(ValueError, match="a predictions.decoder.weight of its"):
        huggingface.read(folder)


def test_files_in_several_parts_are_read(source, folder):
    tensors = safetensors.numpy.load_file(folder / _WEIGHTS)
    (folder / _WEIGHTS).unlink()
    weight_map = {}
    for part, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        file = f"model-{part}.safetensors"
        safetensors.numpy.save_file(
            {name: tensors[name] for name in names}, folder / file
        )
        weight_map |= dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": weight_map})
    )

    assert huggingface.is_folder(str(folder))
    _assert_same(huggingface.read(folder).arrays, source.arrays)


def test_half_precision_becomes_float32(source, folder):
    _edit_tensors(
        folder,
        lambda tensors: tensors.update(
            {name: a.astype(np.float16) for name, a in tensors.items()}
        ),
    )

    _assert_same(
        huggingface.read(folder).arrays,
        {
            name: array.astype(np.float16).astype(np.float32)
            for name, array in source.arrays.items()
        },
    )


def test_bfloat16_is_the_upper_half_of_a_float32(folder):
    found = {}

    def keep(tensors):
        found.update(tensors)

    _edit_tensors(folder, keep)
    header, data = {}, b""
    for name, array in found.items():
        upper = (array.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": array.shape,
            "data_offsets": [len(data), len(data) + len(upper)],
        }
        data += upper
    text = json.dumps(header).encode()
    (folder / _WEIGHTS).write_bytes(
        len(text).to_bytes(8, "little") + text + data
    )

    bias = huggingface.read(folder).arrays["bert/embeddings/word_embeddings"]

    full = found["albert.embeddings.word_embeddings.weight"]
    np.testing.assert_allclose(bias, full, rtol=2**-7)
    assert bias.dtype == np.float32


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hidden_act": "gelu"}, "hidden_act='gelu'.*by erf.*gelu_new"),
        ({"hidden_act": "silu"}, "hidden_act='silu'.*cannot express"),
        ({"model_type": "bert"}, "type 'bert'. Only 'albert'"),
        ({"layer_norm_eps": 1e-5}, "config.json.*layer_norm_eps"),
        ({"hidden_size": 9}, "config.json.*multiple"),
        ({"num_hidden_groups": 2}, "group_1.*is missing"),
        ({"vocab_size": 14}, r"word_embeddings is \[13, 4\].*wants \[14, 4\]"),
        (
            {"architectures": ["AlbertForTokenClassification"]},
            "labels every token",
        ),
        (
            {"num_hidden_layers": 18, "num_hidden_groups": 14},
            "transformers rounds wrongly.*layer",
        ),
    ],
)
def test_a_config_that_cannot_be_meant_is_one_line(folder, values, words):
    _edit_config(folder, **values)

    with pytest.raises(ValueError, match=words) as caught:
        huggingface.read(folder)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not JSON"), ("[]", "is not a JSON object")]
)
def test_a_damaged_config_is_an_error(folder, text, words):
    (folder / "config.json").write_text(text)

    with pytest.raises(ValueError, match=words):
        huggingface.read(folder)


def test_a_truncated_file_is_an_error(folder):
    size = os.path.getsize(folder / _WEIGHTS)
    for length in (size - 1, size // 2, 5):
        os.truncate(folder / _WEIGHTS, length)

        with pytest.raises(ValueError, match="is damaged or incomplete"):
            huggingface.read(folder)


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("lm_head.weight", np.ones(3, "float32"), "no ALBERT's: lm_head"),
        ("albert.pooler.bias", np.ones(8, "int8"), "as I8; only F32"),
        ("albert.pooler.bias", np.ones(9, "float32"), r"is \[9\]"),
    ],
)
def test_a_tensor_that_does_not_belong_is_named(folder, name, array, words):
    _edit_tensors(folder, lambda tensors: tensors.update({name: array}))

    with pytest.raises(ValueError, match=words):
        huggingface.read(folder)


def test_the_missing_package_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)

    with pytest.raises(ImportError, match=r"albert_tf\[huggingface\]"):
        huggingface.read(folder)


# Beside transformers.

_PEER = """
import json, sys
import numpy, torch, transformers

task, folder, answers = sys.argv[1:]
if task == "make":
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=13, embedding_size=4, hidden_size=8, num_hidden_layers=4,
        num_hidden_groups=2, num_attention_heads=2, intermediate_size=6,
        max_position_embeddings=9, initializer_range=0.5)
    model = transformers.AlbertForPreTraining(config).eval()
    model.save_pretrained(folder)
batch = dict(numpy.load(answers))
batch = {name: torch.tensor(a, dtype=torch.long) for name, a in batch.items()}
found = {}
with torch.no_grad():
    for kind in ("AlbertModel", "AlbertForPreTraining"):
        model, told = getattr(transformers, kind).from_pretrained(
            folder, output_loading_info=True)
        assert not told["missing_keys"], told
        assert not told["mismatched_keys"], told
        out = model.eval()(**batch)
        found |= {k: v.numpy() for k, v in out.items() if torch.is_tensor(v)}
numpy.savez(answers, **found)
"""


def _ask_transformers(task, folder, batch, answers):
    python = os.environ.get("ALBERT_TF_PEER_PYTHON")
    if not python:
        pytest.skip("ALBERT_TF_PEER_PYTHON names no Python with transformers")
    names = {
        "input_ids": "input_ids",
        "input_mask": "attention_mask",
        "segment_ids": "token_type_ids",
    }
    np.savez(answers, **{names[name]: batch[name] for name in names})
    done = subprocess.run(
        [python, "-c", _PEER, task, str(folder), str(answers)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(answers) as file:
        return dict(file)


def _log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.parametrize("name", ["model_base", "model_groups"])
def test_transformers_gives_the_recorded_outputs(name, tmp_path):
    folder = tmp_path / "theirs"
    conversion.run(
        ConversionJob(
            input_path=str(_PARITY / name),
            output_path=str(folder),
            output_format="huggingface",
        )
    )
    with np.load(_PARITY / name / "golden.npz") as file:
        golden = dict(file)

    found = _ask_transformers("load", folder, golden, tmp_path / "x.npz")

    positions = golden["masked_lm_positions"]
    rows = np.take_along_axis(
        found["prediction_logits"], positions[:, :, None], axis=1
    )
    for key, array in {
        "sequence_output": found["last_hidden_state"],
        "pooled_output": found["pooler_output"],
        "mlm_log_probs": _log_softmax(rows).reshape(15, -1),
        "sop_log_probs": _log_softmax(found["sop_logits"]),
    }.items():
        largest = np.abs(golden[key]).max()
        assert np.abs(array - golden[key]).max() <= 1e-5 * largest, key


def test_a_folder_that_transformers_saved_answers_the_same(tmp_path):
    rng = np.random.default_rng(0)
    batch = {
        "input_ids": rng.integers(0, 13, (2, 9)),
        "input_mask": np.array([[1] * 9, [1] * 5 + [0] * 4]),
        "segment_ids": rng.integers(0, 2, (2, 9)),
    }
    folder = tmp_path / "theirs"
    theirs = _ask_transformers("make", folder, batch, tmp_path / "x.npz")

    ours = conversion.outputs(
        huggingface.read(folder),
        batch | {"masked_lm_positions": np.tile(np.arange(9), (2, 1))},
    )

    for key, array in {
        "sequence_output": theirs["last_hidden_state"],
        "pooled_output": theirs["pooler_output"],
        "masked_lm_logits": theirs["prediction_logits"],
        "sentence_order_logits": theirs["sop_logits"],
    }.items():
        np.testing.assert_allclose(ours[key], array, atol=1e-5, err_msg=key)
