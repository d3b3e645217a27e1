"""`.keras` files with one of our models, saved by Keras."""

import importlib
import json
import os
import re
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from albert_tf.checkpoints import heads, variable_names, vocabularies
from albert_tf.checkpoints.checkpoint import Arrays, Checkpoint, LazyArrays
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

if TYPE_CHECKING:
    import keras

_OUR_MODULE = re.compile(r'"module": "(albert_tf\.[\w.]+)"')


def recognises(path: str) -> bool:
    """Returns whether a path is a file of Keras."""
    return path.endswith(".keras")


def describe(path: str, albert_config: AlbertConfig | None) -> Checkpoint:
    """Describes a file, and the vocabulary in its folder if it fits."""
    with zipfile.ZipFile(path) as archive:
        saved = json.loads(archive.read("config.json"))
    if not str(saved.get("module")).startswith("albert_tf."):
        raise ValueError(
            f"{path!r} holds a {saved.get('class_name')} and not one of our "
            "models. Load it without other arguments, and use its `export`."
        )
    metadata = Metadata.from_json(path, saved["config"]["metadata"])
    for head in heads.HEADS.values():
        if head.model_class == saved["class_name"]:
            metadata = Metadata(head=head.name).combined(metadata)
    vocabulary_path, notes = vocabularies.find(os.path.dirname(path))
    return Checkpoint(
        path=path,
        format="keras_file",
        arrays=LazyArrays(path, _read_arrays),
        config=AlbertConfig.from_dict(saved["config"]["config"]),
        vocabulary=vocabulary_path if metadata.tokenizer_hash else None,
        metadata=metadata,
        notes=tuple(notes),
    )


def _read_arrays(path: str) -> Arrays:
    model = load(path, compile=False)
    if any(layer.quantization_mode for layer in model._flatten_layers()):
        raise ValueError(
            f"{path!r} is quantized: load it without other arguments, and use "
            "its `export`; or pass the file from before `quantize`."
        )
    named = variable_names.variables_by_tf1_name(model.weights)
    return {name: np.asarray(value) for name, value in named.items()}


def load(path: str, **options: object) -> "keras.Model":
    """Loads a model as Keras does, with our classes if it is made of them."""
    import keras

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            text = archive.read("config.json").decode()
        for name in _OUR_MODULE.findall(text):
            importlib.import_module(name)
    model: keras.Model = keras.saving.load_model(path, **options)
    return model
