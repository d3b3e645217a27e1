"""Times one batch through exported models, in turn: CPU seconds and wall time.

    python benchmarks/serving.py served/bfloat16/1 served/int8/1 model.onnx

Models are version folders of `export_saved_model.py`, or files of ONNX Runtime
(`.onnx`), OpenVINO (`.xml`) and LiteRT (`.tflite`). The first one is what the
others are compared with: outputs, and the medians of ratios of times that were
taken one after the other. The last line of the output is one JSON object.
"""

import argparse
import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_OUTPUTS = ("logits", "pooled_output", "start_logits")

# A function of the ids of a batch.
Run = Callable[[dict[str, np.ndarray]], dict[str, Any]]


def open_saved_model(path: pathlib.Path) -> Run:
    """Returns the signature `tokens` of a SavedModel."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    loaded = tf.saved_model.load(str(path))

    def run(batch: dict[str, np.ndarray]) -> dict[str, Any]:
        tensors = {name: tf.constant(ids) for name, ids in batch.items()}
        return dict(loaded.signatures["tokens"](**tensors))

    return run


def open_litert(path: pathlib.Path) -> Run:
    """Returns the one signature of a LiteRT file."""
    import tensorflow as tf

    threads = len(os.sched_getaffinity(0))
    interpreter = tf.lite.Interpreter(str(path), num_threads=threads)
    signature = interpreter.get_signature_runner()
    return lambda batch: dict(signature(**batch))


def open_onnx(path: pathlib.Path) -> Run:
    """Returns an ONNX file in ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    wanted = [one.name for one in session.get_inputs()]
    return lambda batch: dict(
        zip(
            names,
            session.run(names, {name: batch[name] for name in wanted}),
            strict=True,
        )
    )


def open_openvino(path: pathlib.Path) -> Run:
    """Returns a model in OpenVINO, in bfloat16 where the CPU has it."""
    import openvino

    compiled = openvino.Core().compile_model(str(path), "CPU")
    return lambda batch: {
        name: values
        for output, values in compiled(batch).items()
        for name in output.names
    }


def open_model(path: pathlib.Path) -> tuple[Run, int]:
    """Returns a model, and the bytes of its weights."""
    if (path / "model.tflite").is_file():
        path /= "model.tflite"
    if path.is_dir():
        weights = [*path.glob("variables/*")]
        return open_saved_model(path), sum(f.stat().st_size for f in weights)
    size = path.stat().st_size
    if path.suffix == ".xml":
        size += path.with_suffix(".bin").stat().st_size
    makers = {".tflite": open_litert, ".onnx": open_onnx, ".xml": open_openvino}
    return makers[path.suffix](path), size


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--largest_id", type=int, default=20_000, help="of a token"
    )
    options = parser.parse_args()
    shape = (options.batch, options.length)
    ids = np.random.default_rng(0).integers(
        5, options.largest_id, shape, np.int32
    )
    batch = {
        "input_ids": ids,
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
    }
    opened = {str(path): open_model(path) for path in options.models}
    outputs = {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in opened}
    for _ in range(options.rounds):
        for name, (run, _) in opened.items():
            outputs[name] = run(batch)  # Not timed: shapes and caches.
            starts = time.process_time(), time.perf_counter()
            for _ in range(options.repeats):
                run(batch)
            cpu, wall = time.process_time(), time.perf_counter()
            times[name].append((cpu - starts[0], wall - starts[1]))
    first, *_ = opened
    output = next(name for name in _OUTPUTS if name in outputs[first])
    table = {}
    for name, (_, size) in opened.items():
        pairs = zip(times[name], times[first], strict=True)
        ratios = [ours / others for (ours, _), (others, _) in pairs]
        cpu = statistics.median(cpu for cpu, _ in times[name])
        wall = statistics.median(wall for _, wall in times[name])
        gap = np.abs(outputs[name][output] - outputs[first][output]).max()
        table[name] = {
            "cpu_ms": round(1e3 * cpu / options.repeats, 1),
            "wall_ms": round(1e3 * wall / options.repeats, 1),
            "cpu_ratio": round(statistics.median(ratios), 3),
            "megabytes": round(size / 1e6, 1),
            "largest_difference": float(gap),
        }
        print(f"{name:40}", table[name])
    print(
        json.dumps(
            {"batch": options.batch, "length": options.length, "models": table}
        )
    )


if __name__ == "__main__":
    main()
