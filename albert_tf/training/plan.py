"""Plans runs: makes a frozen config from the settings that a user gives.

Planning reads the checkpoint to start from and the examples, and writes no
files in the output directory. Flags of commands and keywords of Python arrive
as the same mapping, from names of settings to values. Plain Python, so that a
bad flag is reported before TensorFlow is imported.

The plan of a fine-tuning is a list of steps, see `tasks.planning`.

Source: google-research/albert, `run_classifier.py`, `run_race.py`,
`run_squad_v1.py` and `run_squad_v2.py`, whose flags all work.
"""

import dataclasses
import itertools
import math
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from albert_tf import checks, files, registry, settings
from albert_tf.checkpoints import (
    discovery,
    heads,
    run_checkpoints,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.published_configs import load_config
from albert_tf.settings import SettingValues
from albert_tf.tasks import lengths
from albert_tf.tasks.example_files import RowsInMemory
from albert_tf.tasks.planning import ALTERNATIVES, RELATIVE, PlanRequest
from albert_tf.tasks.spec import DataRequest, FinetuningSpec, TaskConfig
from albert_tf.tasks.task_data import SPLITS, ExampleSet, Sets
from albert_tf.text.tokenizer import NewTokens, VocabularyBeside
from albert_tf.training import flag_values, run_folder
from albert_tf.training.pretrain_config import PretrainingConfig
from albert_tf.training.run_config import FinetuningConfig

# How often, at least, a run is evaluated and logged by default.
_LEAST_TIMES = {"save_checkpoints_steps": 5, "log_steps": 20}
# Numeric settings that may not be lists: all runs of a grid share their values.
_SHARED = {"num_folds", "num_seeds", "num_tpu_cores", "preemption_exit_code"}
_SHARED |= {"validation_seed", "validation_share"}
# Defaults of all fine-tunings that replace the defaults of the fields.
_DEFAULTS = {"optimizer": "adamw", "eval_batch_size": 8}
# Reports name the evaluation set by the first of these flags that is passed.
_EVALUATED = "eval_file validation_share data_dir predict_file input_file"

_NO_ROWS: Mapping[str, RowsInMemory] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningPlan:
    """A planned fine-tuning: all settings and examples.

    Training starts from `checkpoint`, which has config and vocabulary.
    `weights` are the weights to use without training, or to resume from.
    """

    task_spec: FinetuningSpec
    config: FinetuningConfig
    task_config: TaskConfig
    sets: Sets[Any]
    checkpoint: Checkpoint
    weights: Checkpoint

    @property
    def init_checkpoint(self) -> Checkpoint | None:
        """The weights to train, or to use; None if they are random."""
        if not self.config.do_train:
            return self.weights
        return self.checkpoint if self.config.init_checkpoint else None

    @property
    def evaluated(self) -> Sequence[ExampleSet]:
        """The sets that are scored; with `num_folds`, the training set."""
        if self.config.num_folds > 1 and self.sets.train:
            return (self.sets.train,)
        return self.sets.evaluation


def pretraining(user_settings: SettingValues) -> PretrainingConfig:
    """Plans a pretraining."""
    fields = settings.fields_of(PretrainingConfig)
    field_defaults = {name: field.default for name, field in fields.items()}
    known = _known_and_downloaded(user_settings, field_defaults)
    values = {**field_defaults, **known}
    checkpoint = _init_checkpoint(values)
    return settings.read(
        PretrainingConfig,
        values,
        albert_config=checkpoint.known_config,
        head=heads.PRETRAINING.name,
        **_run_fields(values),
    )


def config_classes(spec: FinetuningSpec) -> tuple[type, ...]:
    """Returns the classes whose fields are the settings of a fine-tuning."""
    return FinetuningConfig, spec.config_class


def defaults(spec: FinetuningSpec) -> SettingValues:
    """Returns the settings of a fine-tuning with their defaults."""
    fields = settings.fields_of(*config_classes(spec))
    field_defaults = {name: field.default for name, field in fields.items()}
    return {**field_defaults, **_DEFAULTS, **spec.defaults}


def lists(spec: FinetuningSpec) -> set[str]:
    """Returns the names of the numeric settings that `grid` may vary."""
    fields = settings.fields_of(*config_classes(spec))
    kinds = {name: settings.type_of(field) for name, field in fields.items()}
    return {n for n in kinds if kinds[n] in (int, float)} - _SHARED


def grid(
    spec: FinetuningSpec,
    user_settings: SettingValues,
    examples: Mapping[str, RowsInMemory] = _NO_ROWS,
) -> list[FinetuningPlan]:
    """Plans a run for every combination of the settings that are lists.

    Each run has a folder in `output_dir`, such as `learning_rate=1e-5`. Without
    a list, there is one plan. The arguments are as for `finetuning`.
    """
    varied: dict[str, Any] = {
        name: dict.fromkeys(user_settings[name])
        for name in sorted(lists(spec) & user_settings.keys())
        if isinstance(user_settings[name], tuple)
    }
    if not varied:
        return [finetuning(spec, user_settings, examples)]
    folder = user_settings.get("output_dir", "")
    entries = os.listdir(folder) if os.path.isdir(folder) else []
    if entries and not any("=" in name for name in entries):
        raise ValueError(
            f"{folder!r} holds other files than the runs of lists of numbers. "
            "Pass another --output_dir."
        )
    plans = []
    for numbers in itertools.product(*varied.values()):
        chosen = dict(zip(varied, numbers, strict=True))
        parts = (f"{name}={number}" for name, number in chosen.items())
        name = "_".join(parts).replace("e-0", "e-")
        chosen["output_dir"] = folder and os.path.join(folder, name)
        plans.append(finetuning(spec, {**user_settings, **chosen}, examples))
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
    user_settings: SettingValues,
    examples: Mapping[str, RowsInMemory] = _NO_ROWS,
) -> FinetuningPlan:
    """Plans a fine-tuning.

    Args:
        spec: The task that is fine-tuned.
        user_settings: The settings that the user gives, by name.
        examples: Rows in place of files, by use: `train`, `eval`, `predict`.
    """
    # 1. Checks before any file is read; rows stand for theirs.
    default_settings = defaults(spec)
    user_settings = _known_and_downloaded(user_settings, default_settings)
    requested = _requested_uses(user_settings)
    values = {**default_settings, **requested, **user_settings}
    _check(values | {f"{use}_file": use for use in examples}, user_settings)
    settings.read(spec.config_class, values)  # raises if a value is invalid

    # 2. The checkpoint to start from, and the weights in use.
    vocabulary = settings.read(VocabularyBeside, values)
    checkpoint = _init_checkpoint(values, vocabulary)
    request = PlanRequest(
        task_spec=spec,
        user_settings=user_settings,
        settings=values,
        albert_config=checkpoint.known_config,
        checkpoint=checkpoint,
        weights=_find_weights(values),
        rows_in_memory=examples.keys(),
    )

    # 3. Settings that decide the examples; the examples.
    request = _apply_steps(
        request, registry.STEPS_BEFORE_EXAMPLES, _settings_as_trained
    )
    task_config = request.task_config
    uses = [use for use in SPLITS if values[f"do_{use}"]]
    sets = spec.read_sets(
        task_config,
        DataRequest(
            # Folds are parts of the examples to train on.
            uses=uses if values["num_folds"] == 1 else ["train"],
            tokenizer=checkpoint.tokenizer,
            max_seq_length=request.settings["max_seq_length"],
            weights=Checkpoint() if values["do_train"] else request.weights,
            start=checkpoint if values["do_train"] else Checkpoint(),
            given_examples=examples,
        ),
    )

    # 4. Settings that the examples decide; the config.
    request = dataclasses.replace(request, sets=sets)
    request = _apply_steps(request, registry.STEPS_AFTER_EXAMPLES, _run_length)
    config = settings.read(
        FinetuningConfig,
        request.settings,
        albert_config=request.albert_config,
        task_settings=settings.affects_training(task_config),
        vocabulary=checkpoint,
        head=spec.head_spec(task_config).head.name,
        **_run_fields(request.settings, examples),
        **_warmup_fields(request),
    )
    return FinetuningPlan(
        task_spec=spec,
        config=config,
        task_config=task_config,
        sets=sets,
        checkpoint=checkpoint,
        weights=request.weights,
    )


