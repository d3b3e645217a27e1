"""Which commands train and evaluate the models of experiments.

A model that several experiments train alike is trained once. Models start from
the newest weights of others, and are evaluated by their own newest weights: the
best ones of each would have had different numbers of updates.
"""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.config import AlbertConfig
from albert_tf.data import shards
from benchmarks import model_sizes, time_to_loss
from experiments import commands
from experiments.commands import Command
from experiments.experiment import LARGER_CLASS, Variant
from experiments.scales import Phase, Scale

# Share of the tokens that is masked, by the paper and by its code.
MASKED_SHARE = 0.15
METRICS, SCORES = "metrics.jsonl", "eval_results.json"
# Pairs that records are made of; masked words alone need none.
NO_PAIRS, PAIRS = "none", ("sop", "nsp")
PARTS = ("train", "held_out")
TOKENIZER = "vocabulary.model"
# Checkpoints and evaluations of a phase, and the fewest steps between them.
_NUM_SAVED, _LEAST_INTERVAL = 8, 50


class Place(NamedTuple):
    """Where the models of a scale and a seed are.

    `data` has the records, `models` a folder for each model.
    """

    scale: Scale
    data: pathlib.Path
    models: pathlib.Path
    seed: int


def data_commands(
    scale: Scale,
    text_files: Mapping[str, str],
    data: pathlib.Path,
    variants: Sequence[Variant] = (),
) -> list[Command]:
    """Returns the commands that make vocabulary and records.

    `text_files` has the globs of the training and of the held-out text. The
    records are those of the scale, and those of the phases of `variants`.
    """
    model = data / TOKENIZER
    found = [
        commands.create(
            "build_vocab.py",
            model,
            refused=[model, model.with_suffix(".vocab")],
            input_file=text_files["train"],
            output_prefix=model.with_suffix(""),
            vocab_size=scale.config.vocab_size,
        )
    ]
    kinds = [(NO_PAIRS, scale.first)]
    kinds += [(pairs, scale.second) for pairs in PAIRS]
    kinds += [(one.pair_objective, one.phase) for one in variants if one.phase]
    for part, text in text_files.items():
        for pairs, phase in kinds:
            path = records(data, part, pairs, phase)
            found.append(
                commands.create(
                    "create_pretraining_data.py",
                    path,
                    input_file=text,
                    output_file=path,
                    spm_model_file=model,
                    masking="dynamic",
                    ngram=scale.ngram,
                    pair_objective=pairs,
                    max_seq_length=phase.max_seq_length,
                    max_predictions_per_seq=_num_masked(phase),
                )
            )
    return found


def records(
    data: pathlib.Path, part: str, pairs: str, phase: Phase
) -> pathlib.Path:
    """Returns the records of the training or the held-out text."""
    return data / f"{part}.{pairs}.{phase.max_seq_length}"


def held_out_records(
    variant: Variant, place: Place, pairs: str
) -> pathlib.Path:
    """Returns the records that a model is evaluated on."""
    phase = _second(variant, place.scale)
    return records(place.data, "held_out", pairs, phase)


def _num_steps(variant: Variant, phase: Phase) -> int:
    return round(variant.share_of_steps * phase.num_train_steps)


def _second(variant: Variant, scale: Scale) -> Phase:
    return variant.phase or scale.second


def _num_masked(phase: Phase) -> int:
    return max(1, round(MASKED_SHARE * phase.max_seq_length))


def _shape_name(variant: Variant, scale: Scale) -> str:
    """Returns what the shape of a model has of its own."""
    changes = _changes(scale.config, variant.config)
    return "-".join(f"{name}_{value}" for name, value in changes.items())


def _changes(before: AlbertConfig, after: AlbertConfig) -> dict[str, Any]:
    """Returns the fields of a config that are not those of another one."""
    old = dataclasses.asdict(before)
    new = dataclasses.asdict(after)
    return {name: new[name] for name in new if new[name] != old[name]}


def model_name(variant: Variant, scale: Scale) -> str:
    """Returns the name of a model's folder: what it has of its own."""
    parts = [
        _shape_name(variant, scale),
        *(f"{name}_{value}" for name, value in variant.flags.items()),
        variant.pair_objective if variant.pair_objective != "sop" else "",
        f"steps_{variant.share_of_steps:g}" * (variant.share_of_steps != 1),
    ]
    if variant.starts_from:
        parts.append(f"from-{model_name(variant.starts_from, scale)}")
    return "-".join(filter(None, parts)) or "base"


def _first_name(variant: Variant, scale: Scale) -> str:
    share = f"steps_{variant.share_of_steps:g}" * (variant.share_of_steps != 1)
    parts = ["first", _shape_name(variant, scale), share]
    return "-".join(filter(None, parts))


def newest_weights(variant: Variant, place: Place) -> pathlib.Path:
    """Returns the last checkpoint of a model."""
    own = place.models / model_name(variant, place.scale)
    steps = variant.flags.get(
        "num_train_steps", _num_steps(variant, _second(variant, place.scale))
    )
    return pathlib.Path(run_checkpoints.checkpoint_path(str(own), int(steps)))


