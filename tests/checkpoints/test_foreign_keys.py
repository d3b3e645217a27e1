"""Folders of transformers and sentence-transformers: each key is used or said.

Values are expected as the libraries themselves compute them, which was tried
with transformers 5.24 and sentence-transformers 6.2.
"""

import dataclasses
import json
import re

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import discovery, huggingface
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.tasks.classification.spec import ClassifierSpec
from tests import tiny
from tests.checkpoints.weights import convert

_CONFIG, _TOKENS = "config.json", "tokenizer_config.json"
_TEXTS, _ST = "sentence_bert_config.json", "config_sentence_transformers.json"
_ALBERT = "sentence_albert_config.json"
_POOLING, _MODULES = "1_Pooling/config.json", "modules.json"
_TYPE = "sentence_transformers.models."


def _modules(*kinds, path=""):
    kinds = {"Transformer": path, "Pooling": "1_Pooling"} | dict.fromkeys(
        kinds, "x"
    )
    return [{"path": p, "type": _TYPE + kind} for kind, p in kinds.items()]


@pytest.fixture
def folder(source, tmp_path):
    """A folder of the tiny model, with 7 positions."""
    path = tmp_path / "folder"
    path.mkdir()
    huggingface.write(str(path), source)
    return path


def _write(folder, files):
    """Writes JSON files; the values of those that are there are added."""
    for name, values in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if path.exists():
            values = json.loads(path.read_text()) | values
        path.write_text(json.dumps(values))


def _vectors(files=None, *, pooling="mean", length=7, kinds=()):
    """A row: the files, beside modules, and the settings of vectors."""
    files = {_MODULES: _modules(*kinds), _POOLING: {}} | (files or {})
    settings = {"pooling": pooling, "normalizes": "Normalize" in kinds}
    return files, settings | {"max_seq_length": length}


_PROMPTS = {"prompts": {"query": "find: "}}
_FLAGS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # The length, also of a CrossEncoder, which needs no modules.
        ({_TOKENS: {"model_max_length": 5}}, {"max_seq_length": 5}),
        ({_TOKENS: {"model_max_length": 10**30}}, {}),
        ({_TEXTS: {"max_seq_length": 5}}, {}),
        _vectors(),
        _vectors({_TOKENS: {"model_max_length": 5}}, length=5),
        _vectors(
            {_TEXTS: {"max_seq_length": 6}, _TOKENS: {"model_max_length": 5}},
            length=6,
        ),
        _vectors({_ALBERT: {"max_seq_length": 5}}, length=5),
        _vectors({_TEXTS: {}, _ALBERT: {"max_seq_length": 5}}, length=5),
        # What changes nothing.
        _vectors(kinds=["Dropout", "Normalize"]),
        _vectors({_POOLING: {"pooling_mode": ["mean"]}}),
        _vectors({_POOLING: _FLAGS}, pooling="cls"),
        _vectors({_ST: _PROMPTS}),
        _vectors({_TEXTS: {"do_lower_case": True}}),
        # What is refused when vectors are asked for.
        _vectors(
            {_ST: _PROMPTS | {"default_prompt_name": "query"}},
            pooling="mean and prompts",
        ),
        _vectors(
            {
                _TEXTS: {"do_lower_case": True},
                _TOKENS: {"do_lower_case": False},
            },
            pooling="mean and do_lower_case",
        ),
        _vectors(
            {_TEXTS: {"query_length": 4}}, pooling="mean and query_length=4"
        ),
        _vectors(
            {_POOLING: {"pooling_mode": ["cls", "max"]}}, pooling="cls and max"
        ),
        _vectors(kinds=["Dense"], pooling="mean and Dense"),
        (
            {_MODULES: [*_modules(), {"path": "x", "type": "mine.Normalize"}]},
            _vectors(pooling="mean and mine.Normalize")[1],
        ),
    ],
)
def test_settings_are_those_of_the_files(files, expected, folder):
    _write(folder, files)

    assert discovery.open(folder).settings == expected


def test_a_model_in_a_folder_of_its_own_belongs_to_the_modules(folder):
    own = folder / "0_Transformer"
    own.mkdir()
    for name in (_CONFIG, "model.safetensors"):
        (folder / name).rename(own / name)
    _write(folder, {_MODULES: _modules(path=own.name), _POOLING: _FLAGS})

    assert discovery.open(folder).settings["pooling"] == "cls"
    assert discovery.open(own).settings["pooling"] == "cls"