def _apply_steps(
    request: PlanRequest,
    steps: Mapping[str, str],
    last: Callable[[PlanRequest], SettingValues],
) -> PlanRequest:
    """Returns the request with the settings that the steps choose, in turn."""
    for step in (*map(registry.load, steps.values()), last):
        chosen = {**step(request)}
        config = chosen.pop("albert_config", request.albert_config)
        request = dataclasses.replace(
            request,
            settings={**request.settings, **chosen},
            albert_config=config,
        )
    return request


def _known_and_downloaded(
    user_settings: SettingValues, names: Collection[str]
) -> SettingValues:
    """Returns the settings among `names`; downloads a published checkpoint."""
    known = {n: user_settings[n] for n in user_settings if n in names}
    if path := user_settings.get("init_checkpoint"):
        known["init_checkpoint"] = discovery.local_path(path)
    return known


def _requested_uses(user_settings: SettingValues) -> dict[str, bool]:
    """Turns training off if the user asks only to evaluate or to predict."""
    # Differs: the original's run_race.py trains even if asked to evaluate.
    requested = {
        f"do_{use}": bool(user_settings.get(f"do_{use}")) for use in SPLITS
    }
    is_decided = "do_train" in user_settings
    return requested if any(requested.values()) and not is_decided else {}


def _check(values: SettingValues, user_settings: Collection[str]) -> None:
    """Checks settings as far as is possible without reading files."""
    not_none = {n: x for n, x in values.items() if x is not None}
    settings.check(FinetuningConfig, not_none)
    for absolute, relative in RELATIVE.items():
        if absolute in user_settings and relative in user_settings:
            raise ValueError(
                f"--{absolute} and --{relative} contradict each other. Pass "
                "only one of them."
            )
    unused = ("do_predict", "export_dir", "validation_share", "eval_file")
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


