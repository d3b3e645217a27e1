"""Plans a pretraining run: does it fit a device, and how long does it take?

    python benchmarks/planner.py --config=xlarge_v2 --length=512 \
        --device=a100-40 --gpus=8
    python benchmarks/planner.py --config=base_v2 --length=512 \
        --device=a100-40 --measured=training.json

Speed is modelled: operations of the model, over an assumed share of the
device's peak. With `--measured`, the output of `benchmarks/training.py --json`
on such a device, the share is the measured one. Memory is always modelled:
within a tenth of what base (4 x 512) and, with `--recompute`, xxlarge took on a
CPU; without it, xxlarge took 60% more there. The output says of every number
which it is. The time to add up the gradients of several devices is left out.
"""

import argparse
import dataclasses
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
GIB = 2**30
# Share of its peak that a device is assumed to reach.
ASSUMED_SHARE = 0.35
# Copies of the weights in float32: themselves, the moments, the gradients, and
# what adding up, clipping and updating take; measured for base and xxlarge.
NUM_COPIES = 11
# Of the memory of a device, what is left beside the back end's own.
USABLE_SHARE = 0.9
BYTES_A_VALUE = 2  # bfloat16
BYTES_A_LOGIT = 4 * 3  # The logits, their probabilities, their gradient.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """A device as its data sheet has it: bfloat16 operations/s, bytes."""

    peak: float
    memory: float


DEVICES = {
    "v100-16": Device(peak=125e12, memory=16 * GIB),
    "a100-40": Device(peak=312e12, memory=40 * GIB),
    "a100-80": Device(peak=312e12, memory=80 * GIB),
    "h100-80": Device(peak=989e12, memory=80 * GIB),
    "tpu-v3-core": Device(peak=61e12, memory=16 * GIB),
    "tpu-v4-chip": Device(peak=275e12, memory=32 * GIB),
}


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="base_v2", help="published name")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--device", choices=DEVICES, default="a100-40")
    parser.add_argument("--gpus", type=int, default=1, help="devices")
    parser.add_argument("--batch", type=int, default=4096, help="global")
    parser.add_argument("--steps", type=int, default=125_000)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--measured", help="output of benchmarks/training.py")
    return parser.parse_args()


def main() -> None:
    """Prints the plan."""
    arguments = parse_arguments()
    sys.path.insert(0, str(ROOT))
    from albert_tf import config as configs
    from albert_tf.modeling import summary

    if arguments.gpus < 1 or arguments.batch % arguments.gpus:
        sys.exit("error: --batch must be a multiple of --gpus")
    config = configs.published_config(arguments.config)
    length, device = arguments.length, DEVICES[arguments.device]
    share, origin = ASSUMED_SHARE, "assumed"
    if arguments.measured:
        share, origin = measured_share(arguments, device), "measured"
    flops = training_flops(config, length, summary)
    speed = share * device.peak * arguments.gpus / flops
    if arguments.recompute:
        speed *= 3 / 4  # One more pass forward.
    parts = [*summary.encoder_parts(config), *summary.head_parts(config)]
    fixed = NUM_COPIES * 4 * sum(part.parameters for part in parts)
    each = sequence_bytes(config, length, arguments.recompute, summary)
    per_device = arguments.batch // arguments.gpus
    room = (device.memory * USABLE_SHARE - fixed) / each
    rows = {
        "operations a sequence": f"{flops / 1e12:.2f} T, counted",
        "share of the peak": f"{share:.2f}, {origin}",
        "sequences/s": f"{speed:,.0f}, modelled",
        f"hours for {arguments.steps:,} steps": (
            f"{arguments.batch * arguments.steps / speed / 3600:,.0f}, modelled"
        ),
        "memory without a sequence": f"{fixed / GIB:.1f} GiB, modelled",
        "memory of a sequence": f"{each / GIB:.3f} GiB, modelled",
    }
    if room < 1:
        rows["micro-batch"] = "does not fit" + (
            "" if arguments.recompute else "; try --recompute"
        )
    else:
        micro = max(
            n
            for n in range(1, per_device + 1)
            if not per_device % n and n <= room
        )
        rows["micro-batch"] = f"{micro} a device, modelled"
        rows["--gradient_accumulation_steps"] = f"{per_device // micro}"
    for name, text in rows.items():
        print(f"{name:<32} {text}")


def training_flops(config, length, summary) -> float:  # noqa: ANN001
    """Returns the operations of a sequence, forward and backward."""
    parts = [
        *summary.encoder_parts(config, length),
        *summary.head_parts(config, length),
    ]
    a_position = sum(part.flops for part in parts)
    return a_position * length * summary.TRAINING_FACTOR


def sequence_bytes(config, length, recompute, summary) -> float:  # noqa: ANN001
    """Returns the bytes that the activations of a sequence take."""
    hidden, num_layers = config.hidden_size, config.num_hidden_layers
    values = 12 * hidden + 2 * config.intermediate_size  # A block, a position.
    values += 2 * config.num_attention_heads * length
    # Twice a block: it, and its gradients.
    kept = (
        2 * hidden * num_layers + 2 * values
        if recompute
        else (values * num_layers)
    )
    logits = summary.MASKED_SHARE * config.vocab_size * BYTES_A_LOGIT
    return length * (kept * BYTES_A_VALUE + logits)


def measured_share(arguments: argparse.Namespace, device: Device) -> float:
    """Returns the share of the peak that a measured step reaches."""
    from albert_tf import config as configs
    from albert_tf.modeling import summary

    try:
        lines = pathlib.Path(arguments.measured).read_text().splitlines()
        found = json.loads(lines[-1])
        flops = training_flops(
            configs.published_config(found["config"]), found["length"], summary
        )
        return found["sequences_per_second"] * flops / device.peak
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        sys.exit(
            f"error: {arguments.measured!r} is not the output of "
            f"benchmarks/training.py --json ({error})"
        )


if __name__ == "__main__":
    main()
