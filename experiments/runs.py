"""Trains and evaluates the models of experiments; a killed run goes on.

Every step is a command that a user could type, and is kept with its result. A
model that several experiments train alike is trained once.
"""

import dataclasses
import math
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from albert_tf import files
from albert_tf.data import sidecar
from albert_tf.modeling import summary
from experiments.experiment import LARGER_CLASS, Variant
from experiments.scales import Phase, Scale

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Share of the tokens that is masked, by the paper and by its code.
MASKED_SHARE = 0.15
RESULT = "result.json"
METRICS, SCORES = "metrics.jsonl", "eval_results.json"
# Pairs that records are made of; masked words alone need none.
NO_PAIRS, PAIRS = "none", ("sop", "nsp")
PARTS = ("train", "held_out")
TOKENIZER = "vocabulary.model"
# Checkpoints and evaluations of a phase, and the fewest steps between them.
_NUM_SAVED, _LEAST_INTERVAL = 8, 50
_running: set["subprocess.Popen[bytes]"] = set()
# Ends the name of a converted model.
_START = "-start"


class Place(NamedTuple):
    """Where the models of a scale and a seed are.

    `data` has the records, `models` a folder for each model. A command gets
    `num_threads`.
    """

    scale: Scale
    data: pathlib.Path
    models: pathlib.Path
    seed: int
    num_threads: int


def command(program: str, **flags: object) -> list[str]:
    """Returns the command of a script of this repository, or of a module."""
    words = [sys.executable, "-m", program]
    if program.endswith(".py"):
        words[1:] = [str(ROOT / program)]
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no{name}")
        else:
            words.append(f"--{name}={value}")
    return words


def shown(commands: Iterable[Sequence[str]]) -> str:
    """Returns commands as lines that can be typed in the root folder."""
    return "\n".join(
        shlex.join(["python", *one[1:]]).replace(f"{ROOT}/", "")
        for one in commands
    )


def call(
    one: Sequence[str], log: pathlib.Path, num_threads: int | None = None
) -> None:
    """Runs a command, whose output goes to the end of a log.

    It uses all cores, or as many threads as are given.

    Raises:
        ValueError: It failed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if num_threads:
        environment["TF_NUM_INTRAOP_THREADS"] = str(num_threads)
    with (
        log.open("ab") as output,
        subprocess.Popen(
            one, stdout=output, stderr=output, env=environment
        ) as process,
    ):
        _running.add(process)
        code = process.wait()
        _running.remove(process)
    if code:
        lines = log.read_text(errors="replace").strip().splitlines() or ["?"]
        raise ValueError(f"{lines[-1].removeprefix('error: ')} See {log}.")


def stop(signal_number: int, frame: object) -> NoReturn:
    """Ends this program and the commands it runs; handles SIGTERM.

    Raises:
        KeyboardInterrupt: Always, as Ctrl-C does, which the terminal sends to
            the commands itself.
    """
    for process in tuple(_running):
        process.terminate()
    raise KeyboardInterrupt


def data_commands(
    scale: Scale, text_files: Mapping[str, str], data: pathlib.Path
) -> dict[pathlib.Path, list[str]]:
    """Returns the commands that make vocabulary and records, by what they make.

    `text_files` has the globs of the training and of the held-out text.
    """
    model = data / TOKENIZER
    found = {
        model: command(
            "build_vocab.py",
            input_file=text_files["train"],
            output_prefix=model.with_suffix(""),
            vocab_size=scale.config.vocab_size,
        )
    }
    kinds = [(pairs, scale.second) for pairs in PAIRS]
    if scale.first:
        kinds.append((NO_PAIRS, scale.first))
    for part, text in text_files.items():
        for pairs, phase in kinds:
            path = data / f"{part}.{pairs}"
            found[path] = command(
                "create_pretraining_data.py",
                input_file=text,
                output_file=path,
                spm_model_file=model,
                masking="dynamic",
                ngram=scale.ngram,
                pair_objective=pairs,
                max_seq_length=phase.max_seq_length,
                max_predictions_per_seq=_num_masked(phase),
            )
    return found


def _num_masked(phase: Phase) -> int:
    return max(1, round(MASKED_SHARE * phase.max_seq_length))


def _shape_name(variant: Variant, scale: Scale) -> str:
    """Returns what the shape of a model has of its own."""
    changes = {
        field.name: getattr(variant.config, field.name)
        for field in dataclasses.fields(scale.config)
    }
    return "-".join(
        f"{name}_{value}"
        for name, value in changes.items()
        if value != getattr(scale.config, name)
    )


def model_name(variant: Variant, scale: Scale) -> str:
    """Returns the name of a model's folder: what it has of its own."""
    parts = [
        _shape_name(variant, scale),
        *(f"{name}_{value}" for name, value in variant.flags.items()),
        variant.pair_objective if variant.pair_objective != "sop" else "",
        "timed" if variant.has_time_budget else "",
    ]
    if variant.starts_from:
        parts.append(f"from-{model_name(variant.starts_from, scale)}")
    return "-".join(filter(None, parts)) or "base"


