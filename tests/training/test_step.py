"""The training step: recorded numbers, replicas, accumulation, precisions."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.data import packing
from albert_tf.modeling.fused import fusion
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.tasks.race.model import MultipleChoiceTask
from albert_tf.training import step
from tests.training import runs

NUM_STEPS = 6


@pytest.fixture
def run_recorded(shared_data):
    """A function that repeats a recorded run: trainer, steps, recordings."""
    folder = shared_data / "golden"

    def run(name, **settings):
        arrays = np.load(folder / "optimizer" / f"e2e_{name}.npz")
        config = runs.run_config(
            albert_config=AlbertConfig.from_json_file(
                folder / "model_base" / "albert_config.json"
            ),
            optimizer=name,
            learning_rate=float(arrays["init_lr"]),
            num_train_steps=int(arrays["num_train_steps"]),
            num_warmup_steps=int(arrays["num_warmup_steps"]),
            poly_power=float(arrays["poly_power"]),
            **settings,
        )
        made = runs.Trainer(config, task=PretrainingTask(config.albert_config))
        load.load_checkpoint(made.task.model, folder / "model_base")
        batches = {
            key.removeprefix("batch/"): arrays[key]
            for key in arrays.files
            if key.startswith("batch/")
        }
        return made, made.run(batches)[0], arrays

    return run


def assert_close(actual, expected, tolerance, floor=0.0):
    scale = np.abs(expected).max()
    error = np.abs(np.asarray(actual) - expected).max()
    assert error <= max(tolerance * scale, floor)


def assert_same_updates(made, got, expected, tolerance=1e-5):
    """Compares a trainer and its results with those of another one."""
    results, weights = expected
    for one, other in zip(got, results, strict=True):
        assert one == pytest.approx(other, rel=max(tolerance, 1e-4))
    for name, array in weights.items():
        # Golden README, 8.4: the gradient of a key's bias is rounding noise.
        floor = 1e-4 if name.endswith("key/bias") else 0.0
        assert_close(made.weights()[name], array, tolerance, floor)


@pytest.mark.parametrize(
    ("name", "options", "smallest_kernel"),
    [
        ("lamb", {}, fusion.SMALLEST_SIZE),
        ("adamw", {}, fusion.SMALLEST_SIZE),
        # All operations of the recorded model are smaller.
        ("lamb", {}, 0),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("lamb", {"jit_compile": True}, fusion.SMALLEST_SIZE),
                ("adamw", {}, 0),
            )
        ),
    ],
    ids=["lamb", "adamw", "lamb_fused", "lamb_xla", "adamw_fused"],
)
def test_six_steps_equal_the_recorded_ones(
    run_recorded, name, options, smallest_kernel, monkeypatch
):
    monkeypatch.setattr(fusion, "SMALLEST_SIZE", smallest_kernel)
    made, steps, arrays = run_recorded(name, **options)

    assert len(steps) == NUM_STEPS
    values = [one | made.task.training_scores(one) for one in steps]
    for key, recorded, tolerance in (
        ("loss", "total_loss", 1e-4),
        ("masked_lm_loss", "mlm_loss", 1e-4),
        ("sentence_order_loss", "sop_loss", 1e-4),
        ("gradient_norm", "grad_global_norm", 1e-4),
        ("learning_rate", "lr", 1e-6),
    ):
        assert_close(
            [one[key] for one in values], arrays[f"step/{recorded}"], tolerance
        )
    variables = variable_names.variables_by_tf1_name(
        made.task.model.trainable_variables
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
                made.optimizer.slots(variable),
                ("adam_m", "adam_v"),
                strict=True,
            ):
                expected = arrays[f"final/{tf1_name}/{suffix}"]
                assert_close(slot, expected, 1e-4)


CLIP_NORM = 0.5
# Bias correction counts the updates, of which there are as many.
_OPTIONS = {"clip_norm": CLIP_NORM, "bias_correction": True}


@pytest.fixture(scope="module")
def whole_runs():
    """What one device computes from whole batches; filled by `run_whole`."""
    return {}


@pytest.fixture
def run_whole(whole_runs):
    """A function that runs 6 steps once for each optimizer."""

    def run(optimizer):
        if optimizer not in whole_runs:
            config = runs.run_config(**_OPTIONS, optimizer=optimizer)
            whole = runs.Trainer(config)
            results, _ = whole.run(runs.batches(6))
            whole_runs[optimizer] = results, whole.weights()
        return whole_runs[optimizer]

    return run


SPLITS = {
    "replicas": {"replicas": 2},
    "accumulated": {"gradient_accumulation_steps": 4},
    "replicas_accumulated": {"replicas": 2, "gradient_accumulation_steps": 2},
    "replicas_compiled": {"replicas": 2, "jit_compile": True},
    "three_calls": {"per_call": 2},
}


@pytest.mark.parametrize(
    ("split", "optimizer"),
    [
        ("replicas_accumulated", "lamb"),
        ("three_calls", "lamb"),
        ("replicas_accumulated", "muon"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("accumulated", "adamw"),
                ("replicas", "lamb"),
                ("replicas", "adamw"),
                ("replicas_compiled", "lamb"),
                ("accumulated", "lamb"),
            )
        ),
    ],
)
def test_a_global_batch_gives_the_same_update_however_it_is_split(
    split, optimizer, run_whole, two_replicas
):
    # The half of the rows that one replica gets has a quarter of the targets.
    options = dict(SPLITS[split])
    strategy = two_replicas if options.pop("replicas", 1) == 2 else None
    per_call = options.pop("per_call", None)
    expected = run_whole(optimizer)
    config = runs.run_config(**_OPTIONS, optimizer=optimizer, **options)
    divided = runs.Trainer(config, strategy=strategy)

    got, _ = divided.run(runs.batches(6), per_call=per_call)

    assert min(row["gradient_norm"] for row in got) > CLIP_NORM
    # Muon makes small singular values as large as the others.
    tolerance = 1e-4 if optimizer == "muon" else 1e-5
    assert_same_updates(divided, got, expected, tolerance)
    if strategy:
        for variable in divided.task.model.trainable_variables:
            first, second = variable.value.values
            np.testing.assert_array_equal(first.numpy(), second.numpy())


def _losses(model, batches, **options):
    """The losses of updates that are one call each."""
    made = runs.Trainer(runs.run_config(albert_config=model, **options))
    results, _ = made.run(batches, per_call=1)
    return [made.task.training_scores(row)["loss"] for row in results]


@pytest.mark.parametrize("options", [{}, SPLITS["accumulated"]])
def test_with_a_random_depth_the_log_is_that_of_all_layers(options):
    model = runs.config(num_hidden_layers=4)
    given = {"albert_config": model, "learning_rate": 1e-9}
    plain, random = (
        runs.Trainer(runs.run_config(random_depth=is_random, **given, **own))
        for is_random, own in ((False, {}), (True, options))
    )

    whole, _ = plain.run(runs.batches(3))
    rows, _ = random.run(runs.batches(3))

    for row, expected in zip(rows, whole, strict=True):
        norms = row.pop("gradient_norm"), expected.pop("gradient_norm")
        assert row == pytest.approx(expected, rel=1e-5)
        assert norms[0] != pytest.approx(norms[1], rel=1e-3)


def test_gradients_of_a_large_vocabulary_are_added_up_over_micro_batches():
    # The step seems to take over 200 MB, so TensorFlow makes sums of three
    # addends in variables, if it sees any: those of the word embeddings, which
    # are both looked up and multiplied with.
    model = runs.config(vocab_size=150_000, num_hidden_layers=1)
    batches = runs.batches(2, size=64)

    whole, accumulated = (
        _losses(model, batches, gradient_accumulation_steps=num_micro_batches)
        for num_micro_batches in (1, 2)
    )

    assert accumulated == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize(
    "num_replicas", [1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_sequences_that_share_rows_give_the_same_update(
    num_replicas, run_whole, two_replicas
):
    parts = 2 // num_replicas
    config = runs.run_config(**_OPTIONS, gradient_accumulation_steps=2 * parts)
    strategy = two_replicas if num_replicas == 2 else None
    packed = runs.Trainer(config, strategy=strategy)
    batches = runs.batches(6)
    # Two sequences for each replica and micro-batch.
    masks = batches["input_mask"].reshape((-1, runs.S)).astype("int32")
    places = packing.packed_at(masks, len(masks) // 2).numpy()
    batches["packed_at"] = places.reshape((6, 8))

    got, _ = packed.run(batches)

    assert (places.reshape((-1, 2)) < runs.S).all(axis=1).any()
    assert_same_updates(packed, got, run_whole("lamb"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                {"groups": 2},
                SPLITS["replicas_accumulated"],
                {"precision": "float16"},
                {"smallest_kernel": 0},
                SPLITS["replicas_compiled"],
            )
        ),
    ],
    ids=["", "groups", "split", "float16", "kernels", "compiled"],
)
def test_recomputing_changes_no_update(options, two_replicas, monkeypatch):
    options = dict(options)
    strategy = two_replicas if options.pop("replicas", 1) == 2 else None
    size = options.pop("smallest_kernel", fusion.SMALLEST_SIZE)
    monkeypatch.setattr(fusion, "SMALLEST_SIZE", size)
    groups = options.pop("groups", 1)
    model = runs.config(
        dropout=0.3, num_hidden_layers=2 * groups, num_hidden_groups=groups
    )
    results = []
    for recompute in (False, True):
        config = runs.run_config(
            albert_config=model,
            recompute=recompute,
            # With 1e-6, rounding noise decides the update of a weight whose
            # gradient is nearly 0.
            epsilon=1e-3,
            **options,
        )
        made = runs.Trainer(config, strategy=strategy)
        results.append((made.run(runs.batches(4))[0], made.weights()))

    tolerance = 1e-2 if options.get("precision") else 1e-5
    (plain, weights), (recomputed, others) = results
    for one, other in zip(plain, recomputed, strict=True):
        assert one == pytest.approx(other, rel=tolerance)
    for name, expected in weights.items():
        # Golden README, 8.4: the gradient of a key's bias is rounding noise.
        if not name.endswith("key/bias"):
            assert_close(others[name], expected, tolerance)


@pytest.mark.parametrize(
    "task_class",
    [
        ClassificationTask,
        pytest.param(MultipleChoiceTask, marks=pytest.mark.slow),
    ],
)
def test_recomputing_changes_no_update_of_a_fine_tuning(task_class):
    names = ("input_ids", "input_mask", "segment_ids")
    batches = {name: runs.batches(2)[name] for name in names}
    options = {"num_labels": 3}
    if task_class is MultipleChoiceTask:
        # Two questions of four choices.
        batches = {k: v.reshape(2, 2, 4, -1) for k, v in batches.items()}
        options = {}
    shape = batches["input_ids"].shape[:2]
    labels = np.arange(np.prod(shape), dtype=np.int32) % 3
    batches["label_ids"] = labels.reshape(shape)
    results = []
    for recompute in (False, True):
        config = runs.run_config(recompute=recompute)
        task = task_class(config.albert_config, **options)
        results.append(runs.Trainer(config, task=task).run(batches)[0])

    for one, other in zip(*results, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


_PEAK_MEMORY = """
import re, sys
from tests.training import runs

