"""What a fine-tuning will do: from what the user gave to a frozen config.

A plan is made once, by a function that reads the checkpoint to start from and
the examples, and changes nothing. Commands hand it their flags, Python its
keywords: both are a mapping of the settings that were given.

Source: google-research/albert, `run_classifier.py`, `run_race.py`,
`run_squad_v1.py` and `run_squad_v2.py`, whose flags all work.
"""

import dataclasses
import itertools
import logging
import math
import os
import types
from collections.abc import Collection, Mapping
from typing import Any

from albert_tf import checks, files, settings
from albert_tf.checkpoints import discovery, run_checkpoints, vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.tasks import (
    head_flags,
    lengths,
    paper_presets,
    small_data_defaults,
)
from albert_tf.tasks.spec import DataRequest, FinetuningSpec
from albert_tf.tasks.task import NO_WEIGHTS, SPLITS, Sets
from albert_tf.text.tokenizer import NewTokens, VocabularyBeside
from albert_tf.training import run_folder, start
from albert_tf.training.run_config import FinetuningConfig

_LOGGER = logging.getLogger(__name__)

# Each setting on the left can be given as the one on the right instead.
_RELATIVE = {
    "num_train_steps": "num_train_epochs",
    "num_warmup_steps": "warmup_proportion",
}
_ALTERNATIVES = _RELATIVE | {name: other for other, name in _RELATIVE.items()}
# Lengths of parts of a sequence, which must fit in it.
_PARTS = ("max_query_length", "max_qa_length")
# How often a run is evaluated and logged, unless the user says otherwise.
_LEAST_TIMES = {"save_checkpoints_steps": 5, "log_steps": 20}
# Numbers that all runs of a grid share: they have the same rows to evaluate.
_SHARED = {"num_folds", "num_seeds", "num_tpu_cores", "preemption_exit_code"}
_SHARED |= {"validation_seed", "validation_share"}
# Defaults of all fine-tunings that are not those of the fields.
_DEFAULTS = {"optimizer": "adamw", "eval_batch_size": 8}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningPlan:
    """All that a fine-tuning will do.

    `source` is the checkpoint with the config and the vocabulary. `weights` are
    those to use without training, or those that the training goes on from.
    """

    spec: FinetuningSpec
    config: FinetuningConfig
    task_config: Any
    sets: Sets[Any]
    source: Checkpoint
    weights: Checkpoint

    def __post_init__(self) -> None:
        head_flags.check_devices(self.task_config, on_tpu=self.config.uses_tpu)

    @property
    def start(self) -> Checkpoint | None:
        """What is trained, or used without training; None if it is random."""
        if not self.config.do_train:
            return self.weights
        return self.source if self.config.init_checkpoint else None


def config_classes(spec: FinetuningSpec) -> tuple[type, ...]:
    """Returns the classes whose fields are the settings of a fine-tuning."""
    return FinetuningConfig, spec.config_class


def defaults(spec: FinetuningSpec) -> dict[str, Any]:
    """Returns the settings of a fine-tuning with their defaults."""
    fields = settings.fields_of(*config_classes(spec))
    of_fields = {name: field.default for name, field in fields.items()}
    return {**of_fields, **_DEFAULTS, **spec.defaults}


def lists(spec: FinetuningSpec) -> set[str]:
    """Returns the settings that `grid` takes lists of: numbers."""
    fields = settings.fields_of(*config_classes(spec))
    kinds = {name: settings.type_of(field) for name, field in fields.items()}
    return {n for n in kinds if kinds[n] in (int, float)} - _SHARED


def grid(
    spec: FinetuningSpec,
    given: Mapping[str, Any],
    examples: Mapping[str, Any] = types.MappingProxyType({}),
) -> list[FinetuningPlan]:
    """Plans a run for every combination of the numbers that are lists.

    Each has its folder in `output_dir`, such as `learning_rate=1e-5`. Without a
    list, it is the one of `finetuning`, which has the arguments.
    """
    varied: dict[str, Any] = {
        name: dict.fromkeys(given[name])
        for name in sorted(lists(spec) & given.keys())
        if isinstance(given[name], tuple)
    }
    if not varied:
        return [finetuning(spec, given, examples)]
    folder = given.get("output_dir", "")
    found = os.listdir(folder) if os.path.isdir(folder) else []
    if found and not any("=" in name for name in found):
        raise ValueError(
            f"{folder!r} holds other files than the runs of lists of numbers. "
            "Pass another --output_dir."
        )
    plans = []
    for numbers in itertools.product(*varied.values()):
        own = dict(zip(varied, numbers, strict=True))
        parts = (f"{name}={number}" for name, number in own.items())
        name = "_".join(parts).replace("e-0", "e-")
        own["output_dir"] = folder and os.path.join(folder, name)
        plans.append(finetuning(spec, {**given, **own}, examples))
    config = plans[0].config
    if (
        not (config.do_train and plans[0].sets.evaluation)
        or (config.do_predict or config.export_dir or config.num_folds > 1)
        or _has_workers(vars(config))
    ):
        raise ValueError(
            "Lists of numbers are for runs on one machine with --do_train and "
            "--do_eval, which compares them, and without --num_folds. Pass "
            "--do_predict and --export_dir later, with the best numbers alone."
        )
    return plans


