"""Command-line flags that are defined and read from the fields of a config.

A field made by `settings.setting` becomes a flag with its name, type, default,
help and choices. Commands that train have some flags without such a field.
"""

import dataclasses
import sys
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from absl import flags

from albert_tf import config as config_lib
from albert_tf import settings
from albert_tf.cli import program

if TYPE_CHECKING:
    from albert_tf.checkpoints.checkpoint import Checkpoint

Config = TypeVar("Config")
FlagValues = flags.FlagValues
_KINDS = {bool: "bool", int: "integer", float: "float", str: "string"}


def define(config_class: type, **defaults: Any) -> None:
    """Defines a flag for every setting of a config.

    Args:
        config_class: A dataclass.
        **defaults: Defaults that differ from those of the fields.
    """
    types = typing.get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        text = settings.help_of(field)
        if text is None:
            continue
        default = defaults.get(field.name, field.default)
        annotation = types[field.name]
        choices = settings.choices_of(field)
        if typing.get_origin(annotation) is tuple:
            flags.DEFINE_list(field.name, list(default) or None, text)
        elif choices:
            flags.DEFINE_enum(field.name, default, choices, text)
        else:
            # `int | None` is the flag of an int.
            kind = (*typing.get_args(annotation), annotation)[0]
            definition = getattr(flags, f"DEFINE_{_KINDS[kind]}")
            definition(field.name, None if default == "" else default, text)


def read(
    config_class: type[Config], values: FlagValues, **others: Any
) -> Config:
    """Makes a config of the flags that `define` has defined.

    `others` are fields that are not flags, or that replace those of flags.
    """
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(config_class):  # type: ignore[arg-type]
        if settings.help_of(field) is None:
            continue
        value = values[field.name].value
        if isinstance(value, list):
            value = tuple(value)
        # Texts and lists that are not given are None.
        fields[field.name] = field.default if value is None else value
    return config_class(**fields | others)


def define_for_training() -> None:
    """Defines the flags of the model's shape and of the original's TPU."""
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "JSON file with the shape of the model, or the name of a published "
        "one (base_v2, xxlarge_v1, base_zh, bert_base, ...). Default: the "
        "config beside --init_checkpoint.",
    )
    flags.DEFINE_bool("use_tpu", False, "Same as --strategy=tpu.")
    flags.DEFINE_integer(
        "preemption_exit_code",
        program.EXIT_UNFINISHED,
        "Exit code if SIGTERM or Ctrl-C stopped the run, after a checkpoint if "
        "it was training; 0 for schedulers that take others for a failure.",
        lower_bound=0,
        upper_bound=255,
    )
    flags.DEFINE_alias("master", "tpu_name")


def read_for_training(values: FlagValues) -> dict[str, Any]:
    """Returns the fields of a `RunConfig` that are not flags."""
    fields: dict[str, Any] = {
        "albert_config": describe_start(values).config,
        "flags_text": as_text(values),
    }
    if values.use_tpu:
        fields["strategy"] = "tpu"
    return fields


def describe_start(values: FlagValues) -> "Checkpoint":
    """Describes the checkpoint that a run starts from, with a config.

    Without --init_checkpoint, it is the run in --output_dir, if there is one.
    The config is that of --albert_config_file, or else the one beside it.
    """
    from albert_tf.checkpoints import discovery, run_checkpoints
    from albert_tf.checkpoints.checkpoint import Checkpoint

    require(values, "output_dir")
    config = None
    if values.albert_config_file:
        config = config_lib.load_config(values.albert_config_file)
    path = values.init_checkpoint
    if not path and "continue_from" in values:
        path = values["continue_from"].value
    if not path and run_checkpoints.trained_weights(values.output_dir):
        path = values.output_dir
    source = Checkpoint()
    if path:
        source = discovery.open(
            path,
            albert_config=config,
            may_change_layers="from_group_0" in values and values.from_group_0,
        )
    config = config or source.config
    if config is None:
        raise ValueError(
            "--albert_config_file must be given: there is no config beside "
            f"{path!r}."
            if path
            else "--albert_config_file or --init_checkpoint must be given."
        )
    return dataclasses.replace(source, config=config)


def require(values: FlagValues, *names: str) -> None:
    """Raises ValueError unless every one of these flags has a value."""
    missing = [f"--{name}" for name in names if not values[name].value]
    if missing:
        raise ValueError(f"{' and '.join(missing)} must be given.")


def as_text(values: FlagValues) -> str:
    """Returns the flags of the command, one `--name=value` a line."""
    chosen = values.get_key_flags_for_module(sys.argv[0])
    lines = {
        flag.serialize()
        for flag in chosen
        if flag.value is not None and not flag.help.startswith("Alias for ")
    }
    text = "".join(f"{line}\n" for line in sorted(lines - {""}))
    text.encode()  # A path that is not UTF-8 could not be written.
    return text