model = runs.config(
    num_hidden_layers=12, hidden_size=256, num_attention_heads=4,
    intermediate_size=1024, max_position_embeddings=512,
)
batch = runs.batches(1, size=12)
batch = {
    name: values.repeat(512 // runs.S, -1)
    if values.shape[-1] == runs.S else values
    for name, values in batch.items()
}
config = runs.run_config(albert_config=model, recompute=sys.argv[1] == "True")
runs.Trainer(config).run(batch)
with open("/proc/self/status") as status:
    print(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1])
"""


@pytest.mark.slow
def test_recomputing_saves_memory():
    peaks = [
        float(
            subprocess.run(
                [sys.executable, "-c", _PEAK_MEMORY, str(recompute)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for recompute in (False, True)
    ]

    # KiB; TensorFlow alone takes about 750,000.
    assert peaks[1] < peaks[0] - 1_000_000


@pytest.mark.parametrize(
    ("options", "optimizer"),
    [
        ({}, "lamb"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ({}, "adamw"),
                ({}, "muon"),
                ({"precision": "float16"}, "lamb"),
                (SPLITS["accumulated"], "lamb"),
                (SPLITS["replicas_accumulated"], "adamw"),
                (SPLITS["replicas_compiled"], "lamb"),
            )
        ),
    ],
)
def test_a_weight_that_the_loss_does_not_reach_stays_as_it_is(
    options, optimizer, two_replicas
):
    # Only the head for sentence order takes the pooler's output.
    options = dict(options)
    strategy = tf.distribute.get_strategy()
    if options.pop("replicas", 1) == 2:
        strategy = two_replicas
    config = runs.run_config(optimizer=optimizer, **options)
    with strategy.scope():
        task = PretrainingTask(
            config.albert_config,
            objectives=["mlm"],
            seed=3,
            dtype=config.dtype_policy,
        )
    made = runs.Trainer(config, strategy=strategy, task=task)
    before = made.weights()

    made.run(runs.batches(3))

    after = made.weights()
    same = {n for n in after if np.array_equal(after[n], before[n])}
    assert same == {"albert/pooler/kernel", "albert/pooler/bias"}
    for variable in task.model.trainable_variables:
        if variable.path in same:
            for slot in made.optimizer.slots(variable):
                assert not np.any(slot)


@pytest.mark.parametrize(
    ("precision", "num_replicas", "tolerance"),
    [
        ("float16", 1, 0.01),
        pytest.param("float16", 2, 0.01, marks=pytest.mark.slow),
        ("bfloat16", 1, 0.05),
    ],
)
def test_lower_precisions_stay_near_float32(
    precision, num_replicas, tolerance, run_whole, two_replicas
):
    expected, _ = run_whole("lamb")
    lower = runs.Trainer(
        runs.run_config(**_OPTIONS, precision=precision),
        strategy=two_replicas if num_replicas == 2 else None,
    )

    got, scale = lower.run(runs.batches(6))

    for name in ("masked_lm_loss", "sentence_order_loss", "gradient_norm"):
        assert_close(
            [r[name] for r in got], [r[name] for r in expected], tolerance
        )
    for variable in lower.task.model.trainable_variables:
        assert variable.dtype == "float32"
    is_scaled = precision == "float16"
    initial = step.INITIAL_LOSS_SCALE
    assert {row["loss_scale"] for row in got} == {initial if is_scaled else 1.0}
    assert scale == [initial, 6.0 * is_scaled]


@pytest.mark.parametrize(
    "num_replicas", [1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_an_overflow_of_float16_skips_the_update_and_halves_the_scale(
    num_replicas, two_replicas
):
    half = runs.Trainer(
        runs.run_config(precision="float16"),
        strategy=two_replicas if num_replicas == 2 else None,
    )
    before = half.weights()
    too_large = 2.0**30

    got, scale = half.run(runs.batches(1), loss_scale=[too_large, 7.0])

    assert not np.isfinite(got[0]["gradient_norm"])
    assert got[0]["loss_scale"] == too_large
    assert scale == [too_large / 2, 0.0]
    for name, weight in half.weights().items():
        np.testing.assert_array_equal(weight, before[name])
    for variable in half.task.model.trainable_variables:
        for slot in half.optimizer.slots(variable):
            assert not np.any(slot)


@pytest.fixture
def losses_with_dropout():
    """A function that returns one from batches to masked-LM losses."""

    def make(strategy=None, **options):
        # A rate of almost 0, so that losses differ by their masks alone.
        config = runs.run_config(
            albert_config=runs.config(dropout=0.3),
            learning_rate=1e-20,
            **options,
        )
        made = runs.Trainer(config, strategy=strategy)
        return lambda batches: [
            row["masked_lm_loss"] for row in made.run(batches)[0]
        ]

    return make


def repeated(batches, times):
    """The first row of the first batch, as all rows of all batches."""
    return {
        name: np.broadcast_to(values[:1, :1], (times, *values.shape[1:])).copy()
        for name, values in batches.items()
    }


def test_dropout_is_decided_by_seed_and_step(losses_with_dropout):
    batches = repeated(runs.batches(1), 4)

    run = losses_with_dropout(random_seed=5)
    run_with_other_seed = losses_with_dropout(random_seed=6)

    losses = run(batches)
    assert len(set(losses)) == 4
    assert run(batches) == losses
    assert set(run_with_other_seed(batches)).isdisjoint(losses)


@pytest.mark.parametrize(
    "num_replicas", [1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_replicas_and_micro_batches_have_dropout_masks_of_their_own(
    num_replicas, losses_with_dropout, two_replicas
):
    # If both halves of a batch of equal rows had the same masks, the loss of
    # the whole would be twice that of a half with the masks of either.
    batches = repeated(runs.batches(1), 1)
    half = {name: v[:, : v.shape[1] // 2] for name, v in batches.items()}
    divided = losses_with_dropout(gradient_accumulation_steps=2)
    if num_replicas == 2:
        divided = losses_with_dropout(strategy=two_replicas)

    (alone,) = losses_with_dropout()(half)
    (parts,) = divided(batches)

    assert parts != pytest.approx(2 * alone, rel=1e-3)


def test_levels_below_the_head_learn_slower_and_frozen_embeddings_do_not():
    batches = runs.batches(1)
    options = {"optimizer": "adamw", "clip_norm": 1e9}
    plain = runs.Trainer(runs.run_config(**options))
    start = plain.weights()
    plain.run(batches)

    scaled = runs.Trainer(
        runs.run_config(**options), decay=0.5, freeze_embeddings=True
    )
    scaled.run(batches)

    first, other = plain.weights(), scaled.weights()
    frozen_path = "albert/embeddings/word_embeddings"
    np.testing.assert_array_equal(other[frozen_path], start[frozen_path])
    assert (first[frozen_path] != start[frozen_path]).any()
    for path, multiplier in {
        "albert/pooler/kernel": 1,
        "albert/encoder/feed_forward_0_0/output/kernel": 0.5,
    }.items():
        np.testing.assert_allclose(
            other[path] - start[path],
            (first[path] - start[path]) * multiplier,
            atol=1e-6,
        )


def test_micro_batches_of_unknown_length_keep_their_rows_and_shape():
    value = np.arange(24).reshape(4, 3, 2)
    spec = tf.TensorSpec([4, None, 2], tf.int64)
    split = tf.function(lambda x: step._split(x, 2), input_signature=[spec])

    np.testing.assert_array_equal(split(value), value.reshape(2, 2, 3, 2))
    assert split.get_concrete_function().output_shapes == (2, 2, None, 2)


LAST = step.GROWTH_STEPS - 1


@pytest.mark.parametrize(
    ("scale", "num_steps", "is_finite", "expected"),
    [
        (1024.0, 7, False, [512.0, 0.0]),
        (1.0, 0, False, [1.0, 0.0]),
        (1024.0, LAST - 1, True, [1024.0, LAST]),
        (1024.0, LAST, True, [2048.0, 0.0]),
        (2.0**23, LAST, True, [2.0**24, 0.0]),
        (2.0**24, LAST, True, [2.0**24, 0.0]),
    ],
)
def test_the_loss_scale_halves_at_an_overflow_and_doubles_after_a_while(
    scale, num_steps, is_finite, expected
):
    state = step.updated_loss_scale(
        tf.constant([scale, float(num_steps)]), tf.constant(is_finite)
    )

    assert state.numpy().tolist() == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
        pytest.param(
            {"gradient_accumulation_steps": 2}, marks=pytest.mark.slow
        ),
    ],
)
def test_a_step_of_some_layers_is_that_of_a_model_of_so_many(options):
    made = {
        num_layers: runs.Trainer(
            runs.run_config(
                albert_config=runs.config(0.1, num_hidden_layers=num_layers),
                **options,
            )
        )
        for num_layers in (2, 1)
    }
    batches = runs.batches(3)

    cut, _ = made[2].run(batches, depth=1)
    small, _ = made[1].run(batches)

    assert cut == small
    for name, weight in made[1].weights().items():
        np.testing.assert_array_equal(made[2].weights()[name], weight)
    # The next phase is a trace of its own, and each depth is traced once.
    for depth in (2, 1, 2):
        made[2].run(batches, depth=depth)
    assert made[2].step.run.experimental_get_tracing_count() == 2
