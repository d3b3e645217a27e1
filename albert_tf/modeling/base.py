"""Base classes by which layers and models save, clone, pickle and export.

A layer is saved as the arguments of its constructor, which it keeps as
attributes of the same names. `AlbertConfig` is saved as its dict.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import ops

from albert_tf import checks
from albert_tf import config as config_lib

_CONFIG = "config"
_FROZEN = "frozen_layers"
_QUANTIZED = "quantized_layers"
_RUNTIMES = ("onnx", "litert", "openvino")
_ROUNDED = ("bfloat16", "float16")
# Others of Keras give files that cannot be loaded.
_QUANTIZATIONS = ("int8", "int4")
# Names that transformers gives to inputs, and ours.
_OUR_NAMES = {"attention_mask": "input_mask", "token_type_ids": "segment_ids"}
# Inputs that some models have: one may be called with those of another.
_OTHER_INPUTS = {
    "masked_lm_positions",
    "p_mask",
    "packed_at",
    "start_positions",
}
register = keras.saving.register_keras_serializable(package="albert_tf")


class SerializableLayer(keras.layers.Layer):
    """A layer that is saved as the arguments of its constructor.

    Each argument other than `name` and `dtype` must be an attribute of the
    same name.
    """

    # Of a model: fields of `checkpoints.metadata.Metadata`, which are saved.
    metadata: Mapping[str, Any] = types.MappingProxyType({})

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, and what was changed since.

        That is `trainable` of the layer itself, and the positions, among all
        layers within it, of the frozen ones and of the quantized ones; the
        latter with mode and configuration.
        """
        saved = super().get_config()
        for name in _argument_names(type(self)):
            if name not in saved:
                saved[name] = getattr(self, name)
        if _CONFIG in saved:
            saved[_CONFIG] = saved[_CONFIG].to_dict()
        saved["metadata"] = {**self.metadata}
        saved[_FROZEN] = [
            index
            for index, layer in enumerate(self._flatten_layers(False))
            if not layer.trainable
        ]
        serialize = keras.saving.serialize_keras_object
        saved[_QUANTIZED] = [
            (index, layer.quantization_mode, serialize(settings))
            for index, layer in enumerate(self._flatten_layers(False))
            if (settings := getattr(layer, "quantization_config", None))
            or layer.quantization_mode
        ]
        return saved

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **kwargs: Any) -> Self:
        """Builds the layer that `get_config` described.

        Keras passes `custom_objects` to models, which are not needed.
        """
        names = _argument_names(cls)
        arguments = {name: config[name] for name in names if name in config}
        if _CONFIG in arguments:
            arguments[_CONFIG] = config_lib.AlbertConfig.from_dict(
                arguments[_CONFIG]
            )
        layer = cls(**arguments)
        layer.trainable = config.get("trainable", True)
        layer.metadata = config.get("metadata", layer.metadata)
        inner_layers = list(layer._flatten_layers(False))
        for index in config.get(_FROZEN, ()):
            inner_layers[index].trainable = False
        for index, mode, settings in config.get(_QUANTIZED, ()):
            if not layer.built:
                layer.build()
            inner_layers[index].quantize(
                mode, config=keras.saving.deserialize_keras_object(settings)
            )
        return layer

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # By calling the layer, because the dtypes of outputs can differ from
        # the compute dtype (logits are always float32).
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


def _argument_names(layer_class: Any) -> list[str]:
    """Returns the arguments of a constructor, and of those it hands on to."""
    names: list[str] = []
    for ancestor in layer_class.__mro__:
        if "__init__" not in vars(ancestor):
            continue
        arguments = inspect.signature(ancestor.__init__).parameters.values()
        _, *names_here = (a.name for a in arguments if a.kind != a.VAR_KEYWORD)
        names += names_here
        if all(a.kind != a.VAR_KEYWORD for a in arguments):
            break
    return names


class AlbertLayer(SerializableLayer):
    """A layer of a model with a config; its variables are float32."""

    default_name = "layer"

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        seed: int = 0,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name or self.default_name)
        self.config = config
        self.seed = seed

    @property
    def input_width(self) -> int:
        """Size of the last axis of the inputs."""
        return self.config.hidden_size

    def build(self, input_shape: Any = None) -> None:
        self.build_layers()

    def build_layers(self) -> None:
        """Builds what the layer contains, so that all weights exist."""
        for layer in self._flatten_layers(include_self=False, recursive=False):
            if not layer.built:
                layer.build((None, None, layer.input_width))
        self.built = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """One tensor of the dict that a model is called on.

    An `int32` accepts any integer, bool or exact float, a `float32` any number.
    `like` names another one of the same shape.
    """

    rank: int = 2
    dtype: str = "int32"
    is_required: bool = True
    like: str | None = None


def encoder_specs(rank: int = 2) -> dict[str, Spec]:
    """Returns the entries that an encoder takes; only the ids are required."""
    other = Spec(rank=rank, is_required=False, like="input_ids")
    return {
        "input_ids": Spec(rank=rank),
        "input_mask": other,
        "segment_ids": other,
    }


