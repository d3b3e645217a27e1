"""Writes a model as transformers.js reads it: ONNX files, config, tokenizer.

    D/1/config.json, tokenizer.json, tokenizer_config.json
    D/1/onnx/model.onnx, model_int8.onnx

The shared block is stored once. In int8, a matrix has a scale for each output,
and its inputs have a scale for each token, computed while the model runs. The
tables of embeddings have a scale for each row.

Source: transformers.js 4, `models/session.js`; Keras' `quantize` and `export`.
"""

import os
import warnings
from collections.abc import Sequence
from unittest import mock

import keras
from keras import ops

from albert_tf import files, quiet
from albert_tf.checkpoints import (
    huggingface,
    huggingface_tokenizer,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.exported import EXPORTED_MODELS, ONNX
from albert_tf.checkpoints.heads import Head
from albert_tf.inference import exported_model
from albert_tf.modeling import base_model, runtimes
from albert_tf.serving.signature import Signature
from albert_tf.tasks.spec import Exported
from albert_tf.text.vocabulary_file import SYMBOLS


def write(
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    *,
    checkpoint: Checkpoint,
    head: Head,
    is_quantized: bool,
) -> None:
    """Fills a folder; with `is_quantized`, this quantizes the model itself.

    `checkpoint` has the config, the vocabulary and the labels.
    """
    model = exported.model
    config = huggingface.config_values(checkpoint.known_config, checkpoint)
    config["architectures"] = [head.transformers or head.model_class]
    # Without it, a browser and Node look for different files.
    dtype = "int8" if is_quantized else "fp32"
    config["transformers.js_config"] = {"dtype": dtype}
    # For `examples/browser/answer.js`.
    config["pooling"] = checkpoint.settings.get("pooling", "mean")
    config["normalize"] = checkpoint.settings.get("normalizes", False)
    files.write_json(os.path.join(folder, "config.json"), config)
    if checkpoint.vocabulary_kind == SYMBOLS:
        # transformers.js has no such tokenizer.
        vocabularies.write(checkpoint, folder)
    else:
        huggingface_tokenizer.write_for_javascript(folder, checkpoint)
    quantized, full = (
        os.path.join(folder, name) for name in EXPORTED_MODELS[ONNX]
    )
    os.makedirs(os.path.dirname(full))
    _write_model(full, model, has_pooler=checkpoint.has_pooler)
    if is_quantized:
        with warnings.catch_warnings():
            # Keras warns of each layer that stays in float32.
            warnings.simplefilter("ignore")
            model.quantize("int8")
        _write_model(quantized, model, has_pooler=checkpoint.has_pooler)


def _write_model(path: str, model: keras.Model, *, has_pooler: bool) -> None:
    """Writes a model with the input and output names of transformers.

    A masked LM has the logits of all positions as output.
    """
    from tf2onnx import optimizer

    inputs = {
        name: keras.Input((None,), dtype="int64", name=name)
        for name in ("input_ids", *base_model.OUR_NAMES)
    }
    features = dict(inputs)
    if "masked_lm_positions" in model.input_specs():
        ones = ops.ones_like(inputs["input_ids"])
        features["masked_lm_positions"] = ops.cumsum(ones, axis=1) - 1
    left_out = {"embedding_output"}  # transformers does not have it.
    if not has_pooler:
        left_out.add("pooled_output")
    outputs = {
        exported_model.THEIR_OUTPUTS.get(name, name): output
        for name, output in model(features).items()
        if name not in left_out
    }
    renamed = keras.Model(inputs, outputs)
    with (
        quiet.hidden(),
        mock.patch.dict(optimizer._optimizers),
        warnings.catch_warnings(),
    ):
        # This optimizer makes a wrong shape where a bias is zero.
        del optimizer._optimizers["reshape_optimizer"]
        warnings.simplefilter("ignore", FutureWarning)
        runtimes.export(
            renamed, path, "onnx", verbose=False, input_signature=[inputs]
        )
    _shorten_names(path)


def _shorten_names(path: str) -> None:
    """Numbers the tensors inside a graph; their names are 4% of the file."""
    import onnx

    model = onnx.load(path)
    public = [*model.graph.input, *model.graph.output]
    names = {"": "", **{tensor.name: tensor.name for tensor in public}}
    for tensor in model.graph.initializer:
        tensor.name = names.setdefault(tensor.name, str(len(names)))
    for node in model.graph.node:
        node.name = ""
        for side in (node.input, node.output):
            side[:] = [names.setdefault(n, str(len(names))) for n in side]
    onnx.save(model, path)
