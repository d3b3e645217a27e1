"""The signature `tokens` as a LiteRT model, for phones and small computers.

Data flow: signature -> [this file] -> model.tflite.
Floor: export.
"""

import tensorflow as tf

from albert_tf.export.signature import Signature

FILE = "model.tflite"


def convert(signature: Signature, module: tf.Module) -> bytes:
    """Returns the bytes of a `.tflite` file.

    Its inputs and outputs are those of the signature, by name; batch and
    length are dynamic. It has LiteRT's own operations only.

    Args:
        signature: A traced function of ids.
        module: Holds the weights.

    Raises:
        ValueError: An operation has no counterpart in LiteRT.
    """
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [signature.function], module
    )
    try:
        return bytes(converter.convert())
    except Exception as error:
        # Its messages hold the whole graph; the last line is the reason.
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"Signature {signature.name!r} cannot be converted to LiteRT: "
            f"{reason}. Leave --tflite out."
        ) from error
