r"""Makes the table of docs/results.md about a GPU: ours beside transformers.

    python benchmarks/gpu.py --peer_python=.venv-transformers/bin/python
    python benchmarks/gpu.py --config=tiny.json --shapes=2x8 --predictions=2 \
        --rounds=1 --calls=1 --programs=jax,flash

Programs are `jax`; `flash`, the same with attention in one kernel;
`tensorflow`, compiled by XLA; and `transformers`, with `sdpa`, `torch.compile`
and fused AdamW. Each has random weights, batches of random tokens without
padding, and one device: a GPU if it sees one. It encodes, and trains with both
losses of pretraining and AdamW, in a process of its own. Milliseconds are
medians of rounds of calls that follow one another. A program that is not
installed is left out.

The exit code is 1, after the table, if some programs used a CPU and others not,
if `flash` computes something else than `jax`, or if it had no kernel on a GPU.
The last line is one JSON object.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from albert_tf import published_configs  # noqa: E402
from albert_tf.config import AlbertConfig  # noqa: E402

# The engine of Keras that a program of ours runs on.
ENGINES = {"jax": "jax", "flash": "jax", "tensorflow": "tensorflow"}
PROGRAMS = (*ENGINES, "transformers")
FIRST_WORD = 5  # after the special tokens
# Share of the largest value by which bfloat16 may change attention.
TOLERANCE = 0.05
Arrays = Mapping[str, np.ndarray]
Call = Callable[[], Any]
# Encodes; trains a step, and returns its loss; waits for a result; facts.
Program = tuple[Call, Call, Callable[[Any], Any], dict[str, Any]]
LEARNING_RATE = 1e-4
# In the name of cuDNN's attention in a compiled program.
KERNEL = "__cudnn$fmha"
SHARED_FIELDS = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--config", default="base_v2", help="published name, or a JSON file"
    )
    parser.add_argument(
        "--shapes", default="32x128,8x512,64x512", help="batch x length"
    )
    parser.add_argument("--predictions", type=int, default=20)
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=15, help="in each round")
    parser.add_argument(
        "--peer_python", default=sys.executable, help="that has transformers"
    )
    parser.add_argument("--measure", metavar="PROGRAM", help="in this process")
    return parser.parse_args()


def main() -> None:
    """Measures one program, or prints the table of all."""
    options = parse_arguments()
    if options.measure:
        print(json.dumps(measure(options)))
        return
    programs = options.programs.split(",")
    if unknown := {*programs} - {*PROGRAMS}:
        sys.exit(f"error: --programs are {', '.join(PROGRAMS)}, not {unknown}")
    found = {name: in_a_process(name, options) for name in programs}
    results = {name: figures for name, figures in found.items() if figures}
    if not results:
        sys.exit("error: no program is installed")
    print(table(results))
    print(json.dumps(results))
    if found := problems(results):
        sys.exit(f"error: {'; '.join(found)}")


def in_a_process(
    program: str, options: argparse.Namespace
) -> dict[str, Any] | None:
    """Returns the figures of a program; None if it is not installed."""
    python = sys.executable if program in ENGINES else options.peer_python
    own = vars(options) | {"measure": program}
    flags = [f"--{name}={value}" for name, value in own.items()]
    done = subprocess.run(
        [python, __file__, *flags],
        env=os.environ | {"KERAS_BACKEND": ENGINES.get(program, "torch")},
        capture_output=True,
        text=True,
        check=False,
    )
    last = ["", *done.stderr.strip().splitlines()][-1]
    if last.startswith("ModuleNotFoundError"):
        print(f"{program} is left out: {last}")
        return None
    if done.returncode:
        sys.exit(f"error: {program} failed: {last or done.returncode}")
    sys.stderr.write(done.stderr)
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def problems(results: Mapping[str, dict[str, Any]]) -> list[str]:
    """Returns why the figures of a table cannot be compared."""
    found = []
    devices = {name: figures["device"] for name, figures in results.items()}
    if len({device == "cpu" for device in devices.values()}) > 1:
        found.append(f"the programs had other devices: {devices}")
    if flash := results.get("flash"):
        if flash["device"] != "cpu" and not flash["has_kernel"]:
            found.append("flash had no attention of cuDNN")
        if not flash["difference"] <= TOLERANCE:
            found.append(
                f"attention of flash differs from the formula by "
                f"{flash['difference']:.3g} of its largest value"
            )
    return found


def table(results: Mapping[str, dict[str, Any]]) -> str:
    """Returns a table in Markdown: milliseconds, and ratios to transformers.

    A ratio above 1 means that the program is faster.
    """
    ours = [name for name in results if name in ENGINES]
    peers = [name for name in results if name not in ENGINES]
    titles = [*results, *(f"{peer} / {one}" for peer in peers for one in ours)]
    lines = [f"| | {' | '.join(titles)} |", f"|---|{'--:|' * len(titles)}"]
    times = {name: found["milliseconds"] for name, found in results.items()}
    for row in next(iter(times.values())):
        cells = [f"{times[name][row]:.3g}" for name in results]
        for peer in peers:
            cells += [
                f"{times[peer][row] / times[one][row]:.2f}" for one in ours
            ]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    for name, found in results.items():
        losses = ", ".join(f"{loss:.4f}" for loss in found["losses"].values())
        lines.append(
            f"{name}: {found['versions']}, {found['device']}; losses {losses}"
        )
    return "\n".join(lines)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Times a program in this process."""
    make = {
        "tensorflow": tensorflow_program,
        "transformers": transformers_program,
    }.get(options.measure, jax_program)
    losses, milliseconds, facts = {}, {}, {}
    for shape in options.shapes.split(","):
        size, length = map(int, shape.split("x"))
        config = dataclasses.replace(
            published_configs.load_config(options.config),
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        batch = random_batch(config, size, length, options.predictions)
        encode, step, wait, facts = make(options, config, batch)
        name = f"{size} x {length}"
        step()
        # After an update, so that gradients count.
        losses[name] = float(step())
        for kind, call in (("encode", encode), ("training step,", step)):
            milliseconds[f"{kind} {name}"] = time_of(call, wait, options)
    return {"losses": losses, "milliseconds": milliseconds} | facts


def time_of(
    call: Call, wait: Callable[[Any], Any], options: argparse.Namespace
) -> float:
    """Returns the milliseconds of a call: the median of all rounds."""
    wait(call())  # Compiles.
    seconds = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        for _ in range(options.calls):
            result = call()
        wait(result)
        seconds.append((time.perf_counter() - start) / options.calls)
    return statistics.median(seconds) * 1e3


def random_batch(
    config: AlbertConfig, size: int, length: int, num_predictions: int
) -> Arrays:
    """Returns random tokens without padding, targets and labels."""
    rng = np.random.default_rng(0)
    shape, slots = (size, length), (size, num_predictions)
    half = np.arange(length) >= length // 2
    words = FIRST_WORD, config.vocab_size
    return {
        "input_ids": rng.integers(*words, shape, "int32"),
        "input_mask": np.ones(shape, "int32"),
        "segment_ids": np.broadcast_to(half.astype("int32"), shape),
        # All different, because transformers has one label for a position.
        "masked_lm_positions": np.sort(
            rng.permuted(np.tile(np.arange(1, length), (size, 1)), axis=1)[
                :, :num_predictions
            ].astype("int32")
        ),
        "masked_lm_ids": rng.integers(*words, slots, "int32"),
        "sentence_order_labels": rng.integers(0, 2, size, "int32"),
    }


def pretraining_loss(outputs: Mapping[str, Any], batch: Arrays) -> Any:
    """Returns the sum of the mean losses of both objectives of ours."""
    from albert_tf.modeling import losses

    labels = {
        "masked_lm_logits": batch["masked_lm_ids"],
        "sentence_order_logits": batch["sentence_order_labels"],
    }
    both = [
        losses.cross_entropy_sums(outputs[name], ids, np.ones(ids.shape))
        for name, ids in labels.items()
    ]
    return sum(one.loss / one.weight for one in both)


def our_model(options: argparse.Namespace, config: AlbertConfig) -> Any:
    """Returns a model of ours, and an optimizer of its weights."""
    from albert_tf.modeling.pretraining_model import PretrainingModel
    from albert_tf.optimization.optimizers import AlbertAdamW

    dtype = options.precision
    mixed = dtype if dtype == "float32" else f"mixed_{dtype}"
    model = PretrainingModel(config, dtype=mixed)
    optimizer = AlbertAdamW(LEARNING_RATE)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def jax_program(
    options: argparse.Namespace, config: AlbertConfig, batch: Arrays
) -> Program:
    """Returns ours on JAX, `jax` or `flash`."""
    import jax

    from albert_tf.modeling import fused, operations

    model, optimizer = our_model(options, config)
    batch = jax.device_put(dict(batch))
    inputs = model.inputs_of(batch)
    ids = model.albert.inputs_of(batch)

    def values(variables: list[Any]) -> list[Any]:
        return [variable.value for variable in variables]

    def encode_with(weights: list[Any], ids: Any) -> Any:
        others = values(model.albert.non_trainable_variables)
        outputs, _ = model.albert.stateless_call(weights, others, ids)
        return outputs["sequence_output"], outputs["pooled_output"]

    def loss_of(weights: list[Any], inputs: Any, batch: Any) -> Any:
        others = values(model.non_trainable_variables)
        outputs, _ = model.stateless_call(
            weights, others, inputs, training=True, seed=np.zeros(2, "uint32")
        )
        return pretraining_loss(outputs, batch)

    def update(weights: list[Any], slots: list[Any], *data: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, *data)
        weights, slots = optimizer.stateless_apply(slots, gradients, weights)
        return loss, weights, slots

    frozen = values(model.albert.trainable_variables)
    # A copy: an update takes the memory of the weights before it.
    state = jax.tree.map(
        lambda x: x.copy(),
        (values(model.trainable_variables), values(optimizer.variables)),
    )
    is_flash = options.measure == "flash"
    used = fused.FlashAttention() if is_flash else operations.PLAIN
    with fused.computing_with(model, used):
        encode = jax.jit(encode_with).lower(frozen, ids).compile()
        run = jax.jit(update, donate_argnums=(0, 1))
        run = run.lower(*state, inputs, batch).compile()

    def step() -> Any:
        nonlocal state
        loss, *state = run(*state, inputs, batch)
        return loss

    device = jax.devices()[0]
    facts: dict[str, Any] = {
        "versions": f"JAX {jax.__version__}",
        "device": "cpu" if device.platform == "cpu" else device.device_kind,
        "has_kernel": all(KERNEL in one.as_text() for one in (encode, run)),
    }
    if is_flash:
        facts["difference"] = difference(config, ids, options.precision)
    return lambda: encode(frozen, ids), step, jax.block_until_ready, facts


def difference(config: AlbertConfig, ids: Arrays, precision: str) -> float:
    """Returns how far attention in one kernel is from the formula.

    The largest difference of values and gradients, with padding, as a share of
    the largest value. A mask without effect makes it about 1.
    """
    import jax
    import jax.numpy as jnp

    from albert_tf.modeling import fused, operations

    (size, length), heads = ids["input_ids"].shape, config.num_attention_heads
    shape = (size, heads, length, config.hidden_size // heads)
    keys = jax.random.split(jax.random.key(0), 4)
    *inputs, weights = (jax.random.normal(k, shape, precision) for k in keys)
    # All lengths down to half.
    ends = length - np.arange(size) % (length // 2 + 1)
    mask = (np.arange(length) < ends[:, None]).astype("int32")[:, None, None]

    def attended(used: operations.Operations) -> Any:
        def total(inputs: Any) -> Any:
            values = used.attend(*inputs, mask, drop=lambda x, seed: x)
            return jnp.sum((values * weights).astype("float32")), values

        run = jax.jit(jax.grad(total, has_aux=True))
        gradients, values = run(inputs)
        return [np.asarray(x, "float32") for x in (*gradients, values)]

    pairs = zip(
        attended(operations.PLAIN),
        attended(fused.FlashAttention()),
        strict=True,
    )
    return max(float(np.abs(b - a).max() / np.abs(a).max()) for a, b in pairs)


def tensorflow_program(
    options: argparse.Namespace, config: AlbertConfig, batch: Arrays
) -> Program:
    """Returns ours on TensorFlow, compiled by XLA."""
    import tensorflow as tf

    model, optimizer = our_model(options, config)
    batch = {name: tf.constant(array) for name, array in batch.items()}
    compiled = tf.function(autograph=False, jit_compile=True)

    @compiled
    def encode() -> Any:
        outputs = model.albert(model.albert.inputs_of(batch))
        return outputs["sequence_output"], outputs["pooled_output"]

    @compiled
    def step() -> Any:
        with tf.GradientTape() as tape:
            outputs = model(
                model.inputs_of(batch), training=True, seed=tf.zeros(2, "int32")
            )
            loss = pretraining_loss(outputs, batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    def wait(result: Any) -> None:
        for tensor in tf.nest.flatten(result):
            tensor[..., :1].numpy() if tensor.ndim else tensor.numpy()

    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    facts = {
        "versions": f"TensorFlow {tf.__version__}",
        "device": details[0]["device_name"] if details else "cpu",
    }
    return encode, step, wait, facts


def transformers_program(
    options: argparse.Namespace, config: AlbertConfig, batch: Arrays
) -> Program:
    """Returns transformers with `sdpa`; on a GPU, compiled."""
    import torch
    import transformers

    has_gpu = torch.cuda.is_available()
    device = "cuda" if has_gpu else "cpu"
    fields = dataclasses.asdict(config)
    fields = {name: fields[name] for name in SHARED_FIELDS}
    model = transformers.AlbertForPreTraining(
        transformers.AlbertConfig(
            **fields,
            hidden_act="gelu_new",
            classifier_dropout_prob=0.0,
            attn_implementation="sdpa",
        )
    ).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, fused=has_gpu
    )
    compiled = torch.compile if has_gpu else lambda module: module
    albert, pretraining = compiled(model.albert), compiled(model)
    labels = np.full(batch["input_ids"].shape, -100)
    positions = batch["masked_lm_positions"].astype("int64")
    np.put_along_axis(labels, positions, batch["masked_lm_ids"], 1)
    arrays = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
    }
    targets = {
        "labels": labels,
        "sentence_order_label": batch["sentence_order_labels"],
    }
    inputs, targets = (
        {
            name: torch.tensor(array.astype("int64"), device=device)
            for name, array in of_model.items()
        }
        for of_model in (arrays, targets)
    )
    precision = torch.autocast(
        device,
        dtype=getattr(torch, options.precision),
        enabled=options.precision != "float32",
    )

    def encode() -> Any:
        with torch.inference_mode(), precision:
            return albert(**inputs)

    def step() -> Any:
        with precision:
            loss = pretraining(**inputs, **targets).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    facts = {
        "versions": f"transformers {transformers.__version__}, "
        f"PyTorch {torch.__version__}",
        "device": torch.cuda.get_device_name() if has_gpu else "cpu",
    }
    wait = torch.cuda.synchronize if has_gpu else lambda: None
    return encode, step, lambda _: wait(), facts


if __name__ == "__main__":
    main()
