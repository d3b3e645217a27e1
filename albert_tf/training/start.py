"""What every run starts with: settings that were given, and a checkpoint.

Plain Python, so that a bad flag is reported before TensorFlow is imported.
"""

from collections.abc import Collection, Mapping
from typing import Any

from albert_tf import settings
from albert_tf.checkpoints import discovery, run_checkpoints
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import load_config

# The first of these that is given names what is evaluated.
_EVALUATED = "eval_file validation_share data_dir predict_file input_file"


def resolved(
    given: Mapping[str, Any], names: Collection[str]
) -> dict[str, Any]:
    """Returns the given settings among `names`.

    The name of a checkpoint is replaced by its fetched folder.
    """
    result = {name: given[name] for name in given if name in names}
    if path := given.get("init_checkpoint"):
        result["init_checkpoint"] = discovery.local_path(path)
    return result


def open_checkpoint(values: Mapping[str, Any]) -> Checkpoint:
    """Opens the checkpoint that a run starts from, with a config.

    Without `init_checkpoint`, it is the run in `output_dir`, if there is one.
    The config is that of `albert_config_file`, or else the one beside it.
    """
    output_dir = values["output_dir"]
    if not output_dir:
        raise ValueError("--output_dir must be given.")
    config = values["albert_config_file"]
    path = values["init_checkpoint"] or values.get("continue_from")
    if not path and run_checkpoints.trained_weights(output_dir):
        path = output_dir
    if path:
        return discovery.open(
            path,
            albert_config=config,
            may_change_layers=bool(values.get("init_from_group0")),
        )
    if not config:
        raise ValueError(
            "--albert_config_file or --init_checkpoint must be given."
        )
    return Checkpoint(path=output_dir, config=load_config(config))


def run_fields(
    values: Mapping[str, Any], in_memory: Collection[str] = ()
) -> dict[str, Any]:
    """Returns the fields of a run's config that these settings decide."""
    strategy = {"strategy": "tpu"} if values["use_tpu"] else {}
    evaluated = "rows in memory"
    given = [n for n in _EVALUATED.split() if values.get(n)]
    if given and "eval" not in in_memory:
        evaluated = f"--{given[0]}={values[given[0]]}"
    text = settings.as_text(values)
    return {"flags_text": text, "evaluated": evaluated, **strategy}
