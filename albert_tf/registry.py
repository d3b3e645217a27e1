"""Where extras are found: the only file that names modules by strings.

The core (config, text, model, records, the loop, checkpoints of our own and of
TF1, tables and GLUE, the predictor) imports no extra. Where it needs one, it
looks up a name here. Nothing is imported before it is asked for.
"""

import importlib
from typing import Any

# Context managers that start the workers of a run, by the name of a strategy.
WORKERS = {"multi_worker": "albert_tf.devices.workers:connected"}


def load(reference: str) -> Any:
    """Returns the module, or the attribute of one, that a reference names.

    >>> load("math:pi")
    3.141592653589793
    """
    module_name, _, attribute = reference.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, attribute) if attribute else module