def training_commands(variant: Variant, place: Place) -> list[Command]:
    """Returns the commands that train a model.

    The last one makes the model. Those before are a first phase, which models
    of the same shape share, or the conversion of the model it starts from.
    """
    scale, models = place.scale, place.models
    own = models / model_name(variant, scale)
    found = []
    start: dict[str, object] = {}
    if variant.starts_from:
        converted = own.with_name(f"{own.name}-start")
        found.append(
            commands.create(
                "convert_checkpoint.py",
                converted,
                refused=[converted],
                input_path=newest_weights(variant.starts_from, place),
                output_path=converted,
                output_format="keras",
                **_changes(variant.starts_from.config, variant.config),
            )
        )
        start = {"init_checkpoint": converted}
    else:
        first = models / _first_name(variant, scale)
        # Without evaluations, a run stands for its newest weights.
        found.append(
            _pretraining(
                variant,
                place,
                scale.first,
                NO_PAIRS,
                first,
                objectives="mlm",
                do_eval=False,
            )
        )
        start = {"init_checkpoint": first, "allow_new_heads": True}
    found.append(
        _pretraining(
            variant,
            place,
            _second(variant, scale),
            variant.pair_objective,
            own,
            # Evaluations have the masks of the training.
            do_eval=not variant.has_own_masks,
            **start,
            **variant.flags,
        )
    )
    return found


def _pretraining(
    variant: Variant,
    place: Place,
    phase: Phase,
    pairs: str,
    output_dir: pathlib.Path,
    **own_flags: object,
) -> Command:
    train, held_out = (
        records(place.data, part, pairs, phase) for part in PARTS
    )
    num_train_steps = _num_steps(variant, phase)
    flags: dict[str, object] = {
        "albert_config_file": config_file(variant, place),
        "input_file": train,
        "output_dir": output_dir,
        "optimizer": place.scale.optimizer,
        "precision": place.scale.precision,
        "max_predictions_per_seq": _num_masked(phase),
        **dataclasses.asdict(phase),
        "num_train_steps": num_train_steps,
        "save_checkpoints_steps": max(
            _LEAST_INTERVAL, math.ceil(num_train_steps / _NUM_SAVED)
        ),
        "keep_checkpoint_max": 1,
        # A model reads other examples than the one it starts from.
        "random_seed": place.seed + variant.num_before * 1000,
    }
    flags |= own_flags
    if flags["do_eval"]:
        flags["eval_file"] = held_out
    return commands.create("run_pretraining.py", output_dir, **flags)


def write_config(variant: Variant, place: Place) -> None:
    """Writes the file that the commands of a model name."""
    path = config_file(variant, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    variant.config.to_json_file(path)


def config_file(variant: Variant, place: Place) -> pathlib.Path:
    """Returns the file of the shape of a model."""
    shape = _shape_name(variant, place.scale) or "base"
    return place.models / f"{shape}.json"


def evaluation_command(variant: Variant, place: Place, pairs: str) -> Command:
    """Returns the command that evaluates a model.

    Masks are those that the held-out records were built for, whatever the
    model was trained with.
    """
    name = f"{model_name(variant, place.scale)}-on-{pairs}"
    phase = _second(variant, place.scale)
    return commands.create(
        "run_pretraining.py",
        place.models / name,
        albert_config_file=config_file(variant, place),
        init_checkpoint=newest_weights(variant, place),
        eval_file=held_out_records(variant, place, pairs),
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=_num_masked(phase),
        objectives=variant.flags.get("objectives", "mlm,sop"),
        output_dir=place.models / name,
        do_train=False,
        do_eval=True,
    )


def train(variant: Variant, place: Place) -> dict[str, Any]:
    """Trains a model, and those it starts from, unless that is done.

    Returns:
        `parameters`, `commands`, `commit`, `seconds` of training with all that
        was trained before it, and `curve`: steps of the second phase with
        the held-out loss.
    """
    before = 0.0
    if variant.starts_from:
        before = train(variant.starts_from, place)["seconds"]
    write_config(variant, place)
    found = training_commands(variant, place)
    commits = [commands.run(one) for one in found]
    own = found[-1].made
    return {
        "config": dataclasses.asdict(variant.config),
        "parameters": model_sizes.encoder_parameters(variant.config),
        "commands": commands.shown(found),
        "commit": commits[-1],
        "seconds": before + sum(seconds_of(one.made) for one in found),
        "curve": [
            [line["step"], line["eval_masked_lm_loss"]]
            for line in files.read_json_lines(own / METRICS)
            if "eval_masked_lm_loss" in line
        ],
    }


def evaluate(variant: Variant, place: Place, pairs: str) -> dict[str, float]:
    """Returns the scores of a trained model on held-out pairs.

    Of next sentences, there are more of one kind: where a chunk of text has one
    sentence, the second segment is drawn from another document. So the share
    of the larger class is given, too.
    """
    command = evaluation_command(variant, place, pairs)
    commands.run(command)
    share = 0.5  # Orders are drawn when the records are read.
    if pairs == "nsp":
        path = held_out_records(variant, place, pairs)
        counts = shards.read(path).counts
        share = counts.label_1_records / counts.records
    scores = files.read_json_object(command.made / SCORES)
    return {**scores, LARGER_CLASS: max(share, 1 - share)}


def seconds_of(folder: pathlib.Path) -> float:
    """Returns the time of the updates in a run's log; 0 without a log."""
    if not (folder / METRICS).exists():
        return 0.0
    return max(line["seconds"] for line in time_to_loss.timed_lines(folder))
