"""The training step: recorded numbers, replicas, accumulation, precisions."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.optimization import optimizers
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training import divergence, step

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
        optimizer = optimizers.create_optimizer(self.settings)
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
                tf.constant(divergence.initial()),
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


def assert_same_weights(actual, expected):
    for name, wanted in expected.items():
        # Golden README, 8.4: the gradient of a key's bias is rounding noise.
        floor = 1e-4 if name.endswith("key/bias") else 0.0
        assert_close(actual[name], wanted, 1e-5, floor)


def assert_same_results(actual, expected, tolerance=1e-4):
    for one, other in zip(actual, expected, strict=True):
        assert one == pytest.approx(other, rel=tolerance)


CLIP_NORM = 0.5


@pytest.fixture(scope="module")
def whole_runs():
    """What one device gets from whole batches; filled by `run_whole`."""
    return {}


@pytest.fixture
def run_whole(whole_runs, trainer, settings, tiny_batches):
    """A function that runs 6 steps once for each optimizer."""

    def run(optimizer):
        if optimizer not in whole_runs:
            whole = trainer(settings(name=optimizer, clip_norm=CLIP_NORM))
            results, _ = whole.run(tiny_batches(6))
            whole_runs[optimizer] = results, whole.weights()
        return whole_runs[optimizer]

    return run


SPLITS = {
    "replicas": {"replicas": 2},
    "accumulated": {"num_micro_batches": 4},
    "replicas_accumulated": {"replicas": 2, "num_micro_batches": 2},
    "replicas_compiled": {"replicas": 2, "jit_compile": True},
    "three_calls": {"per_call": 2},
}


@pytest.mark.parametrize(
    ("split", "optimizer"),
    [(name, "lamb") for name in SPLITS]
    + [("replicas", "adamw"), ("accumulated", "adamw")],
)
def test_a_global_batch_gives_the_same_update_however_it_is_split(
    split, optimizer, run_whole, trainer, settings, tiny_batches, two_replicas
):
    # The half of the rows that one replica gets has a quarter of the targets.
    options = dict(SPLITS[split])
    strategy = two_replicas if options.pop("replicas", 1) == 2 else None
    per_call = options.pop("per_call", None)
    wanted, weights = run_whole(optimizer)
    split_trainer = trainer(
        settings(name=optimizer, clip_norm=CLIP_NORM),
        strategy=strategy,
        **options,
    )

    got, _ = split_trainer.run(tiny_batches(6), per_call=per_call)

    assert min(row["gradient_norm"] for row in wanted) > CLIP_NORM
    assert_same_results(got, wanted)
    assert_same_weights(split_trainer.weights(), weights)
    if strategy:
        for variable in split_trainer.task.model.trainable_variables:
            first, second = variable.value.values
            np.testing.assert_array_equal(first.numpy(), second.numpy())


@pytest.mark.parametrize("replicas", [1, 2])
def test_float16_follows_float32(
    replicas, run_whole, trainer, settings, tiny_batches, two_replicas
):
    wanted, _ = run_whole("lamb")
    half = trainer(
        settings(clip_norm=CLIP_NORM),
        strategy=two_replicas if replicas == 2 else None,
        dtype="mixed_float16",
        scale_loss=True,
    )

    got, scale = half.run(tiny_batches(6))

    for name in ("masked_lm_loss", "sentence_order_loss", "gradient_norm"):
        assert_close([r[name] for r in got], [r[name] for r in wanted], 0.01)
    assert [row["loss_scale"] for row in got] == [divergence.INITIAL_SCALE] * 6
    assert scale == [divergence.INITIAL_SCALE, 6.0]


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_overflow_of_float16_skips_the_update_and_halves_the_scale(
    replicas, trainer, settings, tiny_batches, two_replicas
):
    half = trainer(
        settings(),
        strategy=two_replicas if replicas == 2 else None,
        dtype="mixed_float16",
        scale_loss=True,
    )
    before = half.weights()
    too_large = 2.0**30

    got, scale = half.run(tiny_batches(1), loss_scale=[too_large, 7.0])

    assert not np.isfinite(got[0]["gradient_norm"])
    assert got[0]["loss_scale"] == too_large
    assert scale == [too_large / 2, 0.0]
    for name, weight in half.weights().items():
        np.testing.assert_array_equal(weight, before[name])
    for variable in half.task.model.trainable_variables:
        for slot in half.optimizer.slots(variable):
            assert not np.any(slot)


def test_the_scale_of_float16_falls_until_updates_are_made_again(
    trainer, settings, tiny_batches
):
    half = trainer(settings(), dtype="mixed_float16", scale_loss=True)
    before = half.weights()

    got, _ = half.run(tiny_batches(20), loss_scale=[2.0**30, 0.0])

    assert not np.isfinite(got[0]["gradient_norm"])
    assert np.isfinite(got[-1]["gradient_norm"])
    for row, following in zip(got, got[1:], strict=False):
        factor = 1.0 if np.isfinite(row["gradient_norm"]) else 0.5
        assert following["loss_scale"] == factor * row["loss_scale"]
    assert any(np.any(w != before[n]) for n, w in half.weights().items())


def test_bfloat16_stays_near_float32(
    run_whole, trainer, settings, tiny_batches
):
    wanted, _ = run_whole("lamb")
    short = trainer(settings(clip_norm=CLIP_NORM), dtype="mixed_bfloat16")

    got, _ = short.run(tiny_batches(6))

    for name in ("masked_lm_loss", "sentence_order_loss", "gradient_norm"):
        assert_close([r[name] for r in got], [r[name] for r in wanted], 0.05)
    for variable in short.task.model.trainable_variables:
        assert variable.dtype == "float32"


def repeated(batches, times):
    """The first row of the first batch, as all rows of all batches."""
    return {
        name: np.broadcast_to(values[:1, :1], (times, *values.shape[1:])).copy()
        for name, values in batches.items()
    }


def run_without_learning(trainer, settings, tiny_config, **options):
    """Returns a function from batches to masked-LM losses, with dropout."""
    # A rate of almost 0, so that losses differ by their masks alone.
    made = trainer(
        settings(learning_rate=1e-20),
        config=tiny_config(dropout=0.3),
        **options,
    )
    return lambda batches: [
        row["masked_lm_loss"] for row in made.run(batches)[0]
    ]


def test_dropout_is_decided_by_seed_and_step(
    trainer, settings, tiny_config, tiny_batches
):
    batches = repeated(tiny_batches(1), 4)
    arguments = trainer, settings, tiny_config

    run = run_without_learning(*arguments, seed=5)
    run_with_other_seed = run_without_learning(*arguments, seed=6)

    losses = run(batches)
    assert len(set(losses)) == 4
    assert run(batches) == losses
    assert set(run_with_other_seed(batches)).isdisjoint(losses)


def test_replicas_and_micro_batches_have_dropout_masks_of_their_own(
    trainer, settings, tiny_config, tiny_batches, two_replicas
):
    # If both halves of a batch of equal rows had the same masks, the loss of
    # the whole would be twice that of a half with the masks of either.
    batches = repeated(tiny_batches(1), 1)
    half = {name: v[:, : v.shape[1] // 2] for name, v in batches.items()}
    arguments = trainer, settings, tiny_config

    (alone,) = run_without_learning(*arguments)(half)
    (parts,) = run_without_learning(*arguments, num_micro_batches=2)(batches)
    (replicas,) = run_without_learning(*arguments, strategy=two_replicas)(
        batches
    )

    assert parts != pytest.approx(2 * alone, rel=1e-3)
    assert replicas != pytest.approx(2 * alone, rel=1e-3)


def test_a_factor_scales_the_rate_of_a_weight_and_0_keeps_it(
    trainer, settings, tiny_batches
):
    batches = tiny_batches(1)
    path = "albert/pooler/kernel"
    frozen_path = "albert/embeddings/word_embeddings"
    rules = settings(optimizer="adamw", learning_rate=0.01, clip_norm=1e9)
    plain = trainer(rules)
    start = plain.weights()
    plain.run(batches)

    scaled = trainer(
        rules, learning_rate_multipliers={path: 0.5, frozen_path: 0.0}
    )
    scaled.run(batches)

    first, other = plain.weights(), scaled.weights()
    np.testing.assert_allclose(
        other[path] - start[path], (first[path] - start[path]) / 2, atol=1e-6
    )
    np.testing.assert_array_equal(other[frozen_path], start[frozen_path])
    assert (first[frozen_path] != start[frozen_path]).any()
    np.testing.assert_allclose(
        other["albert/pooler/bias"], first["albert/pooler/bias"], atol=1e-6
    )


def test_parts_of_batches_of_any_length_are_those_of_one_length():
    value = np.arange(24).reshape(4, 3, 2)
    spec = tf.TensorSpec([4, None, 2], tf.int64)
    split = tf.function(lambda x: step._split(x, 2), input_signature=[spec])

    np.testing.assert_array_equal(split(value), value.reshape(2, 2, 3, 2))
    assert split.get_concrete_function().output_shapes == (2, 2, None, 2)
    np.testing.assert_array_equal(
        step._split(tf.constant(value), 2), value.reshape(2, 2, 3, 2)
    )
