"""The configuration of a run, under the names of its command-line flags.

One object holds every setting of a run, from the optimizer to the output
directory. It is checked once, when it is made, and handed from the command
line to the innermost function.

Floor: training. Plain Python, so that a bad flag is reported before TensorFlow
is imported.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from albert_tf import checks
from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.settings import setting
from albert_tf.training import phases as phases_lib
from albert_tf.training import progress as progress_lib
from albert_tf.training.phases import Phase
from albert_tf.training.progress import Progress

STRATEGIES = ("auto", "one", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "bfloat16", "float16")
ON_DIVERGENCE = ("stop", "rollback")
ON_COLLAPSE = ("restart", "ignore")
# Seeds of further runs are counted up from the given one; keys have 32 bits.
LARGEST_SEED = 2**31 - 1
_AS_BUILT = (
    " Default: as the records were built; only those of --masking=dynamic can "
    "be read with another value."
)
# The metric that selects the best weights by default, as in the reference.
PRIMARY_METRICS = {
    "mlm": "masked_lm_accuracy",
    "sop": "sentence_order_accuracy",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(OptimizerConfig):
    """Settings that pretraining and fine-tuning share.

    A field made by `setting` is the flag of the same name; its help says what
    it means.

    Args:
        albert_config: Shape of the model.
        output_dir: Output directory of the run.
        flags_text: Written to `flags.txt`.

    Raises:
        ValueError: A value is invalid, or two contradict each other.
    """

    albert_config: AlbertConfig
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
    train_batch_size: int = setting(
        4096, "Global training batch size: examples per update."
    )
    eval_batch_size: int = setting(64, "Global evaluation batch size.")
    gradient_accumulation_steps: int = setting(
        1,
        "Number of micro-batches that each replica's batch is split into, to "
        "save memory; the result is the same.",
    )
    save_checkpoints_steps: int = setting(
        5000, "Number of updates between checkpoints, and evaluations."
    )
    keep_checkpoint_max: int = setting(
        5, "Number of most recent checkpoints to keep."
    )
    best_metric: str | None = setting(
        None,
        "Score of an evaluation that selects the best weights, instead of the "
        "first one of the task. Of equal scores, the one with the lower loss "
        "is better, then the later one.",
    )
    log_steps: int = setting(
        100, "Number of updates per line of metrics.jsonl."
    )
    iterations_per_loop: int = setting(
        0,
        "Maximum number of updates per call of the compiled graph; 0 selects "
        "it by device.",
    )
    strategy: str = setting(
        "auto",
        "Devices to use: one; mirrored (all GPUs of this machine); "
        "multi_worker (the machines of TF_CONFIG); tpu; or auto.",
        choices=STRATEGIES,
    )
    tpu_name: str | None = setting(None, "Name or address of the TPU.")
    tpu_zone: str | None = setting(None, "Zone of the TPU.")
    gcp_project: str | None = setting(None, "Google Cloud project of the TPU.")
    num_tpu_cores: int | None = setting(
        None, "Number of cores that the TPU must have."
    )
    precision: str = setting(
        "float32",
        "Compute precision of the layers; weights are always float32.",
        choices=PRECISIONS,
    )
    jit_compile: bool = setting(
        False, "Compile the forward and backward pass with XLA."
    )
    random_seed: int = setting(
        12345, "Seed of initial weights, data order, masks and dropout."
    )
    deterministic: bool = setting(
        False, "Give bit-identical results every time, at some cost in speed."
    )
    on_divergence: str = setting(
        "stop",
        "What to do when the loss becomes infinite, NaN, or jumps: stop; or "
        "rollback to the last checkpoint, skip the batches since then, and "
        "halve the learning rate.",
        choices=ON_DIVERGENCE,
    )
    flags_text: str = ""

    # Whether a new run is evaluated before its first update.
    evaluates_start: ClassVar[bool] = False
    # Whether a sudden rise of the loss counts as divergence. The small batches
    # of fine-tuning rise by chance: one hard example is enough.
    detects_jumps: ClassVar[bool] = False
    # Sequence length of the records; each kind of run has a flag for it.
    max_seq_length: int = 512
    # Flags of only one kind of run, with the value they have for the other.
    depth_schedule: str = ""
    length_schedule: str = ""
    batch_schedule: str = ""
    time_budget: str = ""
    early_stopping_patience: int = 0
    layerwise_lr_decay: float = 1.0
    freeze_embeddings: bool = False
    init_from_group0: bool = False
    allow_new_heads: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (
            "train_batch_size",
            "eval_batch_size",
            "gradient_accumulation_steps",
            "save_checkpoints_steps",
            "keep_checkpoint_max",
            "log_steps",
        ):
            checks.check_integer(name, getattr(self, name), at_least=1)
        checks.check_integer("iterations_per_loop", self.iterations_per_loop)
        checks.check_integer(
            "random_seed", self.random_seed, at_most=LARGEST_SEED
        )
        checks.check_choice("strategy", self.strategy, STRATEGIES)
        checks.check_choice("precision", self.precision, PRECISIONS)
        checks.check_choice("on_divergence", self.on_divergence, ON_DIVERGENCE)

    @property
    def progress(self) -> Progress:
        """The length of the run, in steps or in time."""
        budget = self.time_budget
        return Progress(
            num_train_steps=self.num_train_steps,
            seconds=progress_lib.seconds_of(budget) if budget else None,
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the run; see `phases.merge`."""
        return phases_lib.merge(
            {name: getattr(self, name) for name in phases_lib.SCHEDULES},
            Phase(
                first_step=0,
                depth=self.albert_config.num_hidden_layers,
                max_seq_length=self.max_seq_length,
                batch_size=self.train_batch_size,
            ),
            num_train_steps=self.num_train_steps,
        )

    @property
    def dtype_policy(self) -> str:
        """The Keras dtype policy of `precision`."""
        if self.precision == "float32":
            return "float32"
        return f"mixed_{self.precision}"

    def _check_sequence_length(self, max_seq_length: int) -> None:
        longest = self.albert_config.max_position_embeddings
        checks.check_integer("max_seq_length", max_seq_length, at_least=1)
        if max_seq_length > longest:
            raise ValueError(
                f"`max_seq_length` must not exceed the {longest} position "
                "embeddings of the config. Received: "
                f"max_seq_length={max_seq_length}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(RunConfig):
    """Settings of a pretraining run; the defaults are those of the paper."""

    input_file: str = setting(
        "", "Comma-separated globs of the records to train on."
    )
    eval_file: str = setting(
        "", "Comma-separated globs of the records to evaluate on."
    )
    do_train: bool = setting(True, "Whether to train.")
    do_eval: bool = setting(False, "Whether to evaluate on --eval_file.")
    max_seq_length: int = setting(
        512, "Sequence length; must equal that of the records."
    )
    depth_schedule: str = setting(
        "",
        "Number of layers that are computed, by step: 3@0,6@30000,12@60000 "
        "computes 3 layers of 12 until step 30000, then 6, and all from step "
        "60000 on. Only for models whose layers share all their weights. "
        "Default: always all.",
    )
    length_schedule: str = setting(
        "",
        "Sequence length of the training records, by step, such as "
        "128@0,512@90000; --input_file must name records of each length, and "
        "the last must be --max_seq_length. Default: always that.",
    )
    batch_schedule: str = setting(
        "",
        "Global training batch size, by step, such as 256@0,1024@10000; the "
        "last must be --train_batch_size. Default: always that.",
    )
    time_budget: str = setting(
        "",
        "Time that the run takes, such as 24h, 90m or 30s, evaluations and "
        "checkpoints included. --num_train_steps is then not the number of "
        "updates but the length of all schedules, which are passed through in "
        "this time; the run ends with a learning rate of 0. Such a run cannot "
        "be repeated bit by bit. Default: no limit; each update is a step.",
    )
    max_predictions_per_seq: int | None = setting(
        None, "Maximum number of masked tokens per sequence." + _AS_BUILT
    )
    masked_lm_prob: float | None = setting(
        None, "Share of tokens to mask." + _AS_BUILT
    )
    ngram: int | None = setting(
        None, "Longest n-gram of words that is masked together." + _AS_BUILT
    )
    favor_shorter_ngram: bool | None = setting(
        None,
        "Whether an n-gram of n words has a probability proportional to 1/n; "
        "otherwise the same probabilities in reverse." + _AS_BUILT,
    )
    do_whole_word_mask: bool | None = setting(
        None, "Whether whole words are masked, or single tokens." + _AS_BUILT
    )
    verify_records: bool = setting(
        False,
        "Read all record files before the first step and compare their "
        "checksums. A damaged record also stops a run when it is read.",
    )
    max_eval_steps: int | None = setting(
        None,
        "Maximum number of evaluation batches. Default: all records are "
        "evaluated.",
    )
    objectives: tuple[str, ...] = setting(
        ("mlm", "sop"),
        "Training losses: mlm (masked language modeling), sop (sentence "
        "order), or both, separated by a comma.",
    )
    init_from_group0: bool = setting(
        False,
        "Initialize every layer group from the first group of "
        "--init_checkpoint.",
    )
    allow_new_heads: bool = setting(
        False,
        "Initialize heads that --init_checkpoint lacks at random, instead of "
        "refusing the checkpoint.",
    )

    evaluates_start: ClassVar[bool] = True
    detects_jumps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        names = set(self.objectives)
        is_known = names and names <= set(PRIMARY_METRICS)
        if not is_known or len(names) < len(self.objectives):
            raise ValueError(
                "`objectives` must be one or more of "
                f"{', '.join(PRIMARY_METRICS)}, each once. Received: "
                f"objectives={','.join(self.objectives)}."
            )
        for name in ("max_predictions_per_seq", "max_eval_steps", "ngram"):
            if getattr(self, name) is not None:
                checks.check_integer(name, getattr(self, name), at_least=1)
        if self.masked_lm_prob is not None:
            checks.check_number(
                "masked_lm_prob", self.masked_lm_prob, above=0, at_most=1
            )
        self._check_phases()
        if self.init_from_group0 and not self.init_checkpoint:
            raise ValueError(
                "`init_from_group0` says how to read `init_checkpoint`, which "
                "is not given. Pass --init_checkpoint, or leave it out."
            )
        if self.best_metric and not self.do_eval:
            raise ValueError(
                "`best_metric` selects among evaluations, but there are none. "
                "Pass --do_eval with --eval_file. Received: "
                f"best_metric={self.best_metric!r}."
            )
        if not self.do_train and not self.do_eval:
            raise ValueError(
                "There is nothing to do. Pass --do_train with --input_file, "
                "or --do_eval with --eval_file."
            )
        for use, name in (("do_train", "input_file"), ("do_eval", "eval_file")):
            if getattr(self, use) and not getattr(self, name):
                raise ValueError(f"--{name} must be given, because of --{use}.")

    def _check_phases(self) -> None:
        if self.progress.seconds and self.deterministic:
            raise ValueError(
                "`deterministic` and `time_budget` exclude each other, because "
                "the learning rate then depends on the clock. Leave one out."
            )
        for phase in self.phases:
            self._check_sequence_length(phase.max_seq_length)
        config = self.albert_config
        num_sets = map(config.num_weight_sets, ("attention", "ffn"))
        if self.depth_schedule and max(num_sets) > 1:
            raise ValueError(
                "`depth_schedule` needs a model whose layers share all their "
                "weights, because the layers that are left out would not be "
                "trained. Received: "
                f"parameter_sharing={config.parameter_sharing!r}, "
                f"num_hidden_groups={config.num_hidden_groups}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningConfig(RunConfig):
    """Settings of a fine-tuning run, whatever the task."""

    do_train: bool = setting(False, "Whether to train.")
    do_eval: bool = setting(False, "Whether to evaluate.")
    do_predict: bool = setting(False, "Whether to write predictions.")
    max_seq_length: int = setting(512, "Maximum sequence length in tokens.")
    predict_batch_size: int = setting(
        8,
        "Global prediction batch size for sequences of the maximum length; "
        "shorter ones come in larger batches.",
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
    )
    on_collapse: str = setting(
        "restart",
        "What to do if the model knows no more than the label frequencies: "
        "restart the run with another seed and a longer warm-up, or ignore "
        "it.",
        choices=ON_COLLAPSE,
    )
    max_restarts: int = setting(
        3, "Maximum number of restarts of a degenerate run."
    )
    layerwise_lr_decay: float = setting(
        1.0,
        "Learning-rate multiplier from one level of the model to the level "
        "below it: head, layer groups, projection, embeddings.",
    )
    freeze_embeddings: bool = setting(
        False, "Keep the embeddings at their initial values."
    )
    cached_dir: str | None = setting(
        None,
        "Directory of the cached records, which are reused only if the same "
        "settings and examples made them; cache/ in --output_dir by default.",
    )
    # What the weights depend on besides these settings and the records.
    task_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # A pretrained checkpoint lacks the head of the task.
    allow_new_heads: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_sequence_length(self.max_seq_length)
        for name in ("predict_batch_size", "num_seeds"):
            checks.check_integer(name, getattr(self, name), at_least=1)
        for name in ("early_stopping_patience", "max_restarts"):
            checks.check_integer(name, getattr(self, name))
        checks.check_choice("on_collapse", self.on_collapse, ON_COLLAPSE)
        checks.check_number(
            "layerwise_lr_decay", self.layerwise_lr_decay, above=0, at_most=1
        )
        if not (self.do_train or self.do_eval or self.do_predict):
            raise ValueError(
                "There is nothing to do. Pass --do_train, --do_eval or "
                "--do_predict."
            )

    def output_dir_of_seed(self, seed: int) -> str:
        """Returns the output directory of one of several seeds' runs."""
        return os.path.join(self.output_dir, f"seed-{seed}")

    def seed_configs(self) -> list["FinetuningConfig"]:
        """Returns the settings of each seed's run; none if there is one run.

        Seeds are counted up from `random_seed`; each has its own directory.
        """
        if self.num_seeds == 1:
            return []
        return [
            dataclasses.replace(
                self,
                random_seed=seed,
                output_dir=self.output_dir_of_seed(seed),
                num_seeds=1,
                do_predict=False,
            )
            for seed in range(
                self.random_seed, self.random_seed + self.num_seeds
            )
        ]
