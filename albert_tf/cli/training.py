"""What the commands that train share: flags without a field of their own."""

from typing import Any

from absl import flags

from albert_tf import config as config_lib
from albert_tf.cli import flags as cli_flags


def define_flags() -> None:
    """Defines the flags of the model's shape and of the original's TPU."""
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "JSON file with the shape of the model, or the name of a published "
        "one (base_v2, xxlarge_v1, base_zh, bert_base, ...).",
    )
    flags.DEFINE_bool("use_tpu", False, "Same as --strategy=tpu.")
    flags.DEFINE_alias("master", "tpu_name")


def read(values: cli_flags.FlagValues) -> dict[str, Any]:
    """Returns the fields of a `RunConfig` that these flags decide.

    Raises:
        FileNotFoundError: There is no such config.
        ValueError: A flag is missing, or the config is invalid.
    """
    cli_flags.require(values, "albert_config_file", "output_dir")
    found: dict[str, Any] = {
        "albert_config": config_lib.load_config(values.albert_config_file),
        "flags_text": cli_flags.as_text(values),
    }
    if values.use_tpu:
        found["strategy"] = "tpu"
    return found


def print_scores(scores: dict[str, float] | None) -> None:
    """Prints one score a line; nothing if a signal stopped the run."""
    for name, value in (scores or {}).items():
        print(f"{name} = {value:.6g}")
