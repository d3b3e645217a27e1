"""Writes a model as transformers.js reads it: ONNX files, config, tokenizer.

    D/1/config.json, tokenizer.json, tokenizer_config.json
    D/1/onnx/model.onnx, model_int8.onnx

The shared block is stored once. In int8, each output of a matrix has a scale of
its own, and so has each token that it is multiplied with, found when the model
runs; each row of the tables of embeddings has one, too.

Source: transformers.js 4, `models/session.js`; Keras' `quantize` and `export`.
"""

import os
import warnings
from typing import Any
from unittest import mock

import keras
from keras import ops

from albert_tf import files, quiet
from albert_tf.checkpoints import exported, huggingface, huggingface_tokenizer
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.heads import Head
from albert_tf.modeling import base_model
from albert_tf.text.base import SYMBOLS


def write(
    folder: str,
    model: Any,
    *,
    source: Checkpoint,
    head: Head,
    is_quantized: bool,
) -> None:
    """Fills a folder; the model is then in int8 if `is_quantized`.

    `source` is what is known of the model, with vocabulary and labels.
    """
    values = huggingface.config_values(source.known_config, source)
    values["architectures"] = [head.transformers or head.model_class]
    # Otherwise, a browser looks for another file than Node.
    dtype = "int8" if is_quantized else "fp32"
    values["transformers.js_config"] = {"dtype": dtype}
    files.write_json(os.path.join(folder, "config.json"), values)
    # There, texts are not divided into symbols.
    if source.vocabulary_kind != SYMBOLS:
        huggingface_tokenizer.write_for_javascript(folder, source)
    quantized, full = (
        os.path.join(folder, name)
        for name in exported.EXPORTED_MODELS[exported.ONNX]
    )
    os.makedirs(os.path.dirname(full))
    _write_model(full, model, has_pooler=source.has_pooler)
    if is_quantized:
        with warnings.catch_warnings():
            # Of the layers that stay in float32.
            warnings.simplefilter("ignore")
            model.quantize("int8")
        _write_model(quantized, model, has_pooler=source.has_pooler)


def _write_model(path: str, model: Any, *, has_pooler: bool) -> None:
    """Writes a model under the names of transformers.

    Of the masked LM, the logits of all positions are outputs.
    """
    from tf2onnx import optimizer

    inputs = {
        name: keras.Input((None,), dtype="int64", name=name)
        for name in ("input_ids", *base_model.OUR_NAMES)
    }
    values = dict(inputs)
    if "masked_lm_positions" in model.input_specs():
        ones = ops.ones_like(inputs["input_ids"])
        values["masked_lm_positions"] = ops.cumsum(ones, axis=1) - 1
    left_out = {"embedding_output"}  # transformers does not have it
    if not has_pooler:
        left_out.add("pooled_output")
    outputs = {
        base_model.THEIR_OUTPUTS.get(name, name): output
        for name, output in model(values).items()
        if name not in left_out
    }
    named = keras.Model(inputs, outputs)
    with (
        quiet.hidden(),
        mock.patch.dict(optimizer._optimizers),
        warnings.catch_warnings(),
    ):
        # It makes a wrong shape where a bias is zero.
        del optimizer._optimizers["reshape_optimizer"]
        warnings.simplefilter("ignore", FutureWarning)
        named.export(
            path, format="onnx", verbose=False, input_signature=[inputs]
        )
    _shorten_names(path)


def _shorten_names(path: str) -> None:
    """Gives numbers to what is inside a graph; its names are 4% of a file."""
    import onnx

    model = onnx.load(path)
    kept = [one.name for one in (*model.graph.input, *model.graph.output)]
    names = {name: name for name in ("", *kept)}
    for tensor in model.graph.initializer:
        tensor.name = names.setdefault(tensor.name, str(len(names)))
    for node in model.graph.node:
        node.name = ""
        for side in (node.input, node.output):
            side[:] = [names.setdefault(n, str(len(names))) for n in side]
    onnx.save(model, path)