def _has_workers(values: SettingValues) -> bool:
    return values["strategy"] in ("auto", "multi_worker") and (
        "TF_CONFIG" in os.environ or values["cluster"] is not None
    )


def _init_checkpoint(
    values: SettingValues, vocabulary: VocabularyBeside | None = None
) -> Checkpoint:
    """Opens the checkpoint that a run starts from, with a config.

    Without `init_checkpoint`, it is the run in `output_dir`, if there is one.
    `albert_config_file` replaces its config, a `vocabulary` its vocabulary.
    """
    if not (output_dir := values["output_dir"]):
        raise ValueError("--output_dir must be given.")
    config = values["albert_config_file"]
    path = values["init_checkpoint"] or values.get("continue_from")
    # A run that began with a config adds its new tokens to the config again.
    adds = config and values["new_tokens"]
    if not path and not adds and run_checkpoints.trained_weights(output_dir):
        path = output_dir
    if path:
        checkpoint = discovery.open(
            path,
            albert_config=config,
            may_change_layers=bool(values.get("init_from_group0")),
        )
    elif config:
        checkpoint = Checkpoint(path=output_dir, config=load_config(config))
    else:
        raise ValueError(
            "--albert_config_file or --init_checkpoint must be given."
        )
    if vocabulary:
        checkpoint = vocabularies.with_vocabulary(checkpoint, vocabulary)
    new_tokens = settings.read(NewTokens, values).new_token_names
    return vocabularies.with_new_tokens(checkpoint, new_tokens)


