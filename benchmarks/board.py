r"""How soon a recipe reaches a loss: one core, one hour, always the same text.

    python benchmarks/board.py "the recipe of budget.flags" -- \
        --flagfile=recipes/budget.flags --num_train_steps=12000

What follows `--` goes to run_pretraining.py, or with --program=transformers or
kerashub to board_peers.py, with as many updates as fit into the hour. The text
is that of the demo: docstrings of the installed packages. It and its
vocabulary, records and runs are in build/board; the same command again goes on
with a run. A row is added to docs/board.md, which says what the columns
are. Leave the other cores of the machine alone meanwhile (a short disturbance
does not count). ALBERT_TF_PEER_PYTHON names the Python
that has transformers.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import alternation  # noqa: E402
import time_to_loss  # noqa: E402

BOARD = ROOT / "docs/board.md"
FOLDER = ROOT / "build/board"
GOALS = (5.5, 5.0)
MINUTES, POLL_SECONDS = 60, 5
VOCAB_SIZE = 8000
# The model of docs/results.md, "Time to a loss".
MODEL = {
    "vocab_size": VOCAB_SIZE,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
NUM_HELD_OUT = 2560
# For other programs: an hour of batches.
NUM_ROWS = 640_000
# Of each length there are records, with masks that are made when they are read.
LENGTHS = {32: 5, 64: 10}


def make_data(folder: pathlib.Path) -> str:
    """Writes what is missing of text and records; returns a digest of both."""
    from albert_tf import files
    from demo import corpus

    folder.mkdir(parents=True, exist_ok=True)
    texts = [folder / "train.txt", folder / "held_out.txt"]
    if not all(path.exists() for path in texts):
        for path, documents in zip(
            texts, corpus.train_and_held_out(), strict=True
        ):
            # A single sentence has no order.
            longer = [one for one in documents if len(one) > 1]
            files.write_text(path, corpus.to_text(longer))
    if not (folder / "vocabulary.model").exists():
        call(
            "build_vocab.py",
            f"--input_file={texts[0]}",
            f"--output_prefix={folder / 'vocabulary'}",
            f"--vocab_size={VOCAB_SIZE}",
        )
    for path in texts:
        for length, num_masked in LENGTHS.items():
            records = folder / f"{path.stem}.{length}"
            if not records.exists():
                call(
                    "create_pretraining_data.py",
                    f"--input_file={path}",
                    f"--output_file={records}",
                    f"--spm_model_file={folder / 'vocabulary.model'}",
                    "--masking=dynamic",
                    f"--max_seq_length={length}",
                    f"--max_predictions_per_seq={num_masked}",
                )
    content = b"".join(path.read_bytes() for path in texts)
    return hashlib.sha256(content).hexdigest()[:12]


def write_arrays(folder: pathlib.Path) -> None:
    """Writes our batches for programs that do not read our records."""
    import numpy as np

    from albert_tf.data import example_order, input_pipeline, record_source

    length = max(LENGTHS)
    shard = example_order.InputShard()
    for part, num_rows in (("train", NUM_ROWS), ("held_out", NUM_HELD_OUT)):
        path = folder / f"{part}.npz"
        if path.exists():
            continue
        source = record_source.open_records(str(folder / f"{part}.{length}"))
        if part == "train":
            dataset = input_pipeline.training_dataset(
                source, shard, global_batch_size=64, seed=0
            )
        else:
            dataset = input_pipeline.evaluation_dataset(
                source, shard, batch_size=64
            )
        rows = [*dataset.take(num_rows // 64).as_numpy_iterator()]
        np.savez(
            path,
            **{
                name: np.concatenate([one[name] for one in rows]).astype(
                    "float16" if name.endswith("weights") else "int16"
                )
                for name in rows[0]
            },
        )


def call(script: str, *arguments: str) -> None:
    """Runs a script."""
    subprocess.run([sys.executable, str(ROOT / script), *arguments], check=True)


def spent(run: pathlib.Path) -> float:
    """Returns the seconds of the updates in a log."""
    if not (run / time_to_loss.LOG).exists():
        return 0.0
    lines = time_to_loss.timed_lines(run)
    return max((line["seconds"] for line in lines), default=0.0)


def call_for_an_hour(run: pathlib.Path, command: Sequence[str]) -> None:
    """Runs a training until it ends, or its updates have taken the hour."""
    process = subprocess.Popen(command)
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        if spent(run) >= MINUTES * 60:
            process.terminate()
            process.wait()
            return
    if process.returncode:
        sys.exit(process.returncode)


def training_command(
    program: str, folder: pathlib.Path, run: pathlib.Path, flags: Sequence[str]
) -> list[str]:
    """Returns the command of a training with the flags of its row."""
    if program != "albert_tf":
        python = sys.executable
        if program == "transformers":
            python = os.environ.get("ALBERT_TF_PEER_PYTHON", python)
        script = str(ROOT / "benchmarks/board_peers.py")
        return [python, script, program, str(folder), str(run), *flags]
    longest = max(LENGTHS)
    has_schedule = any("length_schedule" in flag for flag in flags)
    lengths = LENGTHS if has_schedule else [longest]
    records = [str(folder / f"train.{length}") for length in lengths]
    return [
        sys.executable,
        str(ROOT / "run_pretraining.py"),
        f"--albert_config_file={folder / 'albert_config.json'}",
        f"--input_file={','.join(records)}",
        f"--eval_file={folder / f'held_out.{longest}'}",
        f"--max_seq_length={longest}",
        f"--max_predictions_per_seq={LENGTHS[longest]}",
        "--do_eval",
        "--eval_batch_size=64",
        f"--max_eval_steps={NUM_HELD_OUT // 64}",
        "--save_checkpoints_steps=250",
        "--log_steps=50",
        "--keep_checkpoint_max=1",
        f"--output_dir={run}",
        *flags,
    ]


def commit_name() -> str:
    """Returns that of the newest commit; changes but those of rows count."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.check_output(
        [*git, "rev-parse", "--short", "HEAD"], text=True
    ).strip()
    is_same = subprocess.run(
        [*git, "diff", "--quiet", "HEAD", "--", ".", f":!{BOARD}"], check=False
    )
    return f"{name}-dirty" if is_same.returncode else name


