"""Exports a checkpoint as a SavedModel that takes raw text, for TF Serving.

    python export_saved_model.py --init_checkpoint=albert_base \
        --export_dir=served/albert

The checkpoint may be of any format; config and vocabulary come from its folder
unless flags name others. Nothing is written if the graph has an operation that
TF Serving may not know.
"""

import functools
import os

from absl import flags as absl_flags

from albert_tf import settings
from albert_tf.cli import flags, program
from albert_tf.export.export_config import ExportConfig
from albert_tf.tasks import spec as specs


def define_flags() -> None:
    """Defines the flags of the command."""
    flags.define(ExportConfig, *specs.serving_settings())
    absl_flags.DEFINE_alias("task", "head")


def run(values: flags.FlagValues) -> None:
    """Exports the model and prints a summary."""
    given = flags.given(values)
    if ":" not in given.get("head", ":"):
        given["head"] = given["head"].lower()
    of_heads = settings.fields_of(*specs.serving_settings())
    head_settings = {name: given[name] for name in of_heads if name in given}
    config = settings.read(ExportConfig, given, settings=head_settings)
    with program.quiet_import():
        from albert_tf.export import saved_model

    summary = saved_model.export(config)
    print(summary)
    # For the command to type next.
    values["export_version"].value = int(os.path.basename(summary.path))


main = functools.partial(program.run, define_flags, run, description=__doc__)
