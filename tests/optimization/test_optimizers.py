import dataclasses
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from albert_tf.optimization import muon, optimizers, schedules
from albert_tf.optimization.optimizer_config import OptimizerConfig

_PARITY = pathlib.Path(__file__).parents[1] / "parity"
# The expressions of google-research/albert, optimization.py.
_REFERENCE = re.compile("LayerNorm|layer_norm|bias")
_STEMS = [
    *("adamw", "lamb", "adamw_clip", "lamb_clip"),
    *("adamw_high_rate", "lamb_high_rate"),
]
_TOLERANCE = 2e-6

needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="needs TensorFlow's backend"
)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_norm_that_is_not_finite_spoils_every_gradient(bad):
    gradients = [np.float32([1.0, bad]), np.float32([2.0])]

    clipped, norm = optimizers.clip_by_global_norm(gradients)

    assert not np.isfinite(norm)
    assert np.isnan(np.concatenate(clipped)).all()


@needs_tensorflow
def test_slices_of_one_row_are_added_up_before_the_norm():
    import tensorflow as tf

    # Rows 1 and 1 of a table of 4: the true gradient of row 1 is (3, 4).
    slices = tf.IndexedSlices(
        tf.constant([[1.0, 4.0], [2.0, 0.0]]),
        tf.constant([1, 1]),
        tf.constant([4, 2]),
    )

    clipped, norm = optimizers.clip_by_global_norm([slices], 1.0)

    np.testing.assert_allclose(norm, 5.0, rtol=1e-6)
    np.testing.assert_allclose(
        clipped[0], [[0, 0], [0.6, 0.8], [0, 0], [0, 0]], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("weight", "direction"),
    [([0, 0], [3, 4]), ([3, 4], [0, 0]), ([0, 0], [0, 0])],
)
def test_trust_ratio_is_one_where_a_norm_is_zero(weight, direction):
    ratio = optimizers.trust_ratio(np.float32(weight), np.float32(direction))
    assert float(ratio) == 1.0


@pytest.mark.parametrize("model", ["model_base", "model_groups"])
def test_the_reference_excludes_the_same_weights(model):
    import tensorflow as tf

    stored = tf.train.load_checkpoint(str(_PARITY / model / "model.ckpt-best"))
    state = ("/adam_m", "/adam_v", "global_step")
    names = {
        name
        for name in stored.get_variable_to_shape_map()
        if not name.endswith(state)
    }

    excluded = {name for name in names if optimizers.is_excluded(name)}

    assert excluded == {name for name in names if _REFERENCE.search(name)}
    assert set() < excluded < names


@pytest.fixture(params=_STEMS)
def run(request, recorded, make_variable, check_close):
    return _RecordedRun(request.param, recorded, make_variable, check_close)


class _RecordedRun:
    """An optimizer at the start of a recorded run, and the check of a step."""

    def __init__(self, stem, recorded, make_variable, check_close):
        self.arrays = recorded(stem)
        self.config = OptimizerConfig(
            optimizer=stem.split("_")[0],
            learning_rate=float(self.arrays["init_lr"]),
            num_train_steps=int(self.arrays["num_train_steps"]),
            num_warmup_steps=int(self.arrays["num_warmup_steps"]),
            start_warmup_step=int(self.arrays["start_warmup_step"]),
            poly_power=float(self.arrays["poly_power"]),
        )
        self.num_steps = len(self.arrays["lr"])
        names = [key[5:] for key in self.arrays if key.startswith("init/")]
        self.variables = [
            make_variable(name, self.arrays[f"init/{name}"]) for name in names
        ]
        self.optimizer = optimizers.create_optimizer(self.config)
        self.optimizer.build(self.variables)
        self._check_close = check_close

    def gradients(self, step):
        return [self.arrays[f"grad/{v.path}"][step] for v in self.variables]

    def take_step(self, gradients, rate):
        clipped, _ = optimizers.clip_by_global_norm(gradients)
        for gradient, variable in zip(clipped, self.variables, strict=True):
            self.optimizer.update_step(gradient, variable, rate)

    def check(self, step):
        for variable in self.variables:
            m, v = self.optimizer.slots(variable)
            for name, got in {"weight": variable, "m": m, "v": v}.items():
                key = f"{name}/{variable.path}"
                self._check_close(
                    keras.ops.convert_to_numpy(got),
                    self.arrays[key][step],
                    _TOLERANCE,
                    f"{key} after step {step}",
                )


def test_apply_makes_the_recorded_steps(run):
    for step in range(run.num_steps):
        gradients = map(keras.ops.convert_to_tensor, run.gradients(step))
        run.optimizer.apply(list(gradients), run.variables)

        run.check(step)


@pytest.mark.parametrize(
    ("run", "is_compiled"),
    [
        *((stem, False) for stem in _STEMS),
        pytest.param("adamw_clip", True, marks=needs_tensorflow),
        pytest.param("lamb_clip", True, marks=needs_tensorflow),
    ],
    indirect=["run"],
)
def test_single_updates_make_the_recorded_steps(run, is_compiled):
    functions = []
    if is_compiled:
        from tests import fusing

        def compile_whole(function):
            functions.append(function)
            return fusing.compile_whole(function)

        run.optimizer.operations = fusing.FusesAll(compile_whole)
    for step in range(run.num_steps):
        rate = schedules.learning_rate(step, run.config)
        np.testing.assert_allclose(rate, run.arrays["lr"][step], rtol=1e-6)
        run.take_step(run.gradients(step), rate)

        run.check(step)
    # One for all weights that are decayed, and one for the others.
    assert len(functions) == 2 * is_compiled