class BaseModel(AlbertLayer, keras.Model):
    """A model that is called on a dict of tensors, which are checked first."""

    def inputs_of(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs in a batch, which may have labels, too."""
        names = self.input_specs().keys() | _OTHER_INPUTS
        return {name: batch[name] for name in batch if name in names}

    def input_specs(self) -> dict[str, Spec]:
        """Returns what the model can be called with, by name."""
        return encoder_specs()

    def input_shapes(self) -> dict[str, tuple[None, ...]]:
        """Returns the shapes of all inputs, with no size fixed."""
        return {
            name: (None,) * spec.rank
            for name, spec in self.input_specs().items()
        }

    # Kept, so that a model of them has the same inputs and outputs each time.
    @functools.cached_property
    def input(self) -> dict[str, keras.KerasTensor]:
        """Symbolic inputs, to build a model around this one."""
        specs = self.input_specs()
        return {
            name: keras.Input(shape[1:], dtype=specs[name].dtype, name=name)
            for name, shape in self.input_shapes().items()
        }

    @functools.cached_property
    def output(self) -> Any:
        """What the model returns for `input`, symbolic too."""
        return self(self.input)

    def build(self, input_shape: Any = None) -> None:
        """Records the shapes for `summary`; all weights exist already."""

    def _symbolic(
        self, shapes: Mapping[str, tuple[int | None, ...]]
    ) -> dict[str, keras.KerasTensor]:
        specs = self.input_specs()
        return {
            name: keras.KerasTensor(shape, dtype=specs[name].dtype, name=name)
            for name, shape in shapes.items()
        }

    def compute_output_shape(self, input_shape: Any) -> Any:
        outputs = self.compute_output_spec(self._symbolic(input_shape))
        return keras.tree.map_structure(lambda output: output.shape, outputs)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        specs = self.input_specs()
        if isinstance(inputs, Mapping):
            given = inputs.keys()
            # Of two masks, none is ours to choose.
            names = {k: v for k, v in _OUR_NAMES.items() if v not in given}
            inputs = {names.get(k, k): v for k, v in inputs.items()}
            if unknown := inputs.keys() - self.inputs_of(inputs).keys():
                raise ValueError(
                    f"Unknown inputs: {checks.listed(sorted(unknown))}. Those "
                    f"of the model are {checks.listed(specs)}."
                )
        check_inputs(inputs, specs, type(self).__name__)
        # With float32, Keras builds a model around this one.
        inputs = {
            name: ops.cast(value, "int32")
            if name in specs
            and specs[name].dtype == "int32"
            and keras.backend.is_float_dtype(value.dtype)
            else value
            for name, value in inputs.items()
        }
        return super().__call__(inputs, *args, **kwargs)

    def quantize(self, mode: Any, **options: Any) -> None:
        checks.check_choice("mode", mode, _QUANTIZATIONS)
        super().quantize(mode, **options)

    @property
    def _default_save_signature(self) -> None:
        # TensorFlow traces this for every model within an exported one; that
        # of Keras assumes float inputs. `export` has its own signature.
        return None

    def export(
        self, filepath: Any, format: str = "tf_saved_model", **kwargs: Any
    ) -> None:
        """Exports the model for inference, as `keras.Model.export` does.

        Without `input_signature`, batch size and length of the inputs are
        free. Raises ValueError for a precision that the format does not have.
        """
        allowed = {"float32", "int8_from_float32" if format == "onnx" else ""}
        found = {layer.dtype_policy.name for layer in self._flatten_layers()}
        # OpenVINO computes other numbers in int8; the rest does not load.
        if format in _RUNTIMES and (others := found - allowed):
            raise ValueError(
                f"A model exported as {format} must be float32 (ONNX: or "
                f"int8). Received: {checks.listed(sorted(others))}."
            )
        if format == "openvino" and self.config.attention_window:
            raise ValueError(
                "OpenVINO computes other numbers for a model with an "
                "`attention_window`. Pass another format."
            )
        signature = self._symbolic(self.input_shapes())
        kwargs.setdefault("input_signature", [signature])
        super().export(filepath, format, **kwargs)


def check_inputs(
    inputs: Any, specs: Mapping[str, Spec], model_name: str
) -> None:
    """Checks what a model is called with; others of a batch are ignored.

    Tensors of other shapes can be broadcast silently, and ids are rounded in a
    lower precision.
    """
    required = [name for name, spec in specs.items() if spec.is_required]
    given = inputs if isinstance(inputs, Mapping) else {}
    if missing := [name for name in required if name not in given]:
        raise ValueError(
            f"`{model_name}` must be called on a dict with "
            f"{checks.listed(required)}; `tokenizer.batch` makes one. Missing: "
            f"{checks.listed(missing)}."
        )
    for name, spec in specs.items():
        same = given.get(spec.like or name)
        if name in given and not _fits(given[name], spec, same):
            dtype, shape = given[name].dtype, tuple(given[name].shape)
            like = f", with the shape of `{spec.like}`" if spec.like else ""
            raise ValueError(
                f"`{name}` must be of dtype {spec.dtype} and rank {spec.rank}"
                f"{like}. Received: {dtype} of shape {shape}."
            )


def _fits(value: Any, spec: Spec, same: Any) -> bool:
    sizes = zip(value.shape, same.shape, strict=False)
    has_shape = all(a == b for a, b in sizes if None not in (a, b))
    # Ids are rounded in a lower precision.
    dtype = keras.backend.standardize_dtype(value.dtype)
    is_exact = spec.dtype != "int32" or dtype not in _ROUNDED
    return is_exact and has_shape and len(value.shape) == spec.rank
