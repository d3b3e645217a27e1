"""A tokenizer as a Keras layer, for `tf.data` and for models of strings.

Source: `text.base.Tokenizer.batch`; the results are equal.
"""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from albert_tf import checks, files
from albert_tf.checkpoints import discovery, vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling import base
from albert_tf.serving import graph_tokenizer, model_inputs, signature
from albert_tf.text.base import Tokenizer

Texts: TypeAlias = "tf.Tensor | np.ndarray | str | Sequence[Texts]"


@base.register
class TokenizerLayer(keras.layers.Layer):
    """Encodes texts as a batch for a model.

    A `.keras` file or SavedModel with this layer contains the vocabulary;
    import `tensorflow_text` before you load a SavedModel.

    Args:
        tokenizer: A tokenizer, or a path for `load_tokenizer`. None if the
            vocabulary will come from a `.keras` file.
        max_seq_length: Length S of every row, at least 5.

    Call arguments:
        texts: Strings `[...]`; for pairs, a tuple or list of two such tensors.

    Returns:
        Dict of `input_ids`, `input_mask` and `segment_ids`, int32 `[..., S]`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | files.Path | None = None,
        *,
        max_seq_length: int = 128,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        # Each text of a pair keeps at least a token.
        checks.check_integer(
            "max_seq_length",
            max_seq_length,
            at_least=model_inputs.MIN_SEQ_LENGTH,
        )
        self.max_seq_length = max_seq_length
        if not isinstance(tokenizer, Tokenizer | None):
            tokenizer = discovery.load_tokenizer(tokenizer)
        if tokenizer is not None:
            self._use(tokenizer)
        # Keras' own layers of strings have these settings, too.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.supports_jit = False
        self.built = True

    def _use(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._graph = graph_tokenizer.make(tokenizer)
        self._resource = self._graph.resource  # SavedModels track it.

    def call(self, texts: Texts) -> dict[str, tf.Tensor]:
        first, *others = texts if _is_pair(texts) else [texts]
        first = tf.convert_to_tensor(first, tf.string)
        [second] = others or [tf.zeros_like(first)]
        ids = model_inputs.encode_pairs(
            tf.reshape(first, [-1]),
            tf.reshape(second, [-1]),
            self._graph,
            max_seq_length=self.max_seq_length,
            min_length=self.max_seq_length,
        )
        shape = tf.concat([tf.shape(first), [self.max_seq_length]], 0)
        return {name: tf.reshape(ids[name], shape) for name in ids}

    def compute_output_spec(
        self, texts: keras.KerasTensor | tuple[keras.KerasTensor, ...]
    ) -> dict[str, keras.KerasTensor]:
        shape = keras.tree.flatten(texts)[0].shape
        return {
            name: keras.KerasTensor((*shape, self.max_seq_length), "int32")
            for name in signature.ID_INPUTS
        }

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config()
        return config | {"max_seq_length": self.max_seq_length}

    def save_assets(self, dir_path: str) -> None:
        name = vocabularies.FILE_NAMES[self.tokenizer.kind]
        with open(os.path.join(dir_path, name), "wb") as file:
            file.write(self.tokenizer.vocabulary)
        stated = self.tokenizer.settings.stated()
        Metadata(**stated).write(dir_path)

    def load_assets(self, dir_path: str) -> None:
        [path] = vocabularies.paths_in(dir_path)
        saved = Checkpoint(vocabulary=path, metadata=Metadata.read(dir_path))
        self._use(saved.tokenizer)


def _is_pair(texts: Texts) -> bool:
    # When Keras loads a model, tuples become lists.
    if isinstance(texts, list):
        if texts and isinstance(texts[0], list | tuple):
            raise ValueError(
                "Pass pairs as a tuple of two lists: the first texts, and the "
                "second texts. Received: a list of lists."
            )
        return bool(texts) and not isinstance(texts[0], str | bytes)
    return isinstance(texts, tuple)
