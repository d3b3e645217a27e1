"""A fine-tuning run that is stopped and killed ends as an unbroken one."""

import json

from tests.cli.processes import STEP, hook

# A signal that can be heard leaves a checkpoint more.
STOPPED_AT = 6
FLAGS = (
    "--train_batch_size=8",
    "--num_train_steps=12",
    "--num_warmup_steps=2",
    "--learning_rate=0.01",
    "--log_steps=3",
    "--save_checkpoints_steps=4",
    # Of one length, which takes less time to trace.
    "--max_seq_length=16",
)


def left_in(folder, logged):
    """What a run has left, except for what depends on the clock."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if f"step-{STOPPED_AT:08d}" in name:
            continue
        if path.suffix == ".jsonl":
            yield name, logged(path)
        elif path.name == "state.json":
            state = json.loads(path.read_text())
            state.get("window", {}).pop("seconds", None)
            yield name, state
        elif path.is_file() and not path.name.startswith("events.out"):
            # The folder's own name.
            yield name, path.read_bytes().replace(folder.name.encode(), b"run")


def test_a_killed_run_ends_as_an_unbroken_one(
    run_script, workshop, table_flags, logged, tmp_path
):
    def run(name, *extra, before=""):
        config = f"--albert_config_file={workshop / 'config.json'}"
        given = (*table_flags, *FLAGS, config, f"--output_dir={name}", *extra)
        return run_script(
            "run_classifier.py", *given, folder=tmp_path, before=before
        )

    unbroken = run("unbroken")
    assert unbroken.returncode == 0, unbroken.stderr

    for number, signal, code in (
        (STOPPED_AT, "SIGTERM", 3),
        (3, "SIGKILL", -9),
    ):
        before = hook(STEP, number, signal)
        done = run("killed", "--export_dir=served", before=before)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert ("a checkpoint is saved" in done.stderr) == (code == 3)
        assert not (tmp_path / "served").exists()
    last = run("killed")

    assert (last.returncode, last.stdout) == (0, unbroken.stdout), last.stderr
    killed, whole = (
        dict(left_in(tmp_path / name, logged))
        for name in ("killed", "unbroken")
    )
    assert killed.keys() == whole.keys()
    for name, content in whole.items():
        assert killed[name] == content, name
    assert {"eval_results.json", "predictions.tsv", "report.html"} <= {*whole}
