"""The training step against numbers recorded from the original."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.optimization import factory
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training import loss_scaling, step

NUM_STEPS = 6


class EndToEnd:
    """The recorded run: its batches, settings and results."""

    def __init__(self, shared_data, name):
        folder = shared_data / "golden"
        self.model_folder = folder / "model_base"
        self.arrays = np.load(folder / "optimizer" / f"e2e_{name}.npz")
        self.settings = OptimizerConfig(
            name=name,
            learning_rate=float(self.arrays["init_lr"]),
            num_train_steps=int(self.arrays["num_train_steps"]),
            num_warmup_steps=int(self.arrays["num_warmup_steps"]),
            poly_power=float(self.arrays["poly_power"]),
        )

    def batches(self):
        batches = {
            key.removeprefix("batch/"): self.arrays[key]
            for key in self.arrays.files
            if key.startswith("batch/")
        }
        return tf.data.Dataset.from_tensor_slices(batches)

    def run(self, *, num_micro_batches=1, jit_compile=False, per_call=6):
        config = AlbertConfig.from_json_file(
            self.model_folder / "albert_config.json"
        )
        task = PretrainingTask(config)
        load.load_checkpoint(task.model, self.model_folder)
        optimizer = factory.create_optimizer(self.settings)
        optimizer.build(task.model.trainable_variables)
        train_step = step.TrainStep(
            task,
            optimizer,
            self.settings,
            tf.distribute.get_strategy(),
            step.StepOptions(
                num_micro_batches=num_micro_batches, jit_compile=jit_compile
            ),
        )
        iterator = iter(self.batches())
        rows = []
        for first in range(0, NUM_STEPS, per_call):
            values, _ = train_step.run(
                iterator,
                tf.constant(first, tf.int64),
                tf.constant(per_call),
                tf.constant(1.0),
                tf.constant(loss_scaling.initial()),
            )
            rows.append(values.numpy())
        rows = np.concatenate(rows)
        sums = [
            dict(zip(train_step.result_names, row, strict=True)) for row in rows
        ]
        return task, optimizer, sums


def assert_close(actual, expected, tolerance, floor=0.0):
    scale = np.abs(expected).max()
    error = np.abs(np.asarray(actual) - expected).max()
    assert error <= max(tolerance * scale, floor)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lamb", {}),
        ("adamw", {}),
        ("lamb", {"num_micro_batches": 4}),
        ("lamb", {"jit_compile": True}),
        ("lamb", {"per_call": 2}),
    ],
    ids=["lamb", "adamw", "accumulated", "xla", "three_calls"],
)
def test_six_steps_equal_the_recorded_ones(shared_data, name, options):
    recorded = EndToEnd(shared_data, name)

    task, optimizer, sums = recorded.run(**options)

    arrays = recorded.arrays
    scores = [task.training_scores(s) for s in sums]
    losses = [s["loss"] for s in scores]
    assert_close(losses, arrays["step/total_loss"], 1e-4)
    mlm = [s["masked_lm_loss"] for s in scores]
    assert_close(mlm, arrays["step/mlm_loss"], 1e-4)
    sop = [s["sentence_order_loss"] for s in scores]
    assert_close(sop, arrays["step/sop_loss"], 1e-4)
    norms = [s["gradient_norm"] for s in sums]
    assert_close(norms, arrays["step/grad_global_norm"], 1e-4)
    rates = [s["learning_rate"] for s in sums]
    assert_close(rates, arrays["step/lr"], 1e-6)
    variables = variable_names.variables_by_tf1_name(
        task.model.trainable_variables
    )
    for tf1_name, variable in variables.items():
        # Golden README, 8.4: these gradients are rounding noise, which the
        # optimizers amplify.
        is_noise = tf1_name.endswith("key/bias")
        floor = 1e-4 if is_noise else 0.0
        expected = arrays[f"final/{tf1_name}"]
        assert_close(variable, expected, 1e-4, floor)
        if name == "lamb" and not is_noise:
            for slot, suffix in zip(
                optimizer.slots(variable), ("adam_m", "adam_v"), strict=True
            ):
                expected = arrays[f"final/{tf1_name}/{suffix}"]
                assert_close(slot, expected, 1e-4)
