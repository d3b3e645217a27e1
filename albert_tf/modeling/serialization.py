"""What makes our layers and models save, clone, pickle and export in Keras.

A layer is saved as the arguments of its constructor, which it keeps as
attributes of the same names. `AlbertConfig` is saved as its dict.

Floor: modeling.
"""

import inspect
from collections.abc import Mapping
from typing import Any, Self

import keras

from albert_tf import config as config_lib
from albert_tf.modeling import model_inputs

_CONFIG = "config"
_FROZEN = "frozen_layers"
register = keras.saving.register_keras_serializable(package="albert_tf")


class SerializableLayer(keras.layers.Layer):
    """A layer that is saved as the arguments of its constructor.

    Each argument other than `name` and `dtype` must be an attribute of the
    same name.
    """

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, in a form JSON can hold.

        Also holds what is frozen: `trainable` of the layer itself, and the
        positions of the frozen layers among all layers within it.
        """
        saved = super().get_config()
        for name in _argument_names(type(self)):
            if name not in saved:
                saved[name] = getattr(self, name)
        if _CONFIG in saved:
            saved[_CONFIG] = saved[_CONFIG].to_dict()
        saved[_FROZEN] = [
            index
            for index, layer in enumerate(self._inner_layers())
            if not layer.trainable
        ]
        return saved

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **kwargs: Any) -> Self:
        """Builds the layer that `get_config` described.

        Args:
            config: Result of `get_config`.
            **kwargs: Ignored; Keras passes `custom_objects` to models.
        """
        names = _argument_names(cls)
        arguments = {name: config[name] for name in names if name in config}
        if _CONFIG in arguments:
            arguments[_CONFIG] = config_lib.AlbertConfig.from_dict(
                arguments[_CONFIG]
            )
        layer = cls(**arguments)
        layer.trainable = config.get("trainable", True)
        frozen = set(config.get(_FROZEN, ()))
        for index, inner in enumerate(layer._inner_layers()):
            if index in frozen:
                inner.trainable = False
        return layer

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # By calling the layer, because the dtypes of outputs can differ from
        # the compute dtype (logits are always float32).
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def _inner_layers(self) -> list[keras.layers.Layer]:
        return list(self._flatten_layers(include_self=False))


class SerializableModel(SerializableLayer, keras.Model):
    """A model that is saved as the arguments of its constructor.

    It is called on a dict of tensors, which are checked first.
    """

    def input_specs(self) -> dict[str, model_inputs.Spec]:
        """Returns what the model can be called with, by name."""
        return model_inputs.encoder_specs()

    def input_shapes(self) -> dict[str, tuple[None, ...]]:
        """Returns the shapes of all inputs, with no size fixed."""
        return {
            name: (None,) * spec.rank
            for name, spec in self.input_specs().items()
        }

    @property
    def input(self) -> Any:
        """The symbolic inputs of the model, to build a Functional model with.

        Those that the model has been called on; new ones before.
        """
        if self._inbound_nodes:
            return super().input
        specs = self.input_specs()
        return {
            name: keras.Input(shape[1:], dtype=specs[name].dtype, name=name)
            for name, shape in self.input_shapes().items()
        }

    def build(self, input_shape: Any) -> None:
        """Records the shapes for `summary`; all weights exist already."""

    def compute_output_shape(self, input_shape: Any) -> Any:
        specs = self.input_specs()
        inputs = {
            name: keras.KerasTensor(shape, dtype=specs[name].dtype)
            for name, shape in input_shape.items()
        }
        outputs = self.compute_output_spec(inputs)
        return keras.tree.map_structure(lambda output: output.shape, outputs)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        model_inputs.check(inputs, self.input_specs(), type(self).__name__)
        return super().__call__(inputs, *args, **kwargs)

    @property
    def _default_save_signature(self) -> None:
        # TensorFlow traces this for every model within an exported one; that
        # of Keras assumes float inputs. `export` has its own signature.
        return None

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model for inference, as `keras.Model.export` does.

        Args:
            filepath: Where to write it.
            format: Format of the export.
            verbose: Whether to print what was written.
            input_signature: Shapes and dtypes of the inputs; None for all
                inputs of the model, with any batch size and length.
            **kwargs: Passed on to Keras.
        """
        if input_signature is None:
            specs = self.input_specs()
            input_signature = [
                {
                    name: keras.InputSpec(
                        shape=shape, dtype=specs[name].dtype, name=name
                    )
                    for name, shape in self.input_shapes().items()
                }
            ]
        super().export(
            filepath,
            format=format,
            verbose=verbose,
            input_signature=input_signature,
            **kwargs,
        )


def _argument_names(layer_class: Any) -> list[str]:
    _, *names = inspect.signature(layer_class.__init__).parameters
    return names
