"""Trains and evaluates the models of an experiment; a killed one goes on.

Every step is a command that a user could type, and is kept with its result.
"""

import dataclasses
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from albert_tf import files
from albert_tf.modeling import summary
from experiments.experiment import Experiment, Variant
from experiments.scales import Scale

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Share of the tokens that is masked, by the paper and by its code.
MASKED_SHARE = 0.15
RESULT = "result.json"


def command(script: str, **flags: object) -> list[str]:
    """Returns the command of a script of this repository."""
    values = {
        name: f"no{name}" if value is False else name
        for name, value in flags.items()
        if isinstance(value, bool)
    }
    return [
        sys.executable,
        str(ROOT / script),
        *(
            f"--{values[name]}" if name in values else f"--{name}={value}"
            for name, value in flags.items()
        ),
    ]


def shown(commands: Iterable[Sequence[str]]) -> str:
    """Returns commands as lines that can be typed in the root folder."""
    return "\n".join(
        shlex.join(["python", *one[1:]]).replace(f"{ROOT}/", "")
        for one in commands
    )


def call(one: Sequence[str], log: pathlib.Path) -> None:
    """Runs a command, whose output goes to the end of a log.

    Raises:
        ValueError: It failed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        done = subprocess.run(one, stdout=output, stderr=output, check=False)
    if done.returncode:
        lines = log.read_text(errors="replace").strip().splitlines() or ["?"]
        raise ValueError(f"{lines[-1].removeprefix('error: ')} See {log}.")


def data_commands(
    scale: Scale, text_files: dict[str, str], folder: pathlib.Path
) -> dict[pathlib.Path, list[str]]:
    """Returns the commands that make vocabulary and records, by what they make.

    `text_files` has the globs of the training and of the held-out text.
    """
    vocabulary = folder / "vocabulary"
    found = {
        vocabulary.with_suffix(".model"): command(
            "build_vocab.py",
            input_file=text_files["train"],
            output_prefix=vocabulary,
            vocab_size=scale.vocab_size,
        )
    }
    lengths = {scale.max_seq_length}
    if scale.short_steps:
        lengths.add(scale.short_length)
    for part, text in text_files.items():
        for objective in ("sop", "nsp"):
            for length in sorted(lengths):
                path = folder / f"{part}.{objective}.{length}"
                found[path] = command(
                    "create_pretraining_data.py",
                    input_file=text,
                    output_file=path,
                    spm_model_file=vocabulary.with_suffix(".model"),
                    masking="dynamic",
                    pair_objective=objective,
                    max_seq_length=length,
                    max_predictions_per_seq=_num_masked(length),
                )
    return found


def _num_masked(length: int) -> int:
    return max(1, round(MASKED_SHARE * length))


def commands_of(
    variant: Variant,
    scale: Scale,
    data: pathlib.Path,
    folder: pathlib.Path,
    *,
    seed: int,
) -> list[list[str]]:
    """Returns the commands that train a variant in `folder / name`."""
    own = folder / variant.name
    config = folder / f"{variant.name}.json"
    found, start = [], {}
    if variant.starts_from:
        converted = folder / f"{variant.name}_start"
        found.append(
            command(
                "convert_checkpoint.py",
                input_path=folder / variant.starts_from,
                output_path=converted,
                output_format="keras",
                num_hidden_layers=variant.config.num_hidden_layers,
            )
        )
        start["init_checkpoint"] = converted
    train = f"{data}/train.{variant.pair_objective}"
    schedule = {"input_file": f"{train}.{scale.max_seq_length}"}
    if scale.short_steps and "time_budget" not in variant.flags:
        short, long = scale.short_length, scale.max_seq_length
        schedule = {
            "input_file": f"{train}.{short},{train}.{long}",
            "length_schedule": f"{short}@0,{long}@{scale.short_steps}",
        }
    flags = {
        "albert_config_file": config,
        "output_dir": own,
        **schedule,
        "eval_file": f"{data}/held_out.{variant.pair_objective}."
        f"{scale.max_seq_length}",
        "do_eval": True,
        "max_seq_length": scale.max_seq_length,
        "optimizer": scale.optimizer,
        "learning_rate": scale.learning_rate,
        "train_batch_size": scale.train_batch_size,
        "num_train_steps": scale.num_train_steps,
        "num_warmup_steps": scale.num_warmup_steps,
        "save_checkpoints_steps": max(1, scale.num_train_steps // 8),
        "keep_checkpoint_max": 2,
        "random_seed": seed,
        **start,
        **variant.flags,
    }
    return [*found, command("run_pretraining.py", **flags)]


def evaluation_commands(
    variant: Variant,
    scale: Scale,
    data: pathlib.Path,
    folder: pathlib.Path,
    *,
    objectives: Sequence[str],
) -> dict[str, list[str]]:
    """Returns the commands that evaluate a trained variant, by pairs.

    Their masks are those that the records were built for, whatever the variant
    was trained with.
    """
    return {
        objective: command(
            "run_pretraining.py",
            albert_config_file=folder / f"{variant.name}.json",
            init_checkpoint=folder / variant.name,
            eval_file=f"{data}/held_out.{objective}.{scale.max_seq_length}",
            max_seq_length=scale.max_seq_length,
            output_dir=folder / f"{variant.name}_on_{objective}",
            do_train=False,
            do_eval=True,
        )
        for objective in objectives
    }


def run_variant(
    variant: Variant,
    experiment: Experiment,
    scale: Scale,
    data: pathlib.Path,
    folder: pathlib.Path,
    *,
    seed: int,
) -> dict[str, Any]:
    """Trains and evaluates a variant unless it is done; returns the result.

    Returns:
        `parameters`, `seconds` (of the last start), `command`, `scores` by
        kind of pairs, and `curve`: steps with their held-out loss.
    """
    path = folder / variant.name / RESULT
    if path.exists():
        return files.read_json_object(path)
    folder.mkdir(parents=True, exist_ok=True)
    variant.config.to_json_file(folder / f"{variant.name}.json")
    log = folder / f"{variant.name}.log"
    start = time.monotonic()
    training = commands_of(variant, scale, data, folder, seed=seed)
    for one in training:
        target = next(
            (
                x.partition("=")[2]
                for x in one
                if x.startswith("--output_path=")
            ),
            None,
        )
        # What was converted before a kill is whole.
        if target is None or not pathlib.Path(target).exists():
            call(one, log)
    seconds = time.monotonic() - start
    objectives = ("sop", "nsp") if experiment.crosses_objectives else ("sop",)
    scores = {}
    evaluations = evaluation_commands(
        variant, scale, data, folder, objectives=objectives
    )
    for objective, one in evaluations.items():
        call(one, log)
        output = folder / f"{variant.name}_on_{objective}"
        scores[objective] = files.read_json_object(output / "eval_results.json")
    lines = files.read_json_lines(folder / variant.name / "metrics.jsonl")
    result = {
        "name": variant.name,
        "seed": seed,
        "config": dataclasses.asdict(variant.config),
        "parameters": num_parameters(variant),
        "command": shown(training),
        "seconds": seconds,
        "scores": scores,
        "curve": [
            [line["step"], line["eval_masked_lm_loss"]]
            for line in lines
            if "eval_masked_lm_loss" in line
        ],
    }
    files.write_json(path, result)
    return result


def num_parameters(variant: Variant) -> int:
    """Returns the number of values in the encoder, as the paper counts."""
    return sum(
        part.parameters for part in summary.encoder_parts(variant.config)
    )
