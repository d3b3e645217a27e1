"""The base class of models: checks their inputs, and exports them."""

import functools
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops
from keras.layers import InputSpec

from albert_tf import checks, registry
from albert_tf.modeling import Tensor, base

_ROUNDING_DTYPES = ("bfloat16", "float16")
# With the other modes of Keras, saved models cannot be loaded.
_QUANTIZATIONS = ("int8", "int4")
# Names of inputs in transformers, and in this library.
OUR_NAMES = {"attention_mask": "input_mask", "token_type_ids": "segment_ids"}
# Inputs of some models only; the other models ignore them.
_OTHER_INPUTS = frozenset(
    ["masked_lm_positions", "p_mask", "packed_at", "start_positions"]
)


class BaseModel(base.AlbertLayer, keras.Model):
    """A model that is called on a dict of tensors, which are checked first."""

    # The rank of `input_ids`.
    input_rank = 2

    def input_specs(self) -> dict[str, InputSpec]:
        """Returns a specification of each input, by name.

        `int32` accepts integers, bools and floats of 32 bits or more; `float32`
        any number. Optional inputs have the shape of `input_ids`.
        """
        ids = InputSpec("int32", ndim=self.input_rank)
        other = InputSpec("int32", ndim=self.input_rank, optional=True)
        return {"input_ids": ids, "input_mask": other, "segment_ids": other}

    def inputs_of(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs in a batch, which may have labels, too."""
        names = self.input_specs().keys() | _OTHER_INPUTS
        return {name: batch[name] for name in batch if name in names}

    # Cached, because a functional model needs the same objects each time.
    @functools.cached_property
    def input(self) -> dict[str, keras.KerasTensor]:
        """Symbolic inputs of any size, to build a model around this one."""
        return {
            name: keras.Input(
                (None,) * (spec.ndim - 1), dtype=spec.dtype, name=name
            )
            for name, spec in self.input_specs().items()
        }

    @functools.cached_property
    def output(self) -> Tensor:
        """Symbolic outputs of the model for `input`."""
        return self(self.input)

    def build(self, input_shape: object = None) -> None:
        """Lets Keras record shapes for `summary`; all weights exist already."""

    def compute_output_shape(self, input_shape: Any) -> Any:
        specs = self.input_specs()
        inputs = {
            name: keras.KerasTensor(shape, dtype=specs[name].dtype)
            for name, shape in input_shape.items()
        }
        outputs = self.compute_output_spec(inputs)
        return keras.tree.map_structure(lambda output: output.shape, outputs)

    def __call__(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inputs = _checked(inputs, self.input_specs(), type(self).__name__)
        return super().__call__(inputs, *args, **kwargs)

    def quantize(self, mode: object, **options: object) -> None:
        checks.check_choice("mode", mode, _QUANTIZATIONS)
        super().quantize(mode, **options)

    @property
    def _default_save_signature(self) -> None:
        # Keras's signature, which TensorFlow traces for every model inside an
        # exported one, has float inputs. `export` has its own signature.
        return None

    def export(
        self, filepath: object, format: str = "tf_saved_model", **kwargs: object
    ) -> None:
        """Exports the model for inference, as `keras.Model.export` does.

        Without `input_signature`, inputs may have any batch size and length.
        """
        kwargs.setdefault("input_signature", [self.input])
        export = keras.Model.export
        if format in registry.MODEL_FORMATS:
            export = registry.load(registry.MODEL_FORMATS[format])
        export(self, filepath, format, **kwargs)


def _checked(
    inputs: Tensor, specs: Mapping[str, InputSpec], model_name: str
) -> Tensor:
    """Checks the inputs; returns them under our names, ids as integers.

    Without a check, wrong shapes could be broadcast silently.
    """
    required = [name for name, spec in specs.items() if not spec.optional]
    names = inputs.keys() if isinstance(inputs, Mapping) else set()
    if missing := [name for name in required if name not in names]:
        raise ValueError(
            f"`{model_name}` must be called on a dict with "
            f"{checks.listed(required)}; `tokenizer.batch` makes one. Missing: "
            f"{checks.listed(missing)}."
        )
    # If an input is given under both names, the foreign name is an error.
    renames = {k: v for k, v in OUR_NAMES.items() if v not in names}
    inputs = {renames.get(name, name): value for name, value in inputs.items()}
    if unknown := inputs.keys() - specs.keys() - _OTHER_INPUTS:
        raise ValueError(
            f"Unknown inputs: {checks.listed(sorted(unknown))}. The inputs "
            f"of the model are {checks.listed(specs)}."
        )
    for name, spec in specs.items():
        if (value := inputs.get(name)) is None:
            continue
        reference = inputs["input_ids"] if spec.optional else value
        if not _fits(value, spec, reference):
            like = ", with the shape of `input_ids`" if spec.optional else ""
            raise ValueError(
                f"`{name}` must be of dtype {spec.dtype} and rank {spec.ndim}"
                f"{like}. Received: {value.dtype} of shape "
                f"{tuple(value.shape)}."
            )
        # Keras passes floats when it builds a model around this one.
        if spec.dtype == "int32" and keras.backend.is_float_dtype(value.dtype):
            inputs[name] = ops.cast(value, "int32")
    return inputs


def _fits(value: Tensor, spec: InputSpec, reference: Tensor) -> bool:
    sizes = zip(value.shape, reference.shape, strict=False)
    has_shape = all(a == b for a, b in sizes if None not in (a, b))
    # A lower precision rounds large ids.
    dtype = keras.backend.standardize_dtype(value.dtype)
    is_exact = spec.dtype != "int32" or dtype not in _ROUNDING_DTYPES
    return is_exact and has_shape and len(value.shape) == spec.ndim
