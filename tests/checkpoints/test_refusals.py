"""What is refused, and the words that say so."""

import dataclasses
import json
import os
import pathlib

import keras
import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import (
    conversion,
    discovery,
    huggingface,
    keras_hub,
    load,
    released,
    tf1,
    translation,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.text.tokenizer import VocabularyBeside
from tests import tiny
from tests.checkpoints.weights import convert, starting, weights_of

_POOLER = "bert/pooler/dense/bias"
_MASKED_LM = "cls/predictions/output_bias"
_LABELS = Metadata(labels=("ham", "spam"))
_DECODER = "predictions.decoder.weight"
_DATA = "model.ckpt.data-00000-of-00001"


def _ones(*shape):
    return np.ones(shape, "float32")


@dataclasses.dataclass
class Case:
    """A checkpoint, and an empty folder."""

    source: Checkpoint
    folder: pathlib.Path
    spm_model: pathlib.Path

    def changed(self, *, removed=(), config=None, arrays=None, **fields):
        kept = {
            name: array
            for name, array in self.source.arrays.items()
            if name not in removed
        }
        return dataclasses.replace(
            self.source,
            arrays=kept | (arrays or {}),
            config=dataclasses.replace(self.source.config, **config or {}),
            **fields,
        )

    def written(self, write, *, into="written", **changes):
        folder = self.folder / into
        folder.mkdir(exist_ok=True)
        write(str(folder), self.changed(**changes))
        return folder

    def convert(self, path, *, output_format="keras", output=None, **fields):
        output = output or self.folder / "out"
        return convert(path, output, output_format, **fields)

    def load(self, path, model=None, **options):
        """Loads a path, which must change nothing."""
        model = model or PretrainingModel(self.source.config, seed=2)
        before = weights_of(model)
        try:
            load.load_checkpoint(model, path, **options)
        finally:
            after = weights_of(model)
            assert all(np.array_equal(after[n], before[n]) for n in before)

    def edit(self, path, **values):
        edited = json.loads(path.read_text())
        for name, value in values.items():
            # `config__x` is in an inner object.
            *outer, name = name.split("__")
            (edited[outer[0]] if outer else edited)[name] = value
        path.write_text(json.dumps(edited))


@pytest.fixture
def case(source, tmp_path, tiny_spm_model):
    return Case(source, tmp_path, tiny_spm_model)


# Makers of the rows below.


def _load(**changes):
    """Loads what is written of a changed checkpoint."""
    return lambda case: case.load(
        case.written(tf1.write_ours, **changes), allow_new_heads=True
    )


def _released(**config):
    return lambda case: case.written(released.write, config=config)


def _to_keras_hub(**config):
    return lambda case: case.written(keras_hub.write, config=config)


def _load_as(**config):
    """Loads the checkpoint, in each format, into a model of another config."""

    def run(case):
        for write in (tf1.write_ours, huggingface.write):
            folder = case.written(write, into=write.__qualname__)
            other = dataclasses.replace(case.source.config, **config)
            case.load(folder, PretrainingModel(other))

    return run


def _config(**values):
    """Reads a Hugging Face folder with another config."""

    def run(case):
        folder = case.written(huggingface.write)
        case.edit(folder / "config.json", **values)
        case.load(folder)

    return run


def _tensor(name, array):
    """Reads a Hugging Face folder with another tensor."""

    def run(case):
        folder = case.written(huggingface.write)
        path = folder / "model.safetensors"
        tensors = safetensors.numpy.load_file(path) | {name: array}
        safetensors.numpy.save_file(tensors, path)
        case.load(folder)

    return run


def _modules(values):
    """Reads a Hugging Face folder with modules of sentence-transformers."""

    def run(case):
        folder = case.written(huggingface.write)
        (folder / "modules.json").write_text(json.dumps(values))
        case.load(folder)

    return run


def _missing(name):
    """Reads a Hugging Face folder without a file that it needs."""

    def run(case):
        folder = case.written(huggingface.write)
        index = {"weight_map": {"a": name}}
        if "part" in name:
            index_file = folder / "model.safetensors.index.json"
            index_file.write_text(json.dumps(index))
            os.remove(folder / "model.safetensors")
        else:
            os.remove(folder / name)
        case.load(folder)

    return run


def _adapter(case):
    folder = case.written(huggingface.write)
    (folder / "adapter_config.json").write_text("{}")
    case.load(folder)


def _renamed(name, *, path="."):
    """Reads a Hugging Face folder whose weights have another name."""

    def run(case):
        folder = case.written(huggingface.write)
        (folder / "model.safetensors").rename(folder / name)
        (folder / "link.safetensors").symlink_to("nowhere")
        case.load(folder / path)

    return run


def _preset(file, **values):
    def run(case):
        folder = case.written(keras_hub.write)
        case.edit(folder / file, **values)
        discovery.open(folder).weights  # noqa: B018

    return run


def _metadata(values):
    def run(case):
        (case.folder / "metadata.json").write_text(json.dumps(values))
        Metadata.read(case.folder)

    return run


def _truncated(write, name):
    """Converts a damaged input; nothing may be written."""

    def run(case):
        path = case.written(write) / name
        os.truncate(path, os.path.getsize(path) // 2)
        try:
            case.convert(path.parent)
        finally:
            assert os.listdir(case.folder) == ["written"]

    return run


def _labels(given, num_outputs):
    return lambda case: _LABELS.find_labels(num_outputs, given)


def _task(known, **wanted):
    def run(case):
        source = Checkpoint(metadata=Metadata(**known))
        source.check_task(Metadata(**wanted))

    return run


def _vocabulary(
    vocab_size=300, *, beside=None, given=None, hash_of=None, is_lower=None
):
    """Chooses a vocabulary; `other` has two pieces swapped."""

    def run(case):
        model = case.spm_model.read_bytes()
        first, second = "▁t".encode(), "▁b".encode()
        swapped = model.replace(first, b"#####").replace(second, first)
        other = case.folder / "other.model"
        other.write_bytes(swapped.replace(b"#####", second[:4]))
        paths = {"own": str(case.spm_model), "other": str(other), None: None}
        known = Metadata()
        if hash_of:
            tokenizer = Checkpoint(arrays={}, vocabulary=paths[hash_of])
            known = Metadata(tokenizer_hash=tokenizer.tokenizer.fingerprint)
        source = Checkpoint(
            arrays={},
            config=tiny.config(vocab_size=vocab_size),
            vocabulary=paths[beside],
            metadata=known,
        )
        options = VocabularyBeside(
            spm_model_file=paths[given], do_lower_case=is_lower
        )
        vocabularies.with_vocabulary(source, options)

    return run


def _setting(**fields):
    valid = {"input_path": "a", "output_path": "b", "output_format": "tf1"}
    return lambda case: ConversionConfig(**valid | fields)


def _into_full_folder(case):
    folder = case.written(tf1.write_ours)
    case.convert(folder, output=folder)


def _two_checkpoints(case):
    for name in ("model.ckpt-7", "model.ckpt-9"):
        tf1.write(case.folder / name, case.source.arrays)
    tf1.resolve(case.folder)


def _without_config(case):
    tf1.write(case.folder / "model", case.source.arrays)
    load.load_model(case.folder)


def _with_sizes(**sizes):
    """Loads weights with a config that would fill any memory."""

    def run(case):
        config = dataclasses.replace(case.source.config, **sizes)
        load.load_model(case.written(tf1.write_ours), config=config)

    return run


def _two_encoders(case):
    inputs = {"input_ids": keras.Input([None], dtype="int32")}
    encoders = [
        AlbertModel(case.source.config, name=name) for name in ("a", "b")
    ]
    model = keras.Model(inputs, [one(inputs) for one in encoders])
    load.load_checkpoint(model, case.written(tf1.write_ours))


def _labels_of_another_head(case):
    arrays = {"output_weights": _ones(3, 8), "output_bias": _ones(3)}
    changes = {"arrays": arrays, "metadata": _LABELS}
    folder = case.written(tf1.write_ours, **changes)
    case.convert(folder, output_format="huggingface")


def _nan_slot(case):
    arrays = {f"{_POOLER}/adam_m": np.full(8, np.nan, "float32")}
    case.convert(case.written(tf1.write_ours, arrays=arrays))


def _groups(**config):
    return lambda case: translation.as_groups(
        case.changed(config=config).config, "x"
    )


def _start(config, **fields):
    return lambda case: conversion.warm_start(
        case.changed(config=config), **fields
    )


def _without(*prefixes):
    return lambda case: keras_hub.write(
        str(case.folder),
        case.changed(removed={*starting(case.source.arrays, *prefixes)}),
    )


_NAN = {_POOLER: np.full(8, np.inf, "float32")}
_HALF_DROPOUT = {"hidden_dropout_prob": 0.1}
_UNEVEN = {"num_hidden_layers": 3, "num_hidden_groups": 2}
_NONE, _HALF = {"parameter_sharing": "none"}, {"parameter_sharing": "attention"}
_PROJECTED = {"embedding_size": 8, "always_projects": True}
_OUTSIDE = {"path": "../x", "type": "sentence_transformers.models.Pooling"}
_EPSILON = {"layer_norm_eps": 1e-5}
_ROUNDED = {"num_hidden_layers": 18, "num_hidden_groups": 14}
_BERT = {"registered_name": "keras_hub>BertBackbone"}
_SWAPPED = {"labels": ("b", "a")}
_IN_ORDER = {"labels": ("a", "b")}
_FEW_THRESHOLDS = {"labels": ["a", "b"], "thresholds": [0.5]}
_ROWS = [
    # The arrays.
    (_load(removed=[_POOLER]), f"{_POOLER} is missing. Use the co"),
    # Half a head is not a new one.
    (_load(removed=[_MASKED_LM]), "Use a checkpoint that has this head"),
    (_load(arrays={"bert/x": _ones(1)}), "bert/x is unexpected. Use the c"),
    (_load(arrays={_POOLER: _ones(9)}), r"of shape \[9\], but must be \[8\]"),
    (_load(arrays=_NAN), f"finite.*{_POOLER}"),
    (_nan_slot, f"not finite.*{_POOLER}/adam_m"),
    (_two_encoders, "two models on its own"),
    # Where a checkpoint is.
    (lambda case: case.load(case.folder / "x"), "no checkpoint '.*x"),
    (lambda case: case.load(case.folder), "no file.*Pickles are never read"),
    (_renamed("model.fp16.safetensors"), "but config.json, .*fp16.safetens"),
    (_renamed("saved_model.pb"), "it is a SavedModel, which TF Serving runs"),
    (_renamed("x"), r"link.safetensors \(a link to nothing\)"),
    (_renamed("x", path="x"), r"x' \(it is a file; its folder is '.*written'"),
    (lambda _: tf1.resolve("some/albert-x"), "hub: hf://some/albert-x"),
    (_two_checkpoints, "2 checkpoints.*ckpt-7, .*ckpt-9"),
    (_truncated(tf1.write_ours, _DATA), "is damaged or inc"),
    (_truncated(huggingface.write, "model.safetensors"), "is damaged or"),
    (_missing("config.json"), "damaged or incomplete.*config.json"),
    # Quantized: the scales are elsewhere.
    (
        _tensor("albert.pooler.bias", np.zeros(8, np.int8)),
        "albert.pooler.bias is of type int8",
    ),
    (_missing("part-1.safetensors"), "incomplete.*part-1.safetensors"),
    (lambda case: discovery.open(case.folder / "x.keras"), "incomplete.*x.ker"),
    # The model of a checkpoint.
    (_with_sizes(vocab_size=10**12), r"must be \[1000000000000, 4\]"),
    (_without_config, "Put it there, or pass --albert_config_file"),
    # What a checkpoint means.
    (_load_as(hidden_act="relu"), r"with hidden_act='gelu' \(now 'relu'\)"),
    (_load_as(num_attention_heads=4), r"heads=2 \(now 4\)"),
    (_load_as(parameter_sharing="none"), r"='all' \(now 'none'\)"),
    (_labels(("a", "b"), 3), r"names 2 labels \(a, b\), but the model has 3"),
    (_labels(("spam", "ham"), 2), "other outputs: .* they are ham,spam"),
    (_labels_of_another_head, r"names 2 labels \(ham, spam\).* has 3"),
    (_task(_IN_ORDER, **_SWAPPED), r"=\['a', 'b'\] \(now \['b', 'a'\]\)"),
    (_task({"tokenizer_hash": "1a"}, tokenizer_hash="2b"), "another vocab"),
    (_task({"do_lower_case": False}, do_lower_case=True), r"se \(now True\)"),
    (_vocabulary(beside="own", given="other"), "differs from the one beside"),
    (_vocabulary(given="other", hash_of="own"), "with another tokenizer"),
    (_vocabulary(beside="own", hash_of="own", is_lower=False), "Pass"),
    (_vocabulary(301, given="own"), "has 300 tokens.*vocab_size=301"),
    # Files of metadata.
    (_metadata([]), "expected a JSON object"),
    (_metadata({"label": []}), "metadata.json is damaged.*'label'"),
    (_metadata({"labels": "ab"}), "`labels` must be a list of texts.*'ab'"),
    (_metadata({"labels": ["a", "a"]}), "differ from one another"),
    (_metadata({"do_lower_case": "false"}), "must be true or false.*'false'"),
    (_metadata(_FEW_THRESHOLDS), "a number for each label"),
    # Hugging Face.
    (_config(pruned_heads={"0": [1]}), "pruned_heads={'0': .* not supported"),
    (_config(hidden_act="mish"), "config.json.*one of gelu,.*'mish'"),
    (_config(model_type="bert"), "model_type='bert'.*only an ALBERT"),
    (_config(**_EPSILON), "config.json.*norm_eps"),
    (_modules([{"path": ""}]), "is damaged or incomplete.*'type'"),
    (_modules([_OUTSIDE]), "'../x' is outside of the folder"),
    (_missing("../part.safetensors"), "'../part.*' is outside of the folder"),
    (_adapter, "has an adapter .adapter_config.json.*merge_and_unload"),
    (_config(**_ROUNDED), "assigns a layer to the wrong group"),
    (_tensor("lm_head.weight", _ones(3)), "no ALBERT has: lm_head"),
    (_tensor(_DECODER, _ones(13, 4)), "predictions.decoder.weight differs"),
    # KerasHub.
    (_to_keras_hub(hidden_act="relu"), "express hidden_act='relu'. Pass"),
    (
        _to_keras_hub(**_HALF_DROPOUT),
        "express hidden_dropout_prob=0.1, attention_",
    ),
    (_to_keras_hub(**_UNEVEN), "`num_layers` must be divisible by"),
    (
        _without("bert/pooler/"),
        "KerasHub needs pooled_dense.*: it is missing",
    ),
    (_preset("config.json", **_BERT), "'keras_hub>BertBackbone', but only"),
    (_preset("task.json", config__num_classes="x"), "another model's .*=x"),
    (_preset("config.json", config__num_heads=1), "another model's .*key"),
    (_preset("task.json", registered_name="my>Task"), "has a 'my>Task' with"),
    (_preset("task.json", config__activation="relu"), "activation='relu', but"),
    # Other formats.
    (_groups(parameter_sharing="ffn"), "cannot express .*sharing='ffn'"),
    (_groups(attention_window=9), "cannot express attention_window"),
    (_released(hidden_act="gelu_erf"), "albert has no gelu_erf"),
    (_released(**_PROJECTED), "no projection where E = H"),
    # Conversions.
    (_into_full_folder, "written is not an empty folder"),
    (_start(_NONE, parameter_sharing="all"), "none.*cannot become 'all'"),
    (_start(_HALF, parameter_sharing="ffn"), "cannot become 'ffn'"),
    (_start(_NONE, num_hidden_groups=2), "--num_hidden_groups cannot be used"),
    (_setting(input_path=None), "`input_path` must be given"),
    (_setting(output_format="x"), "`output_format` must be"),
]


@pytest.mark.parametrize(("act", "words"), _ROWS)
def test_it_is_refused_in_one_line(act, words, case):
    with pytest.raises((ValueError, OSError), match=words) as caught:
        act(case)

    assert "\n" not in str(caught.value)