def _first_name(variant: Variant, scale: Scale) -> str:
    timed = "timed" if variant.has_time_budget else ""
    parts = ["first", _shape_name(variant, scale), timed]
    return "-".join(filter(None, parts))


def training_commands(
    variant: Variant, place: Place
) -> dict[pathlib.Path, list[str]]:
    """Returns the commands that train a model, by the folder they make.

    The last one makes the model. Those before are a first phase, which models
    of the same shape share, or the conversion of the model it starts from.
    """
    scale, models = place.scale, place.models
    own = models / model_name(variant, scale)
    found = {}
    start: dict[str, object] = {}
    if variant.starts_from:
        converted = own.with_name(own.name + _START)
        found[converted] = command(
            "convert_checkpoint.py",
            input_path=models / model_name(variant.starts_from, scale),
            output_path=converted,
            output_format="keras",
            num_hidden_layers=variant.config.num_hidden_layers,
        )
        start = {"init_checkpoint": converted}
    elif scale.first:
        first = models / _first_name(variant, scale)
        found[first] = _pretraining(
            variant, place, scale.first, NO_PAIRS, first, objectives="mlm"
        )
        start = {"init_checkpoint": first, "allow_new_heads": True}
    found[own] = _pretraining(
        variant,
        place,
        scale.second,
        variant.pair_objective,
        own,
        **start,
        **variant.flags,
    )
    return found


def _pretraining(
    variant: Variant,
    place: Place,
    phase: Phase,
    pairs: str,
    output_dir: pathlib.Path,
    **own_flags: object,
) -> list[str]:
    train, held_out = (place.data / f"{part}.{pairs}" for part in PARTS)
    flags: dict[str, object] = {
        "albert_config_file": config_file(variant, place),
        "input_file": train,
        "eval_file": held_out,
        "output_dir": output_dir,
        "do_eval": True,
        "optimizer": place.scale.optimizer,
        "max_predictions_per_seq": _num_masked(phase),
        **dataclasses.asdict(phase),
        "save_checkpoints_steps": max(
            _LEAST_INTERVAL, math.ceil(phase.num_train_steps / _NUM_SAVED)
        ),
        "keep_checkpoint_max": 1,
        "random_seed": place.seed,
    }
    if variant.has_time_budget:
        flags["time_budget"] = place.scale.time_budget
    return command("run_pretraining.py", **flags | own_flags)


