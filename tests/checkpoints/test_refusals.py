"""What is refused, and the words that say so."""

import dataclasses
import json
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import (
    checkpoint,
    conversion,
    huggingface,
    keras_hub,
    load,
    meaning,
    metadata,
    tf1,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from tests import tiny
from tests.checkpoints.weights import starting, weights_of

_POOLER = "bert/pooler/dense/bias"
_MASKED_LM = "cls/predictions/output_bias"
_LABELS = Metadata(labels=("ham", "spam"))
_DATA = "model.ckpt.data-00000-of-00001"


def _ones(*shape):
    return np.ones(shape, "float32")


@dataclasses.dataclass
class Case:
    """A checkpoint, and an empty folder."""

    source: Checkpoint
    folder: pathlib.Path
    preset: pathlib.Path
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
        return conversion.convert(
            ConversionConfig(
                input_path=str(path),
                output_path=str(output or self.folder / "out"),
                output_format=output_format,
                **fields,
            )
        )

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


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A KerasHub preset of the tiny model."""
    folder = tmp_path_factory.mktemp("preset")
    config = tiny.config(num_hidden_layers=2)
    arrays = weights_of(PretrainingModel(config, seed=1))
    source = Checkpoint(arrays=arrays, config=config)
    keras_hub.write(str(folder), source)
    return folder


@pytest.fixture
def case(source, tmp_path, preset, tiny_spm_model):
    return Case(source, tmp_path, preset, tiny_spm_model)


# Makers of the rows below.


def _load(write, **changes):
    """Loads what is written of a changed checkpoint."""
    return lambda case: case.load(
        case.written(write, **changes), allow_new_heads=True
    )


def _load_as(**config):
    """Loads the checkpoint, in each format, into a model of another config."""

    def run(case):
        for write in (tf1.write_released, tf1.write_ours, huggingface.write):
            folder = case.written(write, into=write.__qualname__)
            other = dataclasses.replace(case.source.config, **config)
            case.load(folder, PretrainingModel(other))

    return run


def _check(**changes):
    return lambda case: checkpoint.check(case.changed(**changes), "there")


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


def _preset(file, **values):
    def run(case):
        folder = case.folder / "preset"
        shutil.copytree(case.preset, folder)
        if values:
            case.edit(folder / file, **values)
        else:
            os.truncate(folder / file, os.path.getsize(folder / file) // 2)
        keras_hub.read(folder)

    return run


def _file(name, values):
    """Reads the metadata of a folder with a file."""

    def run(case):
        (case.folder / name).write_text(json.dumps(values))
        metadata.read(case.folder)

    return run


def _foreign(name):
    def run(case):
        (case.folder / name).touch()
        case.load(case.folder)

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


def _labels(known, given, num_outputs):
    return lambda case: meaning.find_labels(
        known, num_outputs, where="run", given=given
    )


def _task(known, **wanted):
    def run(case):
        metadata.write(case.folder, Metadata(**known))
        meaning.check_task(case.folder, Metadata(**wanted))

    return run


def _vocabulary(vocab_size, *, beside, given, do_lower_case=None, hash_of=None):
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
            known = Metadata(tokenizer_hash=tokenizer.load_tokenizer().hash)
        source = Checkpoint(
            arrays={},
            config=tiny.config(vocab_size=vocab_size),
            vocabulary=paths[beside],
            metadata=known,
        )
        path = paths.get(given, given)
        meaning.with_vocabulary(source, path, do_lower_case)

    return run


def _setting(**fields):
    valid = {"input_path": "a", "output_path": "b", "output_format": "tf1"}
    return lambda case: ConversionConfig(**valid | fields)


def _into_full_folder(case):
    folder = case.written(tf1.write_ours)
    case.convert(folder, output=folder)


def _into_file(case):
    (case.folder / "file").write_text("mine")
    case.convert(case.written(tf1.write_ours), output=case.folder / "file")


def _two_checkpoints(case):
    for name in ("model.ckpt-7", "model.ckpt-9"):
        tf1.write(case.folder / name, case.source.arrays)
    tf1.resolve(case.folder)


def _several_tasks(case):
    models = SpanModel(case.source.config), BeamSpanModel(case.source.config)
    arrays = weights_of(models[0]) | weights_of(models[1])
    load.load_model(case.written(tf1.write_ours, arrays=arrays))


def _without_config(case):
    tf1.write(case.folder / "model", case.source.arrays)
    load.load_model(case.folder)


def _two_encoders(case):
    inputs = {"input_ids": keras.Input([None], dtype="int32")}
    encoders = [
        AlbertModel(case.source.config, name=name) for name in ("a", "b")
    ]
    model = keras.Model(inputs, [one(inputs) for one in encoders])
    load.load_checkpoint(model, case.written(tf1.write_ours))


def _projection(case):
    arrays = {row.tf1: _ones(8) for row in variable_names.PROJECTION}
    config = dataclasses.replace(case.source.config, embedding_size=8)
    checkpoint.without_projection(arrays, config, "x")


def _labels_of_another_head(case):
    arrays = {"output_weights": _ones(3, 8), "output_bias": _ones(3)}
    changes = {"arrays": arrays, "metadata": _LABELS}
    folder = case.written(tf1.write_ours, **changes)
    case.convert(folder, output_format="huggingface")


def _nan_slot(case):
    arrays = {f"{_POOLER}/adam_m": np.full(8, np.nan, "float32")}
    case.convert(case.written(tf1.write_ours, arrays=arrays))


def _other_config_file(case):
    path = case.folder / "other.json"
    other = dataclasses.replace(case.source.config, hidden_act="relu")
    other.to_json_file(path)
    folder = case.written(tf1.write_released)
    case.convert(folder, albert_config_file=str(path))


def _unshared(sharing, act):
    def run(case):
        config = dataclasses.replace(
            case.source.config, parameter_sharing=sharing
        )
        act(Checkpoint(arrays={}, config=config))

    return run


def _without(*prefixes):
    return lambda case: keras_hub.write(
        str(case.folder),
        case.changed(
            removed={*starting(case.source.arrays, *prefixes)},
        ),
    )


_NAN = {_POOLER: np.full(8, np.inf, "float32")}
_ROWS = {
    # The arrays.
    "a variable is missing": (
        _load(tf1.write_ours, removed=[_POOLER]),
        f"'.*written' does not .*1 variables.*{_POOLER} is missing. Use the co",
    ),
    # Half a head is not a new one.
    "half a head": (
        _load(tf1.write_ours, removed=[_MASKED_LM]),
        f"{_MASKED_LM} is missing. Use a checkpoint that has this head",
    ),
    "a variable is left over": (
        _load(tf1.write_ours, arrays={"bert/x": _ones(1)}),
        "bert/x is unexpected. Use the config",
    ),
    "a variable is misshapen": (
        _load(tf1.write_ours, arrays={_POOLER: _ones(9)}),
        rf"{_POOLER} is of shape \[9\], but must be \[8\]",
    ),
    "nothing fits": (
        lambda case: load.assign(
            AlbertModel(case.source.config), {"x": _ones(1)}, "there"
        ),
        r"\(26 variables\): .*and 21 more",
    ),
    "Hugging Face's variable is misshapen": (
        _tensor("albert.pooler.bias", _ones(9)),
        r"is of shape \[9\]",
    ),
    "infinity": (_load(tf1.write_released, arrays=_NAN), f"finite.*{_POOLER}"),
    "NaN": (
        _tensor("albert.pooler.bias", np.full(8, np.nan, "float32")),
        f"finite.*{_POOLER}",
    ),
    "NaN in a slot": (_nan_slot, f"not finite.*{_POOLER}/adam_m"),
    "converted: missing": (_check(removed=[_POOLER]), f"{_POOLER} is missing"),
    "converted: misshapen": (
        _check(arrays={"output_weights": _ones(3, 9), "output_bias": _ones(3)}),
        r"is of shape \[3, 9\], but must be \['any', 8\]",
    ),
    "two encoders at once": (_two_encoders, "two models on its own"),
    # Where a checkpoint is.
    "no path": (
        lambda case: case.load(case.folder / "x"),
        "no checkpoint '.*x",
    ),
    "an empty folder": (lambda case: case.load(case.folder), "has no checkp"),
    "two checkpoints": (_two_checkpoints, "2 checkpoints.*ckpt-7, .*ckpt-9"),
    **{
        name: (_foreign(name), f"holds {name}.*a pickle.*Accepted are: a TF1")
        for name in (
            *("pytorch_model.bin", "model.pt", "model.pkl"),
            *("model.weights.h5", "model.keras"),
        )
    },
    "truncated data": (_truncated(tf1.write_ours, _DATA), "is damaged or inc"),
    "truncated index": (
        _truncated(tf1.write_ours, "model.ckpt.index"),
        "is damaged or incomplete",
    ),
    "truncated tensors": (
        _truncated(huggingface.write, "model.safetensors"),
        "is damaged or incomplete",
    ),
    # The model of a checkpoint.
    "several tasks": (_several_tasks, "several tasks: span, beam_span"),
    "another head": (
        lambda case: load.load_model(
            case.written(tf1.write_ours), head="classifier"
        ),
        "output_weights is missing",
    ),
    "no such head": (
        lambda case: load.load_model(case.folder, head="squad"),
        "`head` must be one of encoder",
    ),
    "no config": (_without_config, "Pass --albert_config_file"),
    # What a checkpoint means.
    "activation": (
        _load_as(hidden_act="relu"),
        r"made with hidden_act='gelu' \(now 'relu'\)",
    ),
    "attention heads": (_load_as(num_attention_heads=4), r"heads=2 \(now 4\)"),
    "layers": (_load_as(num_hidden_layers=4), r"hidden_layers=2 \(now 4\)"),
    "groups": (_load_as(num_hidden_groups=2), r"groups=1 \(now 2\)"),
    "inner groups": (_load_as(inner_group_num=2), r"inner_group_num=1 \(now 2"),
    "sharing": (_load_as(parameter_sharing="none"), r"='all' \(now 'none'\)"),
    "activation of a conversion": (_other_config_file, "hidden_act='gelu'"),
    "too few labels": (
        _labels(_LABELS, ("a", "b"), 3),
        r"--labels names 2 labels \(a, b\), but the model has 3 outputs",
    ),
    "labels of a number": (_labels(_LABELS, ("a", "b"), 1), "regression"),
    "labels swapped": (
        _labels(_LABELS, ("spam", "ham"), 2),
        "other outputs: .* they are ham,spam",
    ),
    "a label moved": (_labels(_LABELS, ("spam", "eggs"), 2), "other outputs"),
    "labels for Hugging Face": (
        _labels_of_another_head,
        r"name 2 labels \(ham, spam\), but its classifier has 3",
    ),
    "labels of a task": (
        _task({"labels": ("a", "b")}, labels=("b", "a")),
        r"labels=\['a', 'b'\] \(now \['b', 'a'\]\)",
    ),
    "labels of our task": (
        _task({"labels": ("a", "b"), "task": "custom"}, labels=("c", "d")),
        r"labels=\['a', 'b'\]",
    ),
    "tokenizer of a task": (
        _task({"tokenizer_hash": "1a"}, tokenizer_hash="2b"),
        r"another vocabulary.*tokenizer_hash='1a' \(now '2b'\)",
    ),
    "lower-casing of a task": (
        _task({"do_lower_case": False}, do_lower_case=True),
        r"do_lower_case=False \(now True\)",
    ),
    "another vocabulary": (
        _vocabulary(300, beside="own", given="other"),
        "differs from the one beside",
    ),
    "another one than in training": (
        _vocabulary(300, beside=None, given="other", hash_of="own"),
        "trained with another tokenizer",
    ),
    "another one beside": (
        _vocabulary(300, beside="other", given=None, hash_of="own"),
        "trained with another tokenizer",
    ),
    "another lower-casing": (
        _vocabulary(
            *(300,),
            beside="own",
            given=None,
            do_lower_case=False,
            hash_of="own",
        ),
        r"\(do_lower_case=False\). Pass",
    ),
    "a smaller vocabulary": (
        _vocabulary(301, beside=None, given="own"),
        "has 300 tokens.*vocab_size=301",
    ),
    "a larger one beside": (
        _vocabulary(299, beside="own", given=None),
        "has 300 tokens.*vocab_size=299",
    ),
    "no vocabulary": (
        _vocabulary(300, beside=None, given="nothing.model"),
        "nothing.model",
    ),
    # Files of metadata.
    "a list": (_file("metadata.json", []), "expected a JSON object"),
    "an unknown key": (
        _file("metadata.json", {"label": []}),
        "metadata.json is damaged.*'label'",
    ),
    "labels in a word": (
        _file("metadata.json", {"labels": "ab"}),
        "`labels` must be a list of texts.*'ab'",
    ),
    "equal labels": (
        _file("metadata.json", {"labels": ["a", "a"]}),
        "differ from one another",
    ),
    **{
        f"{name}={value}": (
            _file("metadata.json", {name: value}),
            f"metadata.json is damaged: `{name}` must be {kind}",
        )
        for name, value, kind in (
            ("task", 1, "text"),
            ("tokenizer_hash", 1, "text"),
            ("do_lower_case", 1, "true or false"),
            ("multi_label", "yes", "true or false"),
            ("null_from_cls", 1, "true or false"),
            ("null_threshold", "x", "a finite number"),
            ("target_scale", True, "a finite number"),
            ("thresholds", 0.5, "a list of finite numbers"),
            ("thresholds", ["x"], "a list of finite numbers"),
        )
    },
    "too few thresholds": (
        _file("metadata.json", {"labels": ["a", "b"], "thresholds": [0.5]}),
        r"a number for each label.*thresholds=\(0.5,\)",
    ),
    "a list of labels": (
        _file("config.json", {"id2label": []}),
        "JSON object as 'id2label', found list",
    ),
    "a gap in the labels": (
        _file("config.json", {"id2label": {"0": "a", "2": "b"}}),
        r"config.json.*`labels`.*\('a', None\)",
    ),
    "results": (_file("eval_results.json", []), "expected a JSON object"),
    # Hugging Face.
    "the exact GELU": (_config(hidden_act="silu"), "'silu', but only.*by erf"),
    "a BERT": (_config(model_type="bert"), "model_type='bert'.*only an ALBERT"),
    "a head for tokens": (
        _config(architectures=["AlbertForTokenClassification"]),
        "no AlbertForTokenClassification",
    ),
    "another epsilon": (_config(layer_norm_eps=1e-5), "config.json.*norm_eps"),
    "rounding": (
        _config(num_hidden_layers=18, num_hidden_groups=14),
        "transformers assigns a layer to the wrong group",
    ),
    "a foreign tensor": (
        _tensor("lm_head.weight", _ones(3)),
        "no ALBERT has: lm_head",
    ),
    "an untied decoder": (
        _tensor("predictions.decoder.weight", _ones(13, 4)),
        "predictions.decoder.weight differs",
    ),
    # KerasHub.
    "relu": (
        _load(keras_hub.write, config={"hidden_act": "relu"}),
        "cannot express hidden_act='relu'",
    ),
    "two dropouts": (
        _load(keras_hub.write, config={"hidden_dropout_prob": 0.1}),
        "hidden_dropout_prob=0.1 and attention_probs_dropout_prob=0",
    ),
    "uneven groups": (
        _load(
            keras_hub.write,
            config={"num_hidden_layers": 3, "num_hidden_groups": 2},
        ),
        "`num_layers` must be divisible by `num_groups`",
    ),
    "no pooler": (_without("bert/pooler/"), "needs bert/pooler.*lacks"),
    "another model": (
        _preset("config.json", registered_name="keras_hub>BertBackbone"),
        "'keras_hub>BertBackbone', but only 'keras_hub>AlbertBackbone'",
    ),
    "a missing value": (
        _preset("config.json", config__num_heads=None),
        "heads",
    ),
    "another width": (
        _preset("config.json", config__hidden_dim=10),
        "does not match the config beside it",
    ),
    "another task": (
        _preset("task.json", registered_name="my>Task"),
        "describes 'my>Task' with",
    ),
    "another activation": (
        _preset("task.json", config__activation="relu"),
        "with activation='relu', but only",
    ),
    "damaged weights": (_preset("model.weights.h5"), "h5.*is missing or dam"),
    "a damaged head": (_preset("task.weights.h5"), "h5.*is missing or damaged"),
    # Other formats.
    **{
        f"{name} of one half": (
            _unshared("ffn", lambda source, write=write: write("x", source)),
            f"{name} cannot express parameter_sharing='ffn'",
        )
        for name, write in (
            ("google-research/albert", tf1.write_released),
            ("transformers", huggingface.write),
            ("KerasHub", keras_hub.write),
        )
    },
    "a trained projection": (_projection, "no projection.*cannot be converted"),
    # Conversions.
    "a full folder": (_into_full_folder, "exists and is not an empty folder"),
    "a file": (_into_file, "exists and is not an empty folder"),
    **{
        f"{before} to {after}": (
            _unshared(
                before,
                lambda source, after=after: conversion.warm_start(
                    source, parameter_sharing=after
                ),
            ),
            f"{before}.*cannot become '{after}'",
        )
        for before, after in (
            ("none", "all"),
            ("attention", "ffn"),
            ("ffn", "all"),
        )
    },
    "groups of layers that share nothing": (
        _unshared(
            "none",
            lambda source: conversion.warm_start(source, num_hidden_groups=2),
        ),
        "--num_hidden_groups cannot be used",
    ),
    "no input": (
        _setting(input_path=None),
        "`input_path` is missing. Pass --i",
    ),
    "no output": (_setting(output_path=""), "`output_path` is missing"),
    "no such format": (_setting(output_format="x"), "`output_format` must be"),
    "no such sharing": (_setting(parameter_sharing="x"), "`parameter_sharing`"),
}


@pytest.mark.parametrize("name", _ROWS)
def test_it_is_refused_in_one_line(name, case):
    act, words = _ROWS[name]

    with pytest.raises((ValueError, OSError), match=words) as caught:
        act(case)

    assert "\n" not in str(caught.value)