@pytest.mark.parametrize(
    "takes_step",
    [
        "apply",
        "update_step",
        pytest.param("compiled", marks=needs_tensorflow),
    ],
)
def test_bias_correction_makes_the_steps_of_torch(make_variable, takes_step):
    random = np.random.default_rng(0)
    weights = random.normal(size=(4, 3)).astype("float32")
    kernel = make_variable("pooler/kernel", weights)
    optimizer = optimizers.AlbertAdamW(
        0.1, weight_decay=0.02, epsilon=1e-3, bias_correction=True
    )
    optimizer.build([kernel])
    if takes_step == "compiled":
        from tests import fusing

        optimizer.operations = fusing.FusesAll(fusing.compile_whole)
    m, v = np.zeros((2, 4, 3))
    weights = weights.astype("float64")
    for step in range(1, 9):
        gradient = random.normal(size=(4, 3)).astype("float32")
        if takes_step == "apply":
            optimizer.apply([keras.ops.convert_to_tensor(gradient)], [kernel])
        else:
            optimizer.update_step(gradient, kernel, 0.1)
            optimizer.iterations.assign_add(1)

        # `torch.optim.AdamW`: epsilon is added after the correction. Keras'
        # AdamW adds it before, which is a larger epsilon in first steps.
        weights *= 1 - 0.1 * 0.02
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient.astype("float64") ** 2
        corrected = m / (1 - 0.9**step), v / (1 - 0.999**step)
        weights -= 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-3)
        np.testing.assert_allclose(kernel, weights, atol=1e-6)


@pytest.mark.parametrize("name", ["adamw", "lamb", "muon"])
def test_bias_correction_ends_after_thousands_of_updates(make_variable, name):
    path = "encoder/attention_0_0/query/kernel" if name == "muon" else "kernel"
    results = []
    for bias_correction in (False, True):
        others = [
            make_variable(path, np.eye(3, dtype="f")),
            make_variable("w", np.ones(3, "f")),
        ]
        optimizer = optimizers.create_optimizer(
            OptimizerConfig(optimizer=name, bias_correction=bias_correction)
        )
        optimizer.build(others)
        optimizer.iterations.assign(100_000)
        for each in others:
            optimizer.update_step(np.ones(each.shape, "f"), each, 0.1)
        results += [keras.ops.convert_to_numpy(each) for each in others]

    for got, wanted in zip(results[2:], results[:2], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_weights_of_a_short_type_are_refused(make_variable):
    kernel = make_variable("kernel", np.ones(3), dtype="bfloat16")

    with pytest.raises(
        ValueError, match="must be float32.*`mixed_` .*kernel of type bfloat16"
    ):
        optimizers.AlbertAdamW(0.1).build([kernel])


@pytest.mark.parametrize(
    "optimizer",
    [
        optimizers.AlbertAdamW(0.5, weight_decay=0.2, epsilon=1e-3),
        optimizers.AlbertAdamW(0.5, bias_correction=True),
        optimizers.AlbertLamb(0.5, beta_1=0.7, beta_2=0.8),
        muon.AlbertMuon(0.5, weight_decay=0.2),
        optimizers.create_optimizer(OptimizerConfig()),
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


@pytest.mark.slow
@needs_tensorflow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_all_of_it_holds_on_other_back_ends(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed; jax is in the extra `dev`")
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PYTEST_")
    }
    result = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"),
            pathlib.Path(__file__).parent,
        ],
        capture_output=True,
        text=True,
        env=environment | {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"},
        check=False,
    )

    assert result.returncode == 0, result.stdout
    # Said only on another back end than TensorFlow.
    assert "needs TensorFlow's backend" in result.stdout


def test_every_setting_reaches_the_optimizer():
    values = {"weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.95}
    values |= {"epsilon": 1e-4, "clip_norm": 0.5, "num_train_steps": 7}
    values |= {"bias_correction": True}
    # Has more fields, like the config of a run.
    run_config = dataclasses.make_dataclass(
        "RunConfig",
        [("output_dir", str)],
        bases=(OptimizerConfig,),
        frozen=True,
        kw_only=True,
    )

    optimizer = optimizers.create_optimizer(
        run_config(output_dir="x", **values)
    )

    described = optimizer.get_config()
    schedule = described["learning_rate"]["config"]
    assert schedule == dataclasses.asdict(OptimizerConfig(**values))
    described["clip_norm"] = described["global_clipnorm"]
    del values["num_train_steps"]
    assert {name: described[name] for name in values} == values


def test_a_saved_keras_model_continues_as_if_it_had_not_stopped(tmp_path):
    rng = np.random.default_rng(0)
    inputs, targets = (rng.normal(size=(16, n)).astype("f") for n in (5, 3))
    config = OptimizerConfig(learning_rate=0.1, num_warmup_steps=0)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    model.compile(optimizer=optimizers.create_optimizer(config), loss="mse")
    # Another order of the rows would round differently.
    fit = {"epochs": 3, "batch_size": 16, "shuffle": False, "verbose": 0}
    model.fit(inputs, targets, **fit)
    model.save(tmp_path / "model.keras")

    again = keras.models.load_model(tmp_path / "model.keras")

    for each in (model, again):
        each.fit(inputs, targets, **fit)
    for got, wanted in zip(
        again.get_weights(), model.get_weights(), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
