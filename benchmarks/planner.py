"""Plans a pretraining run: its memory, its time and its price.

    python benchmarks/planner.py --config=xlarge_v2 --length=512 \
        --device=a100-40 --gpus=8
    python benchmarks/planner.py --config=base_v2 --length=512 \
        --device=a100-40 --measured=training.json
    python benchmarks/planner.py --config=my_config.json --peak=40 --memory=12

Speed is modelled: operations of the model, over an assumed share of the
device's peak. With `--measured`, the output of `benchmarks/training.py --json`
on such a device, the share is the measured one. Memory is always modelled, for
weights that all layers share. On a CPU in bfloat16, xlarge and xxlarge took up
to a third less than the formulas say; with `--recompute`, all sizes took
up to 0.7 GiB more. The output says of every number which it is. The gradients
are added up once an update, after all micro-batches, over a link of `--network`
to each device; docs/scaling.md has the formulas.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from albert_tf import published_configs as configs  # noqa: E402
from benchmarks import model_sizes  # noqa: E402

GIB = 2**30
# Share of its peak that a device is assumed to reach.
ASSUMED_SHARE = 0.35
# Copies of the weights in float32: themselves, the moments, the gradients, and
# what adding up, clipping and updating take; measured for xlarge and xxlarge.
NUM_COPIES = 6
# Of the memory of a device, what is left beside the back end's own.
USABLE_SHARE = 0.9
# Of one message between two devices.
LATENCY_SECONDS = 50e-6
# A link of 100 Gbit/s.
NETWORK = 12.5e9
BYTES_A_WEIGHT = 4  # float32, as its gradient
BYTES_A_VALUE = 2  # bfloat16
BYTES_A_LOGIT = 4 * 3  # The logits, their probabilities, their gradient.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """A device; the first three are of its data sheet."""

    peak: float  # operations/s in its precision, without sparsity
    memory: float  # bytes
    precision: str = "bfloat16"
    share: float = ASSUMED_SHARE  # of the peak, that a training reaches
    network: float = NETWORK  # bytes/s between the device and the others


DEVICES = {
    # Without bfloat16.
    "t4-16": Device(peak=65e12, memory=16 * GIB, precision="float16"),
    "v100-16": Device(peak=125e12, memory=16 * GIB, precision="float16"),
    "l4-24": Device(peak=121e12, memory=24 * GIB),
    "a10-24": Device(peak=125e12, memory=24 * GIB),
    "a100-40": Device(peak=312e12, memory=40 * GIB),
    "a100-80": Device(peak=312e12, memory=80 * GIB),
    "h100-80": Device(peak=989e12, memory=80 * GIB),
    "h200-141": Device(peak=989e12, memory=141 * GIB),
    "tpu-v3-core": Device(peak=61e12, memory=16 * GIB),
    "tpu-v4-chip": Device(peak=275e12, memory=32 * GIB),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """An update of a global batch, as the formulas have it."""

    compute: float  # seconds of the matrix products
    all_reduce: float  # seconds until the gradients are added up
    fixed_bytes: float  # memory of a device without a sequence
    sequence_bytes: float  # what each sequence of a micro-batch takes
    micro_batch: int  # sequences that a device takes at a time; 0 if none fit

    @property
    def seconds(self) -> float:
        """Seconds of an update."""
        return self.compute + self.all_reduce


def plan(
    config: Any,
    device: Device,
    *,
    length: int,
    batch: int,
    num_devices: int,
    recompute: bool = False,
) -> Plan:
    """Plans an update of a global batch; all devices have the whole model."""
    speed = device.peak * device.share * num_devices
    compute = batch * training_flops(config, length) / speed
    heads = model_sizes.head_parts(config)
    parameters = model_sizes.encoder_parameters(config)
    parameters += sum(head.parameters for head in heads)
    fixed = NUM_COPIES * BYTES_A_WEIGHT * parameters
    if not recompute:
        fixed += layer_gradient_bytes(config)
    each = sequence_bytes(config, length, recompute=recompute)
    per_device = batch // num_devices
    room = (device.memory * USABLE_SHARE - fixed) / each
    sizes = range(1, per_device + 1)
    fitting = [n for n in sizes if per_device % n == 0 and n <= room]
    return Plan(
        compute=compute * (4 / 3 if recompute else 1),  # A pass forward more.
        all_reduce=all_reduce_seconds(parameters, num_devices, device.network),
        fixed_bytes=fixed,
        sequence_bytes=each,
        micro_batch=max(fitting, default=0),
    )


def all_reduce_seconds(
    num_values: int, num_devices: int, network: float
) -> float:
    """Returns the time to add up float32 values over devices in a ring."""
    if num_devices == 1:
        return 0.0
    passes = 2 * (num_devices - 1) / num_devices
    messages = 2 * math.ceil(math.log2(num_devices))
    return (
        passes * BYTES_A_WEIGHT * num_values / network
        + messages * LATENCY_SECONDS
    )


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--config", default="base_v2", help="published name, or a JSON file"
    )
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--device", choices=DEVICES, default="a100-40")
    parser.add_argument(
        "--peak",
        type=float,
        help="of another device: 1e12 operations/s in a precision of 16 bits, "
        "without sparsity",
    )
    parser.add_argument(
        "--memory", type=float, help="of another device, in GiB"
    )
    parser.add_argument("--gpus", type=int, default=1, help="devices")
    parser.add_argument("--batch", type=int, default=4096, help="global")
    parser.add_argument("--steps", type=int, default=125_000)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument(
        "--network",
        type=float,
        default=NETWORK,
        help="bytes/s between a device and the others",
    )
    parser.add_argument(
        "--price", type=float, help="of an hour of a device, in any currency"
    )
    parser.add_argument("--measured", help="output of benchmarks/training.py")
    return parser.parse_args()


def main() -> None:
    """Prints the plan."""
    arguments = parse_arguments()
    for name, value in vars(arguments).items():
        is_number = isinstance(value, int | float) and name != "recompute"
        if is_number and not 0 < value < math.inf:
            sys.exit(f"error: --{name} must be above 0. Received: {value:g}.")
    if (arguments.peak is None) != (arguments.memory is None):
        sys.exit("error: --peak and --memory go together")
    if arguments.batch % arguments.gpus:
        sys.exit("error: --batch must be a multiple of --gpus")
    try:
        config = configs.load_config(arguments.config)
    except (OSError, ValueError) as error:
        text = str(error).replace("--albert_config_file", "--config")
        sys.exit(f"error: {text}")
    length, device = arguments.length, chosen_device(arguments)
    share, origin = ASSUMED_SHARE, "assumed"
    if arguments.measured:
        share, origin = measured_share(arguments, device), "measured"
    device = dataclasses.replace(device, share=share, network=arguments.network)
    planned = plan(
        config,
        device,
        length=length,
        batch=arguments.batch,
        num_devices=arguments.gpus,
        recompute=arguments.recompute,
    )
    hours = planned.seconds * arguments.steps / 3600
    flops = training_flops(config, length)
    rows = {
        "--precision": device.precision,
        "operations a sequence": f"{flops / 1e12:.2f} T, counted",
        "share of the peak": f"{share:.2f}, {origin}",
        "sequences/s": f"{arguments.batch / planned.seconds:,.0f}, modelled",
        "adding up gradients": (
            f"{planned.all_reduce / planned.seconds:.1%} of the time, modelled"
        ),
        f"hours for {arguments.steps:,} steps": f"{hours:,.0f}, modelled",
    }
    if arguments.price is not None:
        cost = hours * arguments.gpus * arguments.price
        rows["price of all devices"] = f"{cost:,.0f}, at {arguments.price:g}"
    rows |= {
        "memory without a sequence": (
            f"{planned.fixed_bytes / GIB:.1f} GiB, modelled"
        ),
        "memory of a sequence": (
            f"{planned.sequence_bytes / GIB:.3f} GiB, modelled"
        ),
    }
    if micro := planned.micro_batch:
        num_micro_batches = arguments.batch // arguments.gpus // micro
        rows["micro-batch"] = f"{micro} a device, modelled"
        rows["--gradient_accumulation_steps"] = f"{num_micro_batches}"
    else:
        rows["micro-batch"] = "does not fit" + (
            "" if arguments.recompute else "; try --recompute"
        )
    for name, text in rows.items():
        print(f"{name:<32} {text}")


def chosen_device(arguments: argparse.Namespace) -> Device:
    """Returns the named device, or that of the figures."""
    if arguments.peak is None:
        return DEVICES[arguments.device]
    return Device(
        peak=arguments.peak * 1e12,
        memory=arguments.memory * GIB,
        precision="16 bits",
    )


def training_flops(config: Any, length: int) -> float:
    """Returns the operations of a sequence, forward and backward."""
    forward = model_sizes.flops(config, length) * length
    return forward * model_sizes.TRAINING_FACTOR


def layer_gradient_bytes(config: Any) -> float:
    """Returns the bytes of the gradients of all layers, which share weights.

    They are kept in bfloat16 and added at the end. With `--recompute`, each is
    added as it comes.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    weights = 4 * hidden**2 + 2 * hidden * inner
    return config.num_hidden_layers * BYTES_A_VALUE * weights


def sequence_bytes(config: Any, length: int, *, recompute: bool) -> float:
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
    logits = model_sizes.MASKED_SHARE * config.vocab_size * BYTES_A_LOGIT
    return length * (kept * BYTES_A_VALUE + logits)


def measured_share(arguments: argparse.Namespace, device: Device) -> float:
    """Returns the share of the peak that a measured step reaches."""
    try:
        lines = pathlib.Path(arguments.measured).read_text().splitlines()
        found = json.loads(lines[-1])
        flops = training_flops(
            configs.load_config(found["config"]), found["length"]
        )
        return found["sequences_per_second"] * flops / device.peak
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        sys.exit(
            f"error: {arguments.measured!r} is not the output of "
            f"benchmarks/training.py --json ({error})"
        )


if __name__ == "__main__":
    main()