def row(name: str, run: pathlib.Path, digest: str, command: str) -> str:
    """Returns a row of the board: what the log of a run says of its hour."""
    lines = [
        line
        for line in time_to_loss.timed_lines(run)
        if line["seconds"] <= MINUTES * 60 and time_to_loss.LOSS in line
    ]
    cells = [name]
    for goal in GOALS:
        seconds = time_to_loss.seconds_to(lines, goal)
        steps = time_to_loss.seconds_to(
            [line | {"seconds": line["step"]} for line in lines], goal
        )
        cells.append(
            "never"
            if None in (seconds, steps)
            else f"{seconds / 60:.1f} ({steps:.0f})"
        )
    last = lines[-1]
    cells.append(f"{last['seconds'] / 60:.0f} ({last['step']})")
    cells.append(f"{last[time_to_loss.LOSS]:.2f}")
    for score in time_to_loss.SCORES[1:]:
        cells.append(f"{last[score]:.1%}" if score in last else "")
    cells += [digest, alternation.machine(), f"`{command}`"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Makes the data, trains, and adds the row."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", help="of the row")
    parser.add_argument(
        "--program",
        choices=("albert_tf", "transformers", "kerashub"),
        default="albert_tf",
    )
    parser.add_argument("flags", nargs="*", help="those of the training")
    options = parser.parse_args()
    digest = make_data(FOLDER)
    # This program and those that it calls have one core.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    (FOLDER / "albert_config.json").write_text(json.dumps(MODEL))
    command = shlex.join([f"--program={options.program}", *options.flags])
    commit = commit_name()
    key = hashlib.sha256(f"{commit} {command}".encode()).hexdigest()[:8]
    run = FOLDER / f"run-{key}"
    if options.program != "albert_tf":
        write_arrays(FOLDER)
    if spent(run) < MINUTES * 60:
        call_for_an_hour(
            run,
            training_command(options.program, FOLDER, run, options.flags),
        )
    new = row(f"{options.name}, {commit}", run, digest, command)
    with BOARD.open("a", encoding="utf-8") as file:
        file.write(new + "\n")
    print(f"{new}\nadded to {BOARD}")


if __name__ == "__main__":
    main()