def finetuning(
    spec: FinetuningSpec,
    given: Mapping[str, Any],
    examples: Mapping[str, Any] = types.MappingProxyType({}),
) -> FinetuningPlan:
    """Plans a fine-tuning.

    Args:
        spec: What is fine-tuned.
        given: The settings that the user gave, by name.
        examples: Rows in place of files, by use: `train`, `eval`, `predict`.
    """
    resolved = start.resolved(given, defaults(spec))
    values = defaults(spec) | _only_asked_uses(resolved) | resolved
    # 1. What can be checked before any file is read.
    _check(values, resolved)
    task_config: Any = settings.read(spec.config_class, values)

    # 2. The weights to start from, with their config and vocabulary.
    source = start.open_checkpoint(values)
    vocabulary = settings.read(VocabularyBeside, values)
    source = vocabularies.with_vocabulary(source, vocabulary)
    new_tokens = settings.read(NewTokens, values).new_token_names
    source = vocabularies.with_new_tokens(source, new_tokens)
    albert_config = source.known_config

    # 3. The paper's settings; the weights in use, and lengths that suit them.
    if name := values["preset"]:
        preset = paper_presets.paper_settings(task_config.name, name)
        values |= _not_given(preset.flag_values(), resolved)
        albert_config = preset.with_dropout(albert_config)
    weights = _find_weights(values)
    values |= _as_trained(spec, values, resolved, source, weights)
    task_config = settings.read(spec.config_class, values)

    # 4. The examples. Folds are parts of those to train on.
    uses = [use for use in SPLITS if values[f"do_{use}"]]
    sets = spec.read_sets(
        task_config,
        DataRequest(
            uses=uses if values["num_folds"] == 1 else ["train"],
            tokenizer=source.tokenizer,
            max_seq_length=values["max_seq_length"],
            weights=NO_WEIGHTS if values["do_train"] else weights,
            given_examples=examples,
        ),
    )

    # 5. The config, whose number of steps may depend on that of the examples.
    values |= _suit_small_data(
        values, resolved, task_config, sets, albert_config, "train" in examples
    )
    length, warmup = _run_length(values, resolved, sets, task_config)
    values |= length
    config = settings.read(
        FinetuningConfig,
        values,
        albert_config=albert_config,
        task_settings=settings.affects_training(task_config),
        vocabulary=source,
        head=spec.head_spec(task_config).head.name,
        **start.run_fields(values, examples),
        **warmup,
    )
    return FinetuningPlan(
        spec=spec,
        config=config,
        task_config=task_config,
        sets=sets,
        source=source,
        weights=weights,
    )


def _only_asked_uses(given: Mapping[str, Any]) -> dict[str, bool]:
    # Differs: the original's run_race.py trains even if asked to evaluate.
    asked = {f"do_{use}": bool(given.get(f"do_{use}")) for use in SPLITS}
    return asked if any(asked.values()) and "do_train" not in given else {}


def _not_given(
    chosen: Mapping[str, Any], given: Collection[str]
) -> dict[str, Any]:
    """Returns the values of `chosen` that the user has not decided.

    Steps and warm-up replace the epochs and the proportion, or the other way
    round, that are there by default, but not those that are given.
    """
    result: dict[str, Any] = {}
    for name, value in chosen.items():
        other = _ALTERNATIVES.get(name)
        if name not in given and other not in given:
            result[name] = value
            if other:
                result[other] = None
    return result


def _check(values: Mapping[str, Any], given: Collection[str]) -> None:
    """Checks what can be checked before any file is read."""
    known = {n: value for n, value in values.items() if value is not None}
    settings.check(FinetuningConfig, known)
    for absolute, relative in _RELATIVE.items():
        if absolute in given and relative in given:
            raise ValueError(
                f"--{absolute} and --{relative} contradict each other. Pass "
                "only one of them."
            )
    unused = ("do_predict", "export_dir", "validation_share")
    if values["num_folds"] > 1 and (
        any(map(values.get, unused))
        or values["num_seeds"] > 1
        or not values["do_train"]
    ):
        raise ValueError(
            "--num_folds scores and predicts the training examples, and leaves "
            "no model. Pass --do_train, and neither --num_seeds nor "
            f"{checks.listed(f'--{name}' for name in unused)}."
        )
    files.check_local(values["output_dir"])
    if values["new_tokens"] and not values["do_train"]:
        raise ValueError("--new_tokens needs --do_train, which trains them.")
    if values["export_dir"] and _has_workers(values):
        raise ValueError(
            "--export_dir is for runs on one machine, not for several workers. "
            "Leave it out, and export the --output_dir with "
            "export_saved_model.py."
        )