_IDENTITY = "torch.nn.modules.linear.Identity"
_SIGMOID = "torch.nn.modules.activation.Sigmoid"
_ONE = {"id2label": {"0": "LABEL_0"}}
_CLASSES = ["AlbertForSequenceClassification", "AlbertForMultipleChoice"]
_NUMBER, _PROBABILITY = Metadata(labels=()), Metadata(multi_label=True)


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        # The activation of a CrossEncoder, by version.
        (_ONE, {_ST: {"activation_fn": _IDENTITY}}, _NUMBER),
        (
            _ONE | {"sentence_transformers": {"activation_fn": _IDENTITY}},
            {},
            _NUMBER,
        ),
        (
            _ONE | {"sbert_ce_default_activation_function": _IDENTITY},
            {},
            _NUMBER,
        ),
        (_ONE, {_ST: {"activation_fn": _SIGMOID}}, _PROBABILITY),
        (_ONE, {}, _PROBABILITY),
        ({"num_labels": 1}, {}, _PROBABILITY),
        (_ONE | {"architectures": _CLASSES[:1]}, {}, _PROBABILITY),
        # A number, or the score of a choice.
        (_ONE | {"architectures": _CLASSES}, {}, Metadata()),
        # A label too many is an error where labels are used.
        (
            {"id2label": {"1": "a", "2": "b"}},
            {},
            Metadata(labels=("LABEL_0", "a", "b")),
        ),
    ],
)
def test_outputs_mean_what_the_files_say(config, files, expected, folder):
    path = folder / _CONFIG
    values = json.loads(path.read_text())
    del values["architectures"]
    path.write_text(json.dumps(values | config))
    _write(folder, files)

    assert discovery.open(folder).metadata == expected


@pytest.mark.parametrize(
    ("classes", "labels", "has_pooler", "expected"),
    [
        (None, "O B-A I-A", True, "token_classifier"),
        (None, "a b c", False, "token_classifier"),
        (None, "LABEL_0 LABEL_1 LABEL_2", False, "token_classifier"),
        (["AlbertForMaskedLM"], "O B-A I-A", False, "token_classifier"),
        (None, "a b c", True, "classifier"),
        (_CLASSES[:1], "O B-A I-A", True, "classifier"),
    ],
)
def test_a_head_without_a_class_is_known_by_pooler_and_labels(
    classes, labels, has_pooler, expected, source, tmp_path, caplog
):
    kernel, bias = np.ones((3, 8), "float32"), np.ones(3, "float32")
    arrays = {"output_weights": kernel, "output_bias": bias} | {
        name: array
        for name, array in source.arrays.items()
        if not name.startswith("cls/") and (has_pooler or "pooler" not in name)
    }
    huggingface.write(str(tmp_path), dataclasses.replace(source, arrays=arrays))
    names = dict(enumerate(labels.split()))
    _write(tmp_path, {_CONFIG: {"architectures": classes, "id2label": names}})

    found = discovery.open(tmp_path)

    assert found.head().name == expected
    is_a_guess = classes is None and expected == "classifier"
    assert ("it labels texts, not tokens" in caplog.text) == is_a_guess


def test_an_output_of_two_classes_is_said(source, tmp_path, caplog):
    checkpoint = dataclasses.replace(
        source,
        arrays={"output_bias": np.ones(1, "float32")},
        metadata=Metadata(do_lower_case=True),
        path="there",
    )
    model = ClassifierModel(source.config, num_labels=1)
    vocabulary = tiny.write_vocabulary(tmp_path / "vocab.txt", "abc")
    checkpoint = dataclasses.replace(checkpoint, vocabulary=vocabulary)

    ClassifierSpec().answer_data(checkpoint, model, {"max_seq_length": 7})

    assert "there does not say what its one output is" in caplog.text


