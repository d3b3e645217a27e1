"""Converts checkpoints between the formats in use.

    python convert_checkpoint.py --input_path=albert_base \
        --output_path=albert_base_hf --output_format=huggingface --verify

The format of the input is recognised: Google's TF1 checkpoints, output
directories of our runs, Hugging Face folders (safetensors), KerasHub presets.
"""

import functools

from albert_tf import console, settings
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.cli import flags, program


def run(values: flags.FlagValues) -> None:
    """Converts the checkpoint and prints a summary."""
    config = settings.read(ConversionConfig, flags.given(values))
    with program.quiet_import():
        from albert_tf.checkpoints import conversion

    summary = conversion.convert(config)
    print(f"read      {config.input_path} ({summary.input_format})")
    print(
        f"written   {config.output_path} ({config.output_format}): "
        f"{summary.num_weights} variables, {summary.num_parameters:,} values"
    )
    for name in summary.left_out:
        print(
            f"left out  {console.printable(name)} (the format cannot store it)"
        )
    for note in summary.notes:
        print(console.printable(str(note)))
    for name, difference in summary.differences.items():
        print(f"{name} differs by at most {difference:.3g}")


define_flags = functools.partial(flags.define, ConversionConfig)
main = functools.partial(program.run, define_flags, run, description=__doc__)
