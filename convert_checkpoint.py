"""Converts checkpoints between the formats in use.

    python convert_checkpoint.py --input_path=albert_base \
        --output_path=albert_base_hf --output_format=huggingface --verify

The input's format is recognised: Google's TF1 checkpoints, folders of our
runs, Hugging Face folders (safetensors), KerasHub presets.
"""

import dataclasses

from absl import flags

import run_flags
from albert_tf import config as config_lib
from albert_tf.checkpoints import conversion_config
from albert_tf.checkpoints.conversion_config import ConversionConfig


def define_flags() -> None:
    """Defines the flags of this script."""
    strings = {
        "input_path": "Checkpoint to read: prefix or folder.",
        "output_path": "Folder to write; it must not exist, or be empty.",
        "albert_config_file": "JSON file with the shape of the model, or the "
        "name of a published one; needed if there is none beside the input.",
        "spm_model_file": "SentencePiece model to put beside the weights; "
        "default: the one beside the input.",
        "vocab_file": "WordPiece vocabulary, likewise.",
        "merge_from": "Another checkpoint of the same encoder, whose heads "
        "are added.",
    }
    for name, text in strings.items():
        flags.DEFINE_string(name, None, text)
    flags.DEFINE_enum(
        "output_format",
        None,
        conversion_config.FORMATS,
        "tf1: Google's; keras: as our runs write it.",
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Whether the vocabulary is for lower-cased text; default: as the "
        "input says, or true.",
    )
    flags.DEFINE_bool(
        "verify",
        False,
        "Run a fixed batch through the weights of both sides, print the "
        "largest difference by output, and fail above 1e-5.",
    )
    _define_warm_start_flags()


def _define_warm_start_flags() -> None:
    flags.DEFINE_integer(
        "num_hidden_layers",
        None,
        "Layers of the output, for a warm start.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "num_hidden_groups",
        None,
        "Groups of layers of the output, copies of the input's first.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "parameter_sharing",
        None,
        config_lib.SHARING_STRATEGIES,
        "What the output's layers share; shared blocks are copied to layers.",
    )


def main(values: flags.FlagValues) -> None:
    """Checks the flags, converts, and prints what was done."""
    run_flags.require(values, "input_path", "output_path", "output_format")
    names = [field.name for field in dataclasses.fields(ConversionConfig)]
    config = ConversionConfig(**{name: values[name].value for name in names})
    with run_flags.quiet_import():
        from albert_tf.checkpoints import conversion

    summary = conversion.convert(config)
    print(f"read      {config.input_path} ({summary.input_format})")
    print(
        f"written   {config.output_path} ({config.output_format}): "
        f"{summary.num_weights} variables, {summary.num_parameters:,} values"
    )
    for name in summary.left_out:
        print(f"left out  {name} (the format has no place for it)")
    for name, difference in summary.differences.items():
        print(f"{name} differs by at most {difference:.3g}")


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
