"""Several workers that train together, against one that does it alone."""

import json

import numpy as np
import pytest

from tests.cli import workers
from tests.training import runs

NUM_STEPS = 20


@pytest.fixture
def config_flag(workshop):
    """A config without dropout, which replicas draw for themselves."""
    return f"--albert_config_file={workshop / 'plain.json'}"


# Then the loss of `finetuning_flags` falls steeply, which magnifies the last
# bits of a gradient: one process parts from itself by 7e-5 with other
# micro-batches, in the norm of step 70.
BEFORE_FALL = 50


@pytest.fixture
def finetuning_flags(table_flags, config_flag):
    """Flags of a run with large batches and a low rate.

    At ten times the rate and a third of the batch, one process parts from
    itself by a twentieth where its micro-batches are other ones, so another
    order of sums.
    """
    return (
        *table_flags,
        config_flag,
        "--max_seq_length=32",
        "--dropout_prob=0",
        "--train_batch_size=24",
        "--gradient_accumulation_steps=2",
        "--num_train_steps=80",
        "--num_warmup_steps=20",
        "--learning_rate=0.001",
        "--save_checkpoints_steps=20",
        "--log_steps=10",
        "--num_seeds=2",
    )


@pytest.fixture
def compare_one_and_two(run_alone, run_workers, tmp_path):
    """Runs alone, and in two workers, of which the second is stopped.

    Returns the folders and the results.
    """

    def run(script, flags, *, step):
        one, two = tmp_path / "one", tmp_path / "two"
        run_alone(script, *flags, "--output_dir=one", folder=tmp_path)
        flags = (*flags, "--output_dir=two")
        hooks = {1: (workers.STEP, step, "SIGTERM")}
        ends = run_workers(script, flags, tmp_path, hooks=hooks)
        assert [end.code for end in ends] == [3, 3], ends
        # A signal to the second stops both.
        assert all("a checkpoint is saved" in end.said for end in ends)
        assert not (two / "eval_results.json").exists()
        ends = run_workers(script, flags, tmp_path)
        assert [end.code for end in ends] == [0, 0], ends
        assert all("accuracy = " in end.stdout for end in ends)
        results = [
            json.loads((folder / "eval_results.json").read_text())
            for folder in (one, two)
        ]
        return one, two, results

    return run


@pytest.mark.slow
def test_two_workers_pretrain_and_evaluate_like_one(
    pretraining_flags, config_flag, compare_one_and_two, logged
):
    flags = (*pretraining_flags, config_flag)

    one, two, results = compare_one_and_two("run_pretraining.py", flags, step=4)

    assert (two / "checkpoints" / "step-00000004").exists()
    events = [path for path in two.iterdir() if path.name.startswith("events")]
    assert len(events) == 2  # the chief's, of both runs
    assert results[1] == pytest.approx(results[0], rel=1e-4)
    logs = [logged(folder / "metrics.jsonl") for folder in (one, two)]
    for ours, theirs in zip(*logs, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    arrays = runs.arrays_of(two, 10)
    for name, wanted in runs.arrays_of(one, 10).items():
        if "/key/bias" not in name:  # rounding noise, amplified
            scale = np.abs(wanted).max()
            assert np.abs(arrays[name] - wanted).max() <= 1e-5 * scale, name


@pytest.fixture
def losses_flags(pretraining_flags, config_flag):
    """Flags of a run of 20 steps that logs each."""
    return (
        *pretraining_flags,
        config_flag,
        f"--num_train_steps={NUM_STEPS}",
        "--log_steps=1",
    )


@pytest.fixture
def losses_alone(losses_flags, run_alone, logged, tmp_path):
    """The log of such a run in one process."""
    flags = (*losses_flags, "--output_dir=one")
    run_alone("run_pretraining.py", *flags, folder=tmp_path)
    return logged(tmp_path / "one" / "metrics.jsonl")


def assert_equal_logs(ours, theirs, *, rel):
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    assert max(line["step"] for line in ours) == NUM_STEPS
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            if name.endswith("loss"):
                assert one[name] == pytest.approx(other[name], rel=rel), one


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_workers(
    losses_flags, losses_alone, run_workers, logged, tmp_path
):
    flags = (*losses_flags, "--output_dir=many")
    hooks = {3: (workers.STEP, 7, "SIGTERM")}

    ends = run_workers(
        "run_pretraining.py", flags, tmp_path, number=4, hooks=hooks
    )
    assert [one.code for one in ends] == [3] * 4, ends
    ends = run_workers("run_pretraining.py", flags, tmp_path, number=2)
    assert [one.code for one in ends] == [0] * 2, ends

    log = logged(tmp_path / "many" / "metrics.jsonl")
    assert_equal_logs(log, losses_alone, rel=1e-5)


@pytest.mark.slow
def test_two_workers_fine_tune_and_evaluate_like_one(
    finetuning_flags, compare_one_and_two, logged
):
    one, two, results = compare_one_and_two(
        "run_classifier.py", finetuning_flags, step=33
    )

    seeds = [result.pop("seeds") for result in results]
    # Why one has failed names its folder.
    failed = [result.pop("failed_seeds").keys() for result in results]
    assert failed[0] == failed[1]
    assert results[1] == pytest.approx(results[0], rel=1e-4)
    assert results[0]["accuracy"] > 0.9
    assert seeds[0].keys() == seeds[1].keys()
    for seed in seeds[0]:
        assert seeds[1][seed] == pytest.approx(seeds[0][seed], rel=1e-4)
        logs = [
            logged(folder / f"seed-{seed}" / "metrics.jsonl")
            for folder in (one, two)
        ]
        for ours, theirs in zip(*logs, strict=True):
            if ours["step"] > BEFORE_FALL:
                ours.pop("gradient_norm", None)
                theirs.pop("gradient_norm", None)
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    for name in ("predictions.tsv", "eval/predictions.tsv"):
        assert (one / name).read_text() == (two / name).read_text()
    probabilities = [
        np.loadtxt(folder / "test_results.tsv") for folder in (one, two)
    ]
    np.testing.assert_allclose(*probabilities, rtol=1e-4)
