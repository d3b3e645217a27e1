"""Several workers that train together, against one that does it alone."""

import json

import numpy as np
import pytest

from tests.cli import processes
from tests.cli.conftest import ANIMALS
from tests.training import runs


@pytest.fixture
def config_flag(workshop):
    """A config without dropout, which replicas draw for themselves."""
    return f"--albert_config_file={workshop / 'plain.json'}"


# Scores that magnify rounding, and how much: two rows near a tie change their
# places, and the loss is flat where the temperature is fitted.
MAGNIFIED = {
    "eval_roc_auc": {"abs": 0.005},
    "eval_average_precision_of_low": {"abs": 0.005},
    "eval_temperature": {"rel": 1e-3},
    "eval_calibration_error": {"rel": 2e-3},
}
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
    """Runs alone, and in workers, of which the second is stopped.

    Two of them go on, however many there were. Returns the folders and the
    results.
    """

    def run(script, flags, *, step, number=2):
        one, two = tmp_path / "one", tmp_path / "two"
        run_alone(script, *flags, "--output_dir=one", folder=tmp_path)
        flags = (*flags, "--output_dir=two")
        hooks = {1: (processes.STEP, step, "SIGTERM")}
        ends = run_workers(script, flags, tmp_path, number=number, hooks=hooks)
        assert [end.code for end in ends] == [3] * number, ends
        # A signal to the second stops all.
        assert all("a checkpoint is saved" in end.said for end in ends)
        assert not (two / "eval_results.json").exists()
        ends = run_workers(script, flags, tmp_path)
        assert [end.code for end in ends] == [0, 0], ends
        assert all("accuracy = " in end.stdout for end in ends)
        results = [
            json.loads((folder / "eval_results.json").read_text())
            for folder in (one, two)
        ]
        evaluated = [result.pop("evaluated") for result in results]
        assert evaluated[0] == evaluated[1]
        return one, two, results

    return run


@pytest.mark.slow
def test_workers_pretrain_and_evaluate_like_one(
    pretraining_flags, config_flag, compare_one_and_two, logged
):
    flags = (*pretraining_flags, config_flag)

    one, two, results = compare_one_and_two(
        "run_pretraining.py", flags, step=4, number=4
    )

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
            for name in MAGNIFIED.keys() & theirs.keys():
                wanted = pytest.approx(theirs.pop(name), **MAGNIFIED[name])
                assert ours.pop(name) == wanted, name
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    for name in ("predictions.tsv", "eval/predictions.tsv"):
        assert (one / name).read_text() == (two / name).read_text()
    probabilities = [
        np.loadtxt(folder / "test_results.tsv") for folder in (one, two)
    ]
    np.testing.assert_allclose(*probabilities, rtol=1e-4)


def _pairs(folder, *label):
    rows = [
        f"One {a} sat.\tA {a} and a {b} sat.\t{i % 3}"
        for i, a in enumerate(ANIMALS)
        for b in ANIMALS
    ]
    table = folder / "pairs.tsv"
    table.write_text("\n".join(["first\tsecond\tlabel", *rows]) + "\n")
    return (
        "run_similarity.py",
        f"--train_file={table}",
        "--text_columns=first,second",
        *label,
    )


def _tags(folder):
    texts = [
        f"One O\n{a} B-one\nand O\n{b} B-two\n"
        for a in ANIMALS
        for b in ANIMALS
    ]
    file = folder / "tags.conll"
    file.write_text("\n".join(texts))
    return "run_ner.py", f"--train_file={file}", "--dropout_prob=0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "make_files"),
    [
        (4, _pairs),
        (2, lambda folder: _pairs(folder, "--label_column=label")),
        (4, _tags),
    ],
    ids=["pairs", "labelled pairs", "tags"],
)
def test_workers_train_like_one(
    number,
    make_files,
    config_flag,
    tiny_spm_model,
    run_alone,
    run_workers,
    tmp_path,
):
    """Workers that train vectors compare their pairs with all others."""
    script, *files = make_files(tmp_path)
    flags = (
        config_flag,
        *files,
        f"--spm_model_file={tiny_spm_model}",
        "--do_train",
        "--max_seq_length=32",
        "--train_batch_size=8",
        "--num_train_steps=6",
        "--num_warmup_steps=2",
        "--learning_rate=0.001",
    )
    run_alone(script, *flags, "--output_dir=one", folder=tmp_path)

    flags = (*flags, "--output_dir=several")
    ends = run_workers(script, flags, tmp_path, number=number)

    assert [end.code for end in ends] == [0] * number, ends
    arrays = runs.arrays_of(tmp_path / "several", 6)
    for name, wanted in runs.arrays_of(tmp_path / "one", 6).items():
        if "/key/bias" not in name:  # rounding noise, amplified
            scale = np.abs(wanted).max()
            assert np.abs(arrays[name] - wanted).max() <= 1e-3 * scale, name
