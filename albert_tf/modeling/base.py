"""Base classes of layers that can be saved, cloned and pickled."""

import inspect
import re
import types
from collections.abc import Mapping
from typing import Any, Self

import keras

from albert_tf.config import AlbertConfig
from albert_tf.modeling.operations import PLAIN, Operations

_CONFIG = "config"
_FROZEN = "frozen_layers"
_QUANTIZED = "quantized_layers"
register = keras.saving.register_keras_serializable(package="albert_tf")


class SerializableLayer(keras.layers.Layer):
    """A layer that is saved as the arguments of its constructor.

    Each argument must be an attribute of the same name.
    """

    # Models only: fields of `checkpoints.metadata.Metadata`, saved with them.
    metadata: Mapping[str, Any] = types.MappingProxyType({})
    # Computes the formulas; `fused.computing_with` replaces it temporarily.
    operations: Operations = PLAIN

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        # Our classes only: a user's class may have the name of one of ours.
        if cls.__module__.startswith("albert_tf."):
            register(cls)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, and later changes.

        The changes are the layer's own `trainable`; which inner layers are
        frozen; and which are quantized, in which mode and configuration. Inner
        layers are numbered in the order of `_flatten_layers`.
        """
        saved: dict[str, Any] = super().get_config()
        for name in _argument_names(type(self)):
            if name not in saved:
                saved[name] = getattr(self, name)
        if _CONFIG in saved:
            saved[_CONFIG] = saved[_CONFIG].to_dict()
        saved["metadata"] = {**self.metadata}
        saved[_FROZEN], saved[_QUANTIZED] = [], []
        for index, layer in enumerate(self._flatten_layers(False)):
            if not layer.trainable:
                saved[_FROZEN].append(index)
            settings = getattr(layer, "quantization_config", None)
            if settings or layer.quantization_mode:
                settings = keras.saving.serialize_keras_object(settings)
                mode = layer.quantization_mode
                saved[_QUANTIZED].append((index, mode, settings))
        return saved

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **kwargs: object) -> Self:
        """Builds the layer that `get_config` described."""
        names = _argument_names(cls)
        arguments = {name: config[name] for name in names if name in config}
        if _CONFIG in arguments:
            arguments[_CONFIG] = AlbertConfig.from_dict(arguments[_CONFIG])
        layer = cls(**arguments)
        layer.trainable = config.get("trainable", True)
        layer.metadata = config.get("metadata", layer.metadata)
        inner_layers = layer._flatten_layers(False)
        for index in config.get(_FROZEN, ()):
            inner_layers[index].trainable = False
        for index, mode, settings in config.get(_QUANTIZED, ()):
            if not layer.built:
                layer.build()
            inner_layers[index].quantize(
                mode, config=keras.saving.deserialize_keras_object(settings)
            )
        return layer

    def compute_output_spec(self, *args: object, **kwargs: object) -> Any:
        # Traces `call`: logits are float32, whatever the compute dtype.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


def _argument_names(layer_class: type) -> list[str]:
    """Returns names of a constructor's arguments, also in its `**kwargs`."""
    names: list[str] = []
    for ancestor in layer_class.__mro__:
        if "__init__" not in vars(ancestor):
            continue
        signature = inspect.signature(vars(ancestor)["__init__"])
        _, *arguments = signature.parameters.values()
        named = [a.name for a in arguments if a.kind != a.VAR_KEYWORD]
        names += named
        if len(named) == len(arguments):
            break
    return names


class AlbertLayer(SerializableLayer):
    """A layer that takes the whole model's config; named after its class."""

    def __init__(
        self,
        config: AlbertConfig,
        *,
        seed: int = 0,
        dtype: object = None,
        name: str | None = None,
    ) -> None:
        snake_case = re.sub(r"\B(?=[A-Z])", "_", type(self).__name__).lower()
        super().__init__(dtype=dtype, name=name or snake_case)
        self.config = config
        self.seed = seed
        self.input_width = config.hidden_size

    def build(self, input_shape: object = None) -> None:
        self.build_layers()

    def build_layers(self) -> None:
        """Builds the inner layers, so that all weights exist."""
        for layer in self._flatten_layers(include_self=False, recursive=False):
            if not layer.built:
                layer.build((None, None, layer.input_width))
        self.built = True
