import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from albert_tf.optimization import (
    clipping,
    factory,
    optimizers,
    schedules,
)
from albert_tf.optimization.optimizer_config import OptimizerConfig

_STEMS = (
    "adamw",
    "lamb",
    "adamw_clip",
    "lamb_clip",
    "adamw_high_rate",
    "lamb_high_rate",
)
_TOLERANCE = 2e-6

needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a matter of TensorFlow"
)


def _config(stem, arrays):
    return OptimizerConfig(
        name=stem.split("_")[0],
        learning_rate=float(arrays["init_lr"]),
        num_train_steps=int(arrays["num_train_steps"]),
        num_warmup_steps=int(arrays["num_warmup_steps"]),
        start_warmup_step=int(arrays["start_warmup_step"]),
        poly_power=float(arrays["poly_power"]),
    )


@pytest.fixture(params=_STEMS)
def run(request, recorded, make_variable, check_close):
    return _RecordedRun(request.param, recorded, make_variable, check_close)


class _RecordedRun:
    """An optimizer at the start of a recorded run, and the check of a step."""

    def __init__(self, stem, recorded, make_variable, check_close):
        self.arrays = recorded(stem)
        self.config = _config(stem, self.arrays)
        self.num_steps = len(self.arrays["lr"])
        names = [key[5:] for key in self.arrays if key.startswith("init/")]
        self.variables = [
            make_variable(name, self.arrays[f"init/{name}"]) for name in names
        ]
        self.optimizer = factory.create_optimizer(self.config)
        self.optimizer.build(self.variables)
        self._check_close = check_close

    def gradients(self, step):
        return [self.arrays[f"grad/{v.path}"][step] for v in self.variables]

    def take_step(self, gradients, rate):
        clipped, _ = clipping.clip_by_global_norm(gradients)
        for gradient, variable in zip(clipped, self.variables, strict=True):
            self.optimizer.update_step(gradient, variable, rate)

    def check(self, step):
        for variable in self.variables:
            m, v = self.optimizer.slots(variable)
            for part, got in {"weight": variable, "m": m, "v": v}.items():
                key = f"{part}/{variable.path}"
                self._check_close(
                    keras.ops.convert_to_numpy(got),
                    self.arrays[key][step],
                    _TOLERANCE,
                    f"{key} after step {step}",
                )


def test_recorded_rates_make_the_recorded_steps(run):
    for step in range(run.num_steps):
        run.take_step(run.gradients(step), run.arrays["lr"][step])

        run.check(step)


def test_our_own_schedule_makes_the_recorded_steps(run):
    for step in range(run.num_steps):
        rate = schedules.learning_rate(step, run.config)
        run.take_step(run.gradients(step), rate)

        run.check(step)


def test_apply_makes_the_recorded_steps(run):
    for step in range(run.num_steps):
        gradients = map(keras.ops.convert_to_tensor, run.gradients(step))
        run.optimizer.apply(list(gradients), run.variables)

        run.check(step)


@needs_tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("run", ["adamw_clip", "lamb_clip"], indirect=True)
def test_a_graph_makes_the_recorded_steps(run, jit_compile):
    import tensorflow as tf

    @tf.function(jit_compile=jit_compile)
    def take_step(step, gradients):
        run.take_step(gradients, schedules.learning_rate(step, run.config))

    for step in range(run.num_steps):
        gradients = [tf.constant(g) for g in run.gradients(step)]
        take_step(tf.constant(step), gradients)

        run.check(step)


def test_slots_are_named_after_their_weight(make_variable):
    kernel = make_variable("pooler/dense/kernel", np.ones((2, 3), "float32"))
    optimizer = optimizers.AlbertLamb(0.1)
    optimizer.build([kernel])

    m, v = optimizer.slots(kernel)

    assert m.name == "pooler_dense_kernel_adam_m"
    assert v.name == "pooler_dense_kernel_adam_v"
    assert m.shape == v.shape == (2, 3)
    assert m.dtype == v.dtype == "float32"


def test_weights_of_a_short_type_are_refused(make_variable):
    kernel = make_variable("kernel", np.ones(3), dtype="bfloat16")

    with pytest.raises(
        ValueError, match="must be float32.*`mixed_`.*kernel of type bfloat16"
    ):
        optimizers.AlbertAdamW(0.1).build([kernel])


@pytest.mark.parametrize("name", ["kernel", "bias"])
def test_corrected_lamb_is_the_published_algorithm(make_variable, name):
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(3, 4))
    variable = make_variable(name, weight.astype("float32"))
    optimizer = factory.create_optimizer(
        OptimizerConfig(
            corrected_lamb=True,
            learning_rate=0.1,
            num_train_steps=5,
            num_warmup_steps=0,
            poly_power=0.0,
            weight_decay=0.2,
            clip_norm=100.0,
        )
    )
    m = v = np.zeros((3, 4))

    for step in range(1, 6):
        gradient = rng.normal(size=(3, 4))
        optimizer.apply([gradient.astype("float32")], [variable])
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        update = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-6)
        ratio = 1.0
        if name == "kernel":
            update += 0.2 * weight
            ratio = np.linalg.norm(weight) / np.linalg.norm(update)
        weight = weight - 0.1 * ratio * update

        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(variable), weight, rtol=0, atol=1e-6
        )


@pytest.mark.parametrize(
    "optimizer",
    [
        optimizers.AlbertAdamW(0.5, weight_decay=0.2, epsilon=1e-3),
        optimizers.AlbertLamb(0.5, corrected=True, beta_1=0.7, beta_2=0.8),
        factory.create_optimizer(OptimizerConfig()),
    ],
)
def test_an_optimizer_comes_back_from_its_config(optimizer):
    described = keras.optimizers.serialize(optimizer)

    again = keras.optimizers.deserialize(described)

    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()


