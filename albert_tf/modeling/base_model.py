"""The base class of models: they are called on a dict, and exported."""

import functools
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops
from keras.layers import InputSpec

from albert_tf import checks, registry
from albert_tf.modeling import Tensor, base

_ROUNDED = ("bfloat16", "float16")
# Others of Keras give files that cannot be loaded.
_QUANTIZATIONS = ("int8", "int4")
# Names that transformers gives to inputs, and ours.
OUR_NAMES = {"attention_mask": "input_mask", "token_type_ids": "segment_ids"}
# Inputs that some models have: one may be called with those of another.
_OTHER_INPUTS = frozenset(
    ["masked_lm_positions", "p_mask", "packed_at", "start_positions"]
)


class BaseModel(base.AlbertLayer, keras.Model):
    """A model that is called on a dict of tensors, which are checked first."""

    # Of `input_ids`.
    input_rank = 2

    def input_specs(self) -> dict[str, InputSpec]:
        """Returns what the model can be called with, by name.

        An `int32` accepts any integer, bool or exact float, a `float32` any
        number. What is optional has the shape of `input_ids`.
        """
        ids = InputSpec("int32", ndim=self.input_rank)
        other = InputSpec("int32", ndim=self.input_rank, optional=True)
        return {"input_ids": ids, "input_mask": other, "segment_ids": other}

    def inputs_of(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs in a batch, which may have labels, too."""
        names = self.input_specs().keys() | _OTHER_INPUTS
        return {name: batch[name] for name in batch if name in names}

    # Kept, so that a model of them has the same inputs and outputs each time.
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
        """What the model returns for `input`, symbolic too."""
        return self(self.input)

    def build(self, input_shape: Any = None) -> None:
        """Records the shapes for `summary`; all weights exist already."""

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
        free.
        """
        kwargs.setdefault("input_signature", [self.input])
        export = keras.Model.export
        if format in registry.MODEL_FORMATS:
            export = registry.load(registry.MODEL_FORMATS[format])
        export(self, filepath, format, **kwargs)


def _checked(
    inputs: Tensor, specs: Mapping[str, InputSpec], model_name: str
) -> Tensor:
    """Returns the inputs by our names, ids as integers.

    Tensors of other shapes could be broadcast silently.
    """
    required = [name for name, spec in specs.items() if not spec.optional]
    names = inputs.keys() if isinstance(inputs, Mapping) else set()
    if missing := [name for name in required if name not in names]:
        raise ValueError(
            f"`{model_name}` must be called on a dict with "
            f"{checks.listed(required)}; `tokenizer.batch` makes one. Missing: "
            f"{checks.listed(missing)}."
        )
    # Of two masks, none is ours to choose.
    ours = {k: v for k, v in OUR_NAMES.items() if v not in names}
    inputs = {ours.get(name, name): value for name, value in inputs.items()}
    if unknown := inputs.keys() - specs.keys() - _OTHER_INPUTS:
        raise ValueError(
            f"Unknown inputs: {checks.listed(sorted(unknown))}. Those "
            f"of the model are {checks.listed(specs)}."
        )
    for name, spec in specs.items():
        if (value := inputs.get(name)) is None:
            continue
        same = inputs["input_ids"] if spec.optional else value
        if not _fits(value, spec, same):
            like = ", with the shape of `input_ids`" if spec.optional else ""
            raise ValueError(
                f"`{name}` must be of dtype {spec.dtype} and rank {spec.ndim}"
                f"{like}. Received: {value.dtype} of shape "
                f"{tuple(value.shape)}."
            )
        # With float32, Keras builds a model around this one.
        if spec.dtype == "int32" and keras.backend.is_float_dtype(value.dtype):
            inputs[name] = ops.cast(value, "int32")
    return inputs


def _fits(value: Tensor, spec: InputSpec, same: Tensor) -> bool:
    sizes = zip(value.shape, same.shape, strict=False)
    has_shape = all(a == b for a, b in sizes if None not in (a, b))
    # Ids are rounded in a lower precision.
    dtype = keras.backend.standardize_dtype(value.dtype)
    is_exact = spec.dtype != "int32" or dtype not in _ROUNDED
    return is_exact and has_shape and len(value.shape) == spec.ndim
