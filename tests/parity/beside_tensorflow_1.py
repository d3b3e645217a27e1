"""Trains beside the original on TensorFlow 1.15; run by hand, see README.md.

    python -m tests.parity.beside_tensorflow_1 RECORDS OUTPUT [lamb|adamw]

Both start from `model_base` and see the same batches. The rate is constant,
because in the original on TensorFlow 1.15 it may be that of the next step.
Needs ORIGINAL_PYTHON, a Python with TensorFlow 1.15 that finds the original as
`albert`. Prints the largest differences of losses and of weights.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf

from albert_tf.cli import run_pretraining
from albert_tf.data import example_order, input_pipeline, record_source

BASE = pathlib.Path(__file__).parent / "model_base"
NUM_STEPS, BATCH_SIZE, RATE = 100, 32, 0.00176
ORIGINAL = """
import sys
import numpy as np, tensorflow.compat.v1 as tf
from albert import modeling, run_pretraining
base, out, optimizer, num_steps, rate = sys.argv[1:]
batches = np.load(out + "/batches.npz")
model_fn = run_pretraining.model_fn_builder(
    modeling.AlbertConfig.from_json_file(base + "/albert_config.json"),
    base + "/model.ckpt-best", float(rate), int(num_steps), 0, False,
    True,  # One-hot embeddings, as on a TPU: gradients are not sparse.
    optimizer, 0.0, 0)
tf.flags.FLAGS(sys.argv[:1])
with tf.Graph().as_default(), tf.Session() as session:
    features = {n: tf.placeholder(batches[n].dtype, batches[n].shape[1:])
                for n in batches}
    spec = model_fn(features, None, tf.estimator.ModeKeys.TRAIN, {})
    session.run(tf.global_variables_initializer())
    losses = [
        session.run([spec.loss, spec.train_op],
                    {features[n]: batches[n][i] for n in features})[0]
        for i in range(int(num_steps))]
    weights = {v.op.name: session.run(v) for v in tf.trainable_variables()}
np.savez(out + "/original.npz", losses=losses, **weights)
"""


def write_batches(records: str, path: pathlib.Path) -> None:
    """Writes the batches of a run, with the original's names."""
    dataset = input_pipeline.training_dataset(
        record_source.open_records(records),
        example_order.InputShard(),
        global_batch_size=BATCH_SIZE,
        seed=0,
    )
    batches = [*dataset.take(NUM_STEPS).as_numpy_iterator()]
    arrays = {name: np.stack([b[name] for b in batches]) for name in batches[0]}
    labels = arrays.pop("sentence_order_labels")
    np.savez(path, **arrays, next_sentence_labels=labels[..., None])


def main(records: str, output: str, optimizer: str = "lamb") -> None:
    folder = pathlib.Path(output)
    folder.mkdir(parents=True)
    write_batches(records, folder / "batches.npz")
    theirs = [BASE, folder, optimizer, NUM_STEPS, RATE]
    subprocess.run(
        [os.environ["ORIGINAL_PYTHON"], "-c", ORIGINAL, *map(str, theirs)],
        check=True,
    )
    sys.argv = [
        "run_pretraining.py",
        f"--albert_config_file={BASE / 'albert_config.json'}",
        f"--init_checkpoint={BASE / 'model.ckpt-best'}",
        f"--input_file={records}",
        f"--output_dir={folder / 'run'}",
        f"--train_batch_size={BATCH_SIZE}",
        f"--num_train_steps={NUM_STEPS}",
        f"--learning_rate={RATE}",
        f"--optimizer={optimizer}",
        "--max_seq_length=64",
        "--num_warmup_steps=0",
        "--poly_power=0",
        "--random_seed=0",
        "--log_steps=1",
    ]
    try:
        run_pretraining.main()
    except SystemExit as end:
        assert not end.code
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [values["loss"] for values in map(json.loads, lines)]
    [newest] = (folder / "run" / "checkpoints").glob(f"step-*{NUM_STEPS}")
    reader = tf.train.load_checkpoint(str(newest / "model.ckpt"))
    expected = dict(np.load(folder / "original.npz"))
    loss = np.abs(1 - losses / expected.pop("losses")).max()
    weight = max(
        np.abs(reader.get_tensor(name) - values).max()
        for name, values in expected.items()
    )
    sys.stdout.write(f"losses {loss:.1e} (relative), weights {weight:.1e}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