@needs_tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_rows_without_a_gradient_decay_too(make_variable, jit_compile):
    import tensorflow as tf

    table = np.arange(1, 13, dtype="float32").reshape(4, 3)
    gathered = make_variable("gathered/table", table)
    dense = make_variable("dense/table", table)
    optimizer = optimizers.AlbertLamb(0.1)
    optimizer.build([gathered, dense])

    @tf.function(jit_compile=jit_compile)
    def take_step():
        with tf.GradientTape() as tape:
            rows = tf.gather(gathered.value, [2, 0, 2])
            loss = tf.reduce_sum(rows * rows)
        gradient = tape.gradient(loss, gathered.value)
        assert isinstance(gradient, tf.IndexedSlices)
        optimizer.update_step(gradient, gathered, 0.1)
        # d/dw of (n w^2) is 2 n w, where a row was gathered n times.
        counts = tf.constant([[1.0], [0.0], [2.0], [0.0]])
        optimizer.update_step(2 * counts * dense, dense, 0.1)

    for _ in range(2):
        take_step()

    np.testing.assert_allclose(gathered.numpy(), dense.numpy(), rtol=1e-6)
    assert (gathered.numpy()[1] < table[1]).all()


@needs_tensorflow
def test_slots_survive_a_tensorflow_checkpoint(make_variable, tmp_path):
    import tensorflow as tf

    kernel = make_variable("kernel", np.ones(3, "float32"))
    optimizer = optimizers.AlbertLamb(0.1)
    optimizer.apply([tf.constant([1.0, 2.0, 3.0])], [kernel])
    path = tf.train.Checkpoint(optimizer=optimizer).write(str(tmp_path / "c"))
    again = optimizers.AlbertLamb(0.1)
    again.build([kernel])

    tf.train.Checkpoint(optimizer=again).read(path).assert_consumed()

    assert int(again.iterations) == 1
    for restored, saved in zip(
        again.slots(kernel), optimizer.slots(kernel), strict=True
    ):
        np.testing.assert_array_equal(restored.numpy(), saved.numpy())
        assert restored.numpy().all()


def _environment(**extra):
    """This process's environment, without what pytest put there."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return kept | {"TF_CPP_MIN_LOG_LEVEL": "2"} | extra


# Compares the strategy's update with plain updates of twin variables.
_TWO_REPLICAS = """
import keras
import numpy as np
import tensorflow as tf
from albert_tf.optimization import optimizers

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
rng = np.random.default_rng(0)
shapes = {"kernel": (5, 3), "bias": (3,)}
starts = {n: rng.normal(size=s).astype("float32") for n, s in shapes.items()}


def make(optimizer_class, **options):
    variables = [keras.Variable(v, name=n) for n, v in starts.items()]
    optimizer = optimizer_class(0.1, **options)
    optimizer.build(variables)
    return variables, optimizer


def compare(optimizer_class, **options):
    plain, plain_optimizer = make(optimizer_class, **options)
    with strategy.scope():
        mirrored, mirrored_optimizer = make(optimizer_class, **options)

    @tf.function
    def take_step(gradients, rate):
        for gradient, variable in zip(gradients, mirrored):
            strategy.extended.update(
                variable.value,
                lambda value, g, r: mirrored_optimizer.update_step(g, value, r),
                args=(gradient, rate),
            )
        mirrored_optimizer.iterations.assign_add(1)

    for step in range(4):
        rate = tf.constant(0.1 / (step + 1))
        gradients = [
            tf.constant(rng.normal(size=v.shape).astype("float32"))
            for v in plain
        ]
        take_step(gradients, rate)
        for gradient, variable in zip(gradients, plain):
            plain_optimizer.update_step(gradient, variable, rate)
        plain_optimizer.iterations.assign_add(1)

    for variable, twin in zip(plain, mirrored):
        ours = [variable, *plain_optimizer.slots(variable)]
        theirs = [twin, *mirrored_optimizer.slots(twin)]
        assert np.abs(variable.numpy() - starts[variable.name]).max() > 0.01
        for one, many in zip(ours, theirs):
            copies = strategy.experimental_local_results(many.value)
            assert len({copy.device for copy in copies}) == 2
            for copy in copies:
                np.testing.assert_allclose(
                    copy.numpy(), one.numpy(), rtol=1e-6, atol=1e-7
                )


compare(optimizers.AlbertAdamW)
compare(optimizers.AlbertLamb)
compare(optimizers.AlbertLamb, corrected=True)
"""


@needs_tensorflow
def test_two_replicas_step_as_one():
    result = subprocess.run(
        [sys.executable, "-c", _TWO_REPLICAS],
        capture_output=True,
        text=True,
        env=_environment(CUDA_VISIBLE_DEVICES=""),
        check=False,
    )

    assert result.returncode == 0, result.stderr


@needs_tensorflow
def test_all_of_it_holds_on_the_jax_back_end():
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed; it is in the extra `dev`")
    folder = pathlib.Path(__file__).parent
    parts = ("clipping", "factory", "optimizers", "schedules", "update_rules")
    result = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"),
            *(folder / f"test_{part}.py" for part in parts),
        ],
        capture_output=True,
        text=True,
        env=_environment(KERAS_BACKEND="jax", JAX_PLATFORMS="cpu"),
        check=False,
    )

    assert result.returncode == 0, result.stdout
    # Said only on another back end than TensorFlow.
    assert "a matter of TensorFlow" in result.stdout