def write_config(variant: Variant, place: Place) -> None:
    """Writes the file that the commands of a model name."""
    path = config_file(variant, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    variant.config.to_json_file(path)


def config_file(variant: Variant, place: Place) -> pathlib.Path:
    """Returns the file of the shape of a model."""
    shape = _shape_name(variant, place.scale) or "base"
    return place.models / f"{shape}.json"


def evaluation_command(
    variant: Variant, place: Place, pairs: str
) -> tuple[pathlib.Path, list[str]]:
    """Returns the folder of an evaluation, and the command that makes it.

    Masks are those that the held-out records were built for, whatever the
    model was trained with.
    """
    own = place.models / model_name(variant, place.scale)
    folder = own.with_name(f"{own.name}-on-{pairs}")
    phase = place.scale.second
    return folder, command(
        "run_pretraining.py",
        albert_config_file=config_file(variant, place),
        init_checkpoint=own,
        eval_file=place.data / f"held_out.{pairs}",
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=_num_masked(phase),
        objectives=variant.flags.get("objectives", "mlm,sop"),
        output_dir=folder,
        do_train=False,
        do_eval=True,
    )


def train(variant: Variant, place: Place) -> dict[str, Any]:
    """Trains a model, and those it starts from, unless that is done.

    Returns:
        `parameters`, `commands`, `seconds` of training in both phases, and
        `curve`: steps or seconds of the second phase with the held-out loss.
    """
    own = place.models / model_name(variant, place.scale)
    path = own / RESULT
    if path.exists():
        return files.read_json_object(path)
    if variant.starts_from:
        train(variant.starts_from, place)
    write_config(variant, place)
    commands = training_commands(variant, place)
    for folder, one in commands.items():
        if not _is_made(folder):
            call(one, own.with_name(f"{own.name}.log"), place.num_threads)
    phases = [one for one in commands if (one / METRICS).exists()]
    result = {
        "config": dataclasses.asdict(variant.config),
        "parameters": num_parameters(variant),
        "commands": shown(commands.values()),
        "commit": commit(),
        "seconds": sum(map(seconds_of, phases)),
        "curve": [
            [
                line["seconds" if variant.has_time_budget else "step"],
                line["eval_masked_lm_loss"],
            ]
            for line in files.read_json_lines(own / METRICS)
            if "eval_masked_lm_loss" in line
        ],
    }
    files.write_json(path, result)
    return result


def _is_made(folder: pathlib.Path) -> bool:
    """Returns whether a conversion or a training is finished."""
    if folder.name.endswith(_START):
        return folder.exists()
    return (folder / SCORES).exists()


def evaluate(variant: Variant, place: Place, pairs: str) -> dict[str, float]:
    """Returns the scores of a trained model on held-out pairs.

    Of next sentences, there are more of one kind: where a chunk of text has one
    sentence, the second segment is drawn from another document. So the share
    of the larger class is given, too.
    """
    folder, one = evaluation_command(variant, place, pairs)
    path = folder / SCORES
    if pairs == variant.pair_objective and not variant.flags:
        # What selected its best weights is this evaluation.
        path = place.models / model_name(variant, place.scale) / SCORES
    if not path.exists():
        call(one, folder.with_name(f"{folder.name}.log"), place.num_threads)
    share = 0.5  # Orders are drawn when the records are read.
    if pairs == "nsp":
        counts = sidecar.read(str(place.data / f"held_out.{pairs}")).counts
        share = counts.label_1_records / counts.records
    scores = files.read_json_object(path)
    return {**scores, LARGER_CLASS: max(share, 1 - share)}


def seconds_of(folder: pathlib.Path) -> float:
    """Returns the time of the updates that a run has logged."""
    batch_size = files.read_json_object(folder / "run.json")["train_batch_size"]
    last, seconds = 0, 0.0
    for line in files.read_json_lines(folder / METRICS):
        if "sequences_per_second" in line:
            num_sequences = (line["step"] - last) * batch_size
            seconds += num_sequences / line["sequences_per_second"]
            last = line["step"]
    return seconds


def num_parameters(variant: Variant) -> int:
    """Returns the number of values in the encoder, as the paper counts."""
    return sum(
        part.parameters for part in summary.encoder_parts(variant.config)
    )


def commit() -> str:
    """Returns the commit of the code, if it is known."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