def test_another_activation_is_said(folder, caplog):
    values = {"sbert_ce_default_activation_function": "torch.nn.Tanh"}
    _write(folder, {_CONFIG: _ONE | {"architectures": None} | values})

    discovery.open(folder)

    assert (
        "the activation torch.nn.Tanh of its scores is not comp" in caplog.text
    )


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (_CONFIG, {"new_a": 1, "new_b": 2}, "unknown keys .* new_a, new_b"),
        (_MODULES, [*_modules(), {"path": "", "type": "x.Y", "z": 1}], "z"),
        (_POOLING, {"new": 1}, "1_Pooling/config.json: unknown .* new"),
        (_TEXTS, {"new": 1}, f"{_TEXTS}: unknown keys .* new"),
        (_ST, {"new": 1}, f"{_ST}: unknown keys .* new"),
    ],
)
def test_a_key_that_is_not_known_is_said(name, values, words, folder, caplog):
    _write(folder, {_MODULES: _modules(), _POOLING: {}})
    if name == _MODULES:
        (folder / name).write_text(json.dumps(values))
    else:
        _write(folder, {name: values})

    discovery.open(folder)

    assert re.search(words, caplog.records[0].getMessage())


def test_our_own_folders_have_known_keys(source, tmp_path, caplog):
    convert_from = tmp_path / "ours"
    convert_from.mkdir()
    huggingface.write(str(convert_from), source)

    convert(convert_from, tmp_path / "again", "huggingface")

    assert not [r for r in caplog.records if "unknown" in r.getMessage()]


def test_names_of_distributed_and_compiled_models_are_read(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    before = discovery.open(folder).weights
    for prefix in ("module.", "_orig_mod.", "module._orig_mod."):
        renamed = {prefix + name: array for name, array in tensors.items()}
        safetensors.numpy.save_file(renamed, path)
        assert discovery.open(folder).weights.keys() == before.keys()


_FAST = {"tokenizer_class": "TokenizersBackend"}
_NEW = {"id": 300, "content": "<new>", "special": False, "normalized": True}
_DIGITS = {"type": "Replace", "pattern": {"Regex": "[0-9]"}, "content": "0"}


@pytest.fixture
def with_tokenizer(source, tiny_spm_model, tmp_path):
    """A folder of the tiny model with both files of its tokenizer."""
    source = dataclasses.replace(source, vocabulary=str(tiny_spm_model))
    huggingface.write(str(tmp_path), source)
    return tmp_path


def _edit_json(folder, edit):
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (
            lambda v: v.update(post_processor={"type": "ByteLevel"}),
            r"it adds no \[CLS\] or no",
        ),
        (lambda v: v.update(post_processor=None), r"adds no \[CLS\] and no"),
        (
            lambda v: v["normalizer"]["normalizers"].insert(0, _DIGITS),
            "is not the tokenizer of an ALBERT: it normalizes by Replace",
        ),
        (
            lambda v: v["model"]["vocab"].append(["xyzzy", -1]),
            "has other pieces",
        ),
        (
            lambda v: v.update(truncation={"direction": "Left"}),
            "it cuts text on the left",
        ),
        (
            lambda v: v["added_tokens"].append(_NEW | {"id": 5_000_000}),
            "<new> has an id after 4999700 without a token",
        ),
    ],
)
def test_a_tokenizer_json_counts_for_classes_that_read_it(
    edit, words, with_tokenizer
):
    _edit_json(with_tokenizer, edit)
    _write(with_tokenizer, {_TOKENS: _FAST})

    with pytest.raises(ValueError, match=words):
        discovery.load_tokenizer(with_tokenizer)


def test_a_key_of_a_tokenizer_that_is_not_known_is_said(with_tokenizer, caplog):
    _edit_json(with_tokenizer, lambda v: v.update(new=1))
    _write(with_tokenizer, {_TOKENS: {"newer": 1}})

    discovery.open(with_tokenizer)

    assert (
        "tokenizer_config.json: unknown keys are not read: newer" in caplog.text
    )
    assert "tokenizer.json: unknown keys are not read: new" in caplog.text


def test_tokens_that_are_added_to_our_own_file_are_said(with_tokenizer, caplog):
    _edit_json(with_tokenizer, lambda v: v["added_tokens"].append(_NEW))
    _write(with_tokenizer, {_TOKENS: _FAST})

    discovery.load_tokenizer(with_tokenizer)

    assert "others in transformers: words beside added tokens" in caplog.text


@pytest.mark.parametrize("side", ["truncation_side", "padding_side"])
def test_a_side_is_refused(side, with_tokenizer):
    _write(with_tokenizer, {_TOKENS: {side: "left"}})

    with pytest.raises(ValueError, match=f"{side}='left' is not supported"):
        discovery.load_tokenizer(with_tokenizer)
