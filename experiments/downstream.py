"""What pretraining does for tasks: scores of fine-tuned models."""

import dataclasses
import pathlib
from typing import Any

from albert_tf import files
from albert_tf.tasks.classification import glue
from experiments import commands, runs
from experiments.commands import Command
from experiments.experiment import Variant
from experiments.runs import Place
from experiments.scales import Scale

SQUAD, RACE = "squad", "race"
TASKS = (*glue.GLUE_DATASETS, SQUAD, RACE)
# Of each pretrained model, whose median is its score.
NUM_SEEDS = 3
_SQUAD_FILES = ("SQuAD/train-v1.1.json", "SQuAD/dev-v1.1.json")


def score_name(task: str) -> str:
    """Returns the score of a task that is reported."""
    scores = {SQUAD: "f1", RACE: "accuracy"}
    return scores.get(task) or glue.GLUE_DATASETS[task].score_names[0]


def check(task: str, data_dir: pathlib.Path) -> None:
    """Checks that the examples of a task are there."""
    needed = {SQUAD: _SQUAD_FILES, RACE: ("RACE/train", "RACE/dev")}
    if task not in needed:
        sets = glue.GLUE_DATASETS[task].files
        needed[task] = tuple(
            one.path for name in ("train", "eval") for one in sets[name]
        )
    for name in needed[task]:
        if not (data_dir / name).exists():
            raise FileNotFoundError(
                f"There is no {str(data_dir / name)!r}, with examples of "
                f"{task!r}. Check --data_dir."
            )


def command(
    variant: Variant, place: Place, task: str, data_dir: pathlib.Path
) -> Command:
    """Returns the command that fine-tunes a model."""
    name = f"{runs.model_name(variant, place.scale)}-on-{task}"
    train, dev = (data_dir / name for name in _SQUAD_FILES)
    program, examples = {
        SQUAD: ("run_squad.py", {"train_file": train, "predict_file": dev}),
        RACE: ("run_race.py", {"data_dir": data_dir}),
    }.get(
        task, ("run_classifier.py", {"task_name": task, "data_dir": data_dir})
    )
    return commands.create(
        program,
        place.models / name,
        **examples,
        precision=place.scale.precision,
        albert_config_file=runs.config_file(variant, place),
        spm_model_file=place.data / runs.TOKENIZER,
        init_checkpoint=runs.newest_weights(variant, place),
        output_dir=place.models / name,
        do_train=True,
        do_eval=True,
        keep_checkpoint_max=1,
        num_seeds=NUM_SEEDS,
        **_settings(place.scale, task),
    )


def _settings(scale: Scale, task: str) -> dict[str, object]:
    phase = scale.finetuning
    length = phase.max_seq_length
    lengths = {
        SQUAD: {"max_query_length": length // 4, "doc_stride": length // 2},
        RACE: {"max_qa_length": length // 2},
    }
    return {
        **dataclasses.asdict(phase),
        "save_checkpoints_steps": phase.num_train_steps,
        **lengths.get(task, {}),
    }


def evaluate(
    variant: Variant, place: Place, task: str, data_dir: pathlib.Path
) -> dict[str, Any]:
    """Fine-tunes a model, unless that is done.

    Returns:
        `command`, and `score`: the median of the seeds, 1 at best.
    """
    one = command(variant, place, task, data_dir)
    commands.run(one)
    score = files.read_json_object(one.made / runs.SCORES)[score_name(task)]
    if task == SQUAD:  # in percent
        score /= 100
    return {"command": str(one), "score": score}
