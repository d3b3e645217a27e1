"""The configuration of a run, under the names of its flags: plain Python."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import checks
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.devices.device_settings import DeviceSettings
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.settings import setting
from albert_tf.text.tokenizer import NewTokens, VocabularyBeside

# Names of sets of settings for fine-tuning.
PRESETS = ("paper", "paper_v2")
# Seeds are int32.
LARGEST_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase of a run, whose updates have the same shapes.

    `depth` is the number of layers that are computed; `batch_size` is global;
    `masked_lm_prob` is None without a schedule of it.
    """

    first_step: int
    depth: int
    max_seq_length: int
    batch_size: int
    masked_lm_prob: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(DeviceSettings, OptimizerConfig):
    """Settings that pretraining and fine-tuning share.

    Args:
        flags_text: Written to `flags.txt`.
        vocabulary: A checkpoint with the vocabulary, which the output directory
            keeps a copy of; None if it is unknown.
        head: Name of the head of the model, which checkpoints keep.
        evaluated: Names the set that is evaluated, if one is.
    """

    albert_config: AlbertConfig
    albert_config_file: str | None = setting(
        None,
        "JSON file with the shape of the model, or the name of a published "
        "one (base_v2, xxlarge_v1, base_zh, bert_base, ...). Default: the "
        "config in the folder of --init_checkpoint.",
    )
    use_tpu: bool = setting(False, "Same as --strategy=tpu.")
    preemption_exit_code: int = setting(
        3,
        "Exit code if SIGTERM or Ctrl-C stopped the run, after a checkpoint if "
        "it was training; 0 for schedulers that take others for a failure.",
        at_most=255,
    )
    output_dir: str = setting(
        "",
        "Output directory of the run. Running the same command again resumes.",
    )
    init_checkpoint: str | None = setting(
        None,
        "Weights to start from: a TF1 checkpoint (prefix or folder), the "
        "output directory of a run or one of its checkpoints, a Hugging Face "
        "folder (safetensors), or a KerasHub preset folder.",
    )
    max_seq_length: int = setting(
        512,
        "Sequence length in tokens: the length of the records of a "
        "pretraining, or the longest sequence of a fine-tuning.",
    )
    train_batch_size: int = setting(
        4096, "Global training batch size: examples per update.", at_least=1
    )
    eval_batch_size: int = setting(
        64, "Global evaluation batch size.", at_least=1
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Number of micro-batches that each replica's batch is split into, to "
        "save memory; the result is the same.",
        at_least=1,
    )
    save_checkpoints_steps: int = setting(
        5000,
        "Number of updates between checkpoints, and evaluations.",
        at_least=1,
    )
    keep_checkpoint_max: int = setting(
        5, "Number of most recent checkpoints to keep.", at_least=1
    )
    best_metric: str | None = setting(
        None,
        "Score of an evaluation that selects the best weights, instead of the "
        "first score of the task. Between equal scores, the lower loss wins, "
        "then the later evaluation.",
    )
    log_steps: int = setting(
        100, "Number of updates per line of metrics.jsonl.", at_least=1
    )
    iterations_per_loop: int = setting(
        0,
        "Maximum number of updates per call of the compiled graph; 0 selects "
        "it by device.",
    )
    precision: str = setting(
        "float32",
        "Compute precision of the layers; weights are always float32.",
        choices=("float32", "bfloat16", "float16"),
    )
    jit_compile: bool = setting(
        False, "Compile the forward and backward pass with XLA."
    )
    random_seed: int = setting(
        12345,
        "Seed of initial weights, data order, masks and dropout.",
        at_most=LARGEST_SEED,
    )
    random_depth: bool = setting(
        False,
        "Learn from the output of a random layer in each update, too, so that "
        "fewer layers can be used: --depth of export_saved_model.py. Only for "
        "models whose layers share all their weights.",
    )
    recompute: bool = setting(
        False,
        "Keep only what goes into and out of each half of a block, and compute "
        "the rest again for the gradient: more time, much less memory.",
    )
    deterministic: bool = setting(
        False, "Give bit-identical results every time, at some cost in speed."
    )
    flags_text: str = ""
    # Not compared: digests of tokenizer and weights are.
    vocabulary: Checkpoint | None = dataclasses.field(
        default=None, compare=False
    )
    head: str | None = None
    evaluated: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.random_depth:
            self.albert_config.check_shared("random_depth")

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the run: one, unless there are schedules."""
        return (
            Phase(
                first_step=0,
                depth=self.albert_config.num_hidden_layers,
                max_seq_length=self.max_seq_length,
                batch_size=self.train_batch_size,
            ),
        )

    @property
    def dtype_policy(self) -> str:
        """The Keras dtype policy of `precision`."""
        prefix = "" if self.precision == "float32" else "mixed_"
        return prefix + self.precision

    def check_batch_sizes(self, num_replicas: int, **is_used: object) -> None:
        """Checks that replicas and micro-batches divide the batches.

        `is_used` says, by the name of a batch size, whether it is used.
        """
        for name in filter(is_used.get, is_used):
            num_parts = num_replicas
            batch_sizes = {getattr(self, name)}
            if name == "train_batch_size":
                num_parts *= self.gradient_accumulation_steps
                batch_sizes |= {phase.batch_size for phase in self.phases}
            for batch_size in sorted(batch_sizes):
                if batch_size % num_parts:
                    raise ValueError(
                        f"`{name}` must be a multiple of {num_parts}, the "
                        "number of replicas times the number of accumulation "
                        "steps. "
                        f"Received: {name}={batch_size}."
                    )

    def check_sequence_length(self, max_seq_length: int) -> None:
        """Checks that the model has so many positions."""
        longest = self.albert_config.max_position_embeddings
        checks.check_integer(
            "max_seq_length", max_seq_length, at_least=1, at_most=longest
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningConfig(NewTokens, VocabularyBeside, RunConfig):
    """Settings of a fine-tuning run, whatever the task."""

    preset: str | None = setting(
        None,
        "Settings for flags that are left out, and the dropout of the encoder: "
        "as in the paper for the task (paper) or, for RACE, as the v2 "
        "checkpoints need them (paper_v2).",
        choices=PRESETS,
    )
    num_train_epochs: float | None = setting(
        None,
        "Epochs over the training examples, instead of --num_train_steps.",
        above=0,
    )
    export_dir: str | None = setting(
        None,
        "Directory for a SavedModel of the best weights, in float32: a new "
        "version each time the command ends.",
    )
    do_train: bool = setting(False, "Whether to train.")
    do_eval: bool = setting(False, "Whether to evaluate.")
    do_predict: bool = setting(False, "Whether to write predictions.")
    warmup_proportion: float | None = setting(
        None,
        "Fraction of the updates that warm up, instead of --num_warmup_steps.",
        at_least=0,
        below=1,
    )
    predict_batch_size: int = setting(
        8,
        "Global prediction batch size for sequences of the maximum length; "
        "shorter ones come in larger batches.",
        at_least=1,
    )
    early_stopping_patience: int = setting(
        0,
        "Number of evaluations without a better score after which training "
        "stops; 0 disables early stopping.",
    )
    num_seeds: int = setting(
        1,
        "Number of runs, each with its own seed, in seed-*/; their median, "
        "spread and best score are reported.",
        at_least=1,
    )
    num_folds: int = setting(
        1,
        "Cross-validation: number of parts of the training examples. Each is "
        "predicted and scored by a run, in fold-*/, trained on the others.",
        at_least=1,
    )
    layerwise_lr_decay: float = setting(
        1.0,
        "Learning-rate multiplier from one level of the model to the level "
        "below it: head, layer groups, projection, embeddings.",
        above=0,
        at_most=1,
    )
    freeze_embeddings: bool = setting(
        False, "Keep the embeddings at their initial values."
    )
    # Settings of the task that the weights depend on.
    task_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_sequence_length(self.max_seq_length)
        if self.has_remote_hosts:
            raise ValueError(
                "The hosts of a TPU with a name cannot make the batches of a "
                "fine-tuning. Run the command on the machine of the TPU, "
                f"without --tpu_name. Received: tpu_name={self.tpu_name!r}."
            )
        if not (self.do_train or self.do_eval or self.do_predict):
            raise ValueError(
                "There is nothing to do. Pass --do_train, --do_eval or "
                "--do_predict."
            )

    def seed_configs(self) -> list["FinetuningConfig"]:
        """Returns the settings of each seed's run; none if there is one run.

        Seeds are counted up from `random_seed`; each has its own directory.
        """
        if self.num_seeds == 1:
            return []
        seeds = range(self.random_seed, self.random_seed + self.num_seeds)
        return [
            dataclasses.replace(
                self,
                random_seed=seed,
                output_dir=os.path.join(self.output_dir, f"seed-{seed}"),
                num_seeds=1,
                do_predict=False,
            )
            for seed in seeds
        ]

    def fold_configs(self) -> list["FinetuningConfig"]:
        """Returns the settings of each fold's run; none without folds."""
        if self.num_folds == 1:
            return []
        folders = (f"fold-{fold}" for fold in range(self.num_folds))
        paths = [os.path.join(self.output_dir, folder) for folder in folders]
        return [
            dataclasses.replace(self, output_dir=path, num_folds=1)
            for path in paths
        ]