def _has_workers(values: Mapping[str, Any]) -> bool:
    return values["strategy"] in ("auto", "multi_worker") and (
        "TF_CONFIG" in os.environ or values["cluster"] is not None
    )


def _find_weights(values: Mapping[str, Any]) -> Checkpoint:
    """Finds the weights to use; or to resume from, if there are any yet."""
    output_dir = values["output_dir"]
    path = run_checkpoints.trained_weights(output_dir)
    if not values["do_train"]:
        path = run_folder.weights_to_use(output_dir, values["init_checkpoint"])
    return NO_WEIGHTS if path is None else discovery.open(path)


def _as_trained(
    spec: FinetuningSpec,
    values: Mapping[str, Any],
    given: Collection[str],
    source: Checkpoint,
    weights: Checkpoint,
) -> dict[str, Any]:
    """Returns settings: those given, else those of the weights' training.

    Or else what the model takes; None where the task has none. Other settings
    are decided by the source of a training, or without one by the weights.
    """
    decided = (
        spec.settings_of_start(source)
        if values["do_train"]
        else spec.settings_of_weights(weights)
    )
    decided = _not_given(decided, given)
    task_config: Any = settings.read(spec.config_class, {**values, **decided})
    head_spec = spec.head_spec(task_config)
    # The sequence comes first: parts must fit in it.
    names = ("max_seq_length", *head_spec.serving_settings.as_trained)
    names += ("label_separator",)
    found: dict[str, Any] = {name: values.get(name) for name in names}
    for name, value in found.items():
        if value is None or name in given:
            continue
        if name == "max_seq_length":
            most = source.known_config.max_position_embeddings
            value = min(value, most)
        elif name in _PARTS:
            value = lengths.fitting(value, found["max_seq_length"])
        found[name] = weights.settings.get(name, value)
    return found | decided


def _suit_small_data(
    values: Mapping[str, Any],
    given: Collection[str],
    task_config: Any,
    sets: Sets[Any],
    config: AlbertConfig,
    has_rows: bool,
) -> dict[str, Any]:
    """Returns settings that suit a table, or few questions in a file."""
    if not sets.train or values["preset"]:
        return {}
    num_examples = len(sets.train.examples)
    has_file = values.get("train_file") or has_rows
    is_small = has_file and num_examples < small_data_defaults.FEW_QUESTIONS
    if not (is_small or task_config.is_table):
        return {}
    chosen = small_data_defaults.run_settings(
        num_examples,
        train_batch_size=values["train_batch_size"],
        hidden_size=config.hidden_size,
    )
    found = _not_given(chosen, given)
    if used := [name for name in chosen if name in found]:
        _LOGGER.info(
            "For %d examples, by default: %s",
            num_examples,
            ", ".join(f"--{name}={chosen[name]}" for name in used),
        )
    return found


def _run_length(
    values: Mapping[str, Any],
    given: Collection[str],
    sets: Sets[Any],
    task_config: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns settings as flags.txt keeps them, and fields of the config.

    Numbers that are given come first; else the epochs and the proportion, of
    which a task may have defaults, determine them.
    """
    if not sets.train:
        warmup = {"num_warmup_steps": 0, "start_warmup_step": 0}
        return {}, {**warmup, "warmup_proportion": None}
    chosen = {name: values[name] for name in _ALTERNATIVES}
    for absolute, relative in _RELATIVE.items():
        if absolute in given:
            chosen[relative] = None
    epochs = chosen["num_train_epochs"]
    # TF1: of examples, not of the windows that long ones are cut into.
    num_examples = len(sets.train.examples)
    if task_config.count_windows_as_epochs:
        num_examples = sets.train.examples.num_windows
        if epochs is None:
            raise ValueError(
                "--count_windows_as_epochs needs --num_train_epochs alone."
            )
    if epochs is not None:
        num_batches = num_examples / values["train_batch_size"]
        chosen["num_train_steps"] = max(1, int(num_batches * epochs))
        chosen["num_train_epochs"] = None
    num_steps = chosen["num_train_steps"]
    num_warmup_steps = chosen["num_warmup_steps"]
    if (proportion := chosen["warmup_proportion"]) is not None:
        num_warmup_steps = int(num_steps * proportion)
        chosen["num_warmup_steps"] = None
    for name, least in _LEAST_TIMES.items():
        if name not in given:
            chosen[name] = min(values[name], math.ceil(num_steps / least))
    return chosen, {"num_warmup_steps": num_warmup_steps}