def _find_weights(values: SettingValues) -> Checkpoint:
    """Finds the weights to use, or to resume from, if there are any yet."""
    output_dir = values["output_dir"]
    path = run_checkpoints.trained_weights(output_dir)
    if not values["do_train"]:
        path = run_folder.weights_to_use(output_dir, values["init_checkpoint"])
    return Checkpoint() if path is None else discovery.open(path)


def _settings_as_trained(request: PlanRequest) -> SettingValues:
    """Fills settings left out: from the weights' training, or defaults."""
    spec, values = request.task_spec, request.settings
    stored = request.undecided(
        spec.settings_of_start(request.checkpoint)
        if values["do_train"]
        else spec.settings_of_weights(request.weights)
    )
    task_config = settings.read(spec.config_class, {**values, **stored})
    head_spec = spec.head_spec(task_config)
    # First the sequence, in which its parts, such as a question, must fit.
    names = ("max_seq_length", *head_spec.serving_settings.as_trained)
    names += ("label_separator",)
    result: dict[str, Any] = {name: values.get(name) for name in names}
    for name, value in result.items():
        if value is None or name in request.user_settings:
            continue
        if name == "max_seq_length":
            config = request.checkpoint.known_config
            value = min(value, config.max_position_embeddings)
        elif name in head_spec.serving_settings.parts:
            value = lengths.fitting(value, result["max_seq_length"])
        result[name] = request.weights.settings.get(name, value)
    return result | stored


def _run_length(request: PlanRequest) -> SettingValues:
    """Chooses the numbers of updates, which flags.txt keeps.

    Numbers that the user gives take precedence; otherwise epochs and warm-up
    proportion determine them, whether given or defaults of the task.
    """
    values, train = request.settings, request.sets.train
    if not train:
        return {}
    chosen = {name: values[name] for name in ALTERNATIVES}
    for absolute, relative in RELATIVE.items():
        if absolute in request.user_settings:
            chosen[relative] = None
    epochs = chosen["num_train_epochs"]
    # TF1: epochs over examples, not over the windows of long ones.
    num_examples = len(train.examples)
    if request.task_config.count_windows_as_epochs:
        num_examples = train.examples.num_windows
        if epochs is None:
            raise ValueError(
                "--count_windows_as_epochs needs --num_train_epochs alone."
            )
    if epochs is not None:
        num_batches = num_examples / values["train_batch_size"]
        chosen["num_train_steps"] = max(1, int(num_batches * epochs))
        chosen["num_train_epochs"] = None
    if chosen["warmup_proportion"] is not None:
        chosen["num_warmup_steps"] = None
    for name, least in _LEAST_TIMES.items():
        if name not in request.user_settings:
            interval = math.ceil(chosen["num_train_steps"] / least)
            chosen[name] = min(values[name], interval)
    return chosen


def _warmup_fields(request: PlanRequest) -> SettingValues:
    """Returns the fields of the config that determine the warm-up."""
    if not request.sets.train:
        return {
            "num_warmup_steps": 0,
            "start_warmup_step": 0,
            "warmup_proportion": None,
        }
    values = request.settings
    if (proportion := values["warmup_proportion"]) is None:
        return {}
    return {"num_warmup_steps": int(values["num_train_steps"] * proportion)}


def _run_fields(
    values: SettingValues, rows_in_memory: Collection[str] = ()
) -> SettingValues:
    """Returns the fields of a run's config that these settings decide."""
    strategy = {"strategy": "tpu"} if values["use_tpu"] else {}
    evaluated = "rows in memory"
    flags, use = _EVALUATED.split(), "eval"
    if values.get("num_folds", 1) > 1:
        flags, use = ["train_file", "data_dir"], "train"
    named = [name for name in flags if values.get(name)]
    if named and use not in rows_in_memory:
        evaluated = f"--{named[0]}={values[named[0]]}"
    text = flag_values.as_text(values)
    return {"flags_text": text, "evaluated": evaluated, **strategy}
