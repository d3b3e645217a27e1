"""Writes the checkpoints that google-research/albert reads."""

import dataclasses
import os

from albert_tf import files
from albert_tf.checkpoints import tf1, translation
from albert_tf.checkpoints.checkpoint import Checkpoint, WriteReport
from albert_tf.checkpoints.metadata import METADATA_FILE
from albert_tf.config import CONFIG_FILE

# TF1: the stem of the released checkpoints.
_PREFIX = "model.ckpt-best"


def write(folder: str, checkpoint: Checkpoint) -> WriteReport:
    """Fills an empty folder so that google-research/albert reads it.

    Optimizer slots are written, too; and, for other readers, the metadata.
    """
    config = checkpoint.known_config
    config = translation.as_groups(config, "google-research/albert")
    if config.hidden_act == "gelu_erf" or config.always_projects:
        raise ValueError(
            "google-research/albert has no gelu_erf, and no projection where "
            "E = H; our format has."
        )
    values = config.to_dict()
    # Not in the original's configs.
    del values["parameter_sharing"]
    files.write_json(os.path.join(folder, CONFIG_FILE), values)
    tf1.write_weights(folder, _PREFIX, checkpoint)
    others = checkpoint.metadata
    if others.do_lower_case:
        # The original lower-cases by default, too.
        others = dataclasses.replace(others, do_lower_case=None)
    reason = f"only in {METADATA_FILE}: the original does not read it"
    return [], translation.notes_on_metadata(others, reason)
