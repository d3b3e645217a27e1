"""Settings of a training run, checked when they are made.

Floor: training. Plain Python, so that a script can report a bad flag before
TensorFlow is imported.

Settings of a fine-tuning run, checked when they are made.

Floor: training. Plain Python, so that a script can report a bad flag before
TensorFlow is imported.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.task import Examples, TaskData

if TYPE_CHECKING:
    from albert_tf.tasks.task import MakeTask


STRATEGIES = ("auto", "one", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "bfloat16", "float16")
ON_DIVERGENCE = ("stop", "rollback")
# Other seeds of the same run are counted up from it; keys have 32 bits.
LARGEST_SEED = 2**31 - 1
# The score that the best checkpoint is chosen by, as in the reference.
BEST_KEYS = {"mlm": "masked_lm_accuracy", "sop": "sentence_order_accuracy"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuAddress:
    """Which TPU to connect to, for the strategy `tpu`.

    Args:
        name: Its name or address; None for this machine's own.
        zone: Its zone; None for that of this machine.
        project: Its project; None for that of this machine.
        num_cores: Cores that it must have; None for any.
    """

    name: str | None = None
    zone: str | None = None
    project: str | None = None
    num_cores: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a run trains; what it trains is the task's affair.

    Args:
        train_batch_size: Examples of one step over all replicas.
        eval_batch_size: Examples of one evaluation batch, likewise.
        num_train_steps: Updates of the whole run.
        gradient_accumulation_steps: Parts that each replica's batch is
            computed in, one after the other; the result is the same.
        save_checkpoints_steps: Updates between two checkpoints.
        keep_checkpoint_max: Checkpoints to keep, the newest.
        log_steps: Updates that one line of `metrics.jsonl` covers.
        steps_per_loop: Updates in one call of the graph at most; 0 lets the
            device decide.
        strategy: One of `STRATEGIES`.
        tpu: Which TPU to connect to.
        precision: One of `PRECISIONS`; weights are always float32.
        jit_compile: Whether XLA compiles the forward and backward pass.
        random_seed: For weights, order of examples, masks and dropout.
        deterministic: Whether operations must give the same bits each time.
        on_divergence: `stop`, or `rollback` to the last checkpoint, skip the
            batches since, and go on at half the rate.

    Raises:
        ValueError: A value is impossible; the message names it.
    """

    train_batch_size: int = 4096
    eval_batch_size: int = 64
    num_train_steps: int = 125000
    gradient_accumulation_steps: int = 1
    save_checkpoints_steps: int = 5000
    keep_checkpoint_max: int = 5
    log_steps: int = 100
    steps_per_loop: int = 0
    strategy: str = "auto"
    tpu: TpuAddress = TpuAddress()
    precision: str = "float32"
    jit_compile: bool = False
    random_seed: int = 12345
    deterministic: bool = False
    on_divergence: str = "stop"

    def __post_init__(self) -> None:
        for name in (
            "train_batch_size",
            "eval_batch_size",
            "num_train_steps",
            "gradient_accumulation_steps",
            "save_checkpoints_steps",
            "keep_checkpoint_max",
            "log_steps",
        ):
            check_at_least(1, name, getattr(self, name))
        check_at_least(0, "steps_per_loop", self.steps_per_loop)
        check_at_least(0, "random_seed", self.random_seed)
        if self.random_seed > LARGEST_SEED:
            raise ValueError(
                f"`random_seed` must be at most {LARGEST_SEED}. Received: "
                f"random_seed={self.random_seed}."
            )
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("on_divergence", self.on_divergence, ON_DIVERGENCE)

    @property
    def dtype_policy(self) -> str:
        """The Keras dtype policy of `precision`."""
        if self.precision == "float32":
            return "float32"
        return f"mixed_{self.precision}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingRun:
    """What to pretrain, on what, and where to put it.

    Args:
        config: Shape of the model.
        training: How to train and evaluate.
        optimizer: Update rule and rate; its `num_train_steps` is the run's.
        output_dir: Folder of the run.
        input_files: Globs of the records to train on; empty not to train.
        eval_files: Globs of the records to evaluate on; empty for none.
        max_seq_length: S, which the records must have.
        max_predictions_per_seq: Masked positions the records must have room
            for (twice as many if they were made with permutation).
        max_eval_steps: Batches of `eval_files` at most.
        objectives: `mlm`, `sop` or both.
        init_checkpoint: Weights to start from; None for random ones. Slots
            and step start anew.
        init_from_group0: Whether every group of layers takes the weights of
            the checkpoint's first group.
        allow_new_heads: Whether heads that the checkpoint lacks start anew.
        flags_text: Written to `flags.txt`.

    Raises:
        ValueError: Two values contradict each other.
    """

    config: AlbertConfig
    training: TrainingConfig
    optimizer: OptimizerConfig
    output_dir: str
    input_files: str = ""
    eval_files: str = ""
    max_seq_length: int = 512
    max_predictions_per_seq: int = 20
    max_eval_steps: int = 100
    objectives: Sequence[str] = ("mlm", "sop")
    init_checkpoint: str | None = None
    init_from_group0: bool = False
    allow_new_heads: bool = False
    flags_text: str = ""

    def __post_init__(self) -> None:
        names = set(self.objectives)
        is_known = names and names <= set(BEST_KEYS)
        if not is_known or len(names) < len(self.objectives):
            raise ValueError(
                f"`objectives` must be one or more of {', '.join(BEST_KEYS)}, "
                f"each once. Received: objectives={','.join(self.objectives)}."
            )
        for name in (
            "max_seq_length",
            "max_predictions_per_seq",
            "max_eval_steps",
        ):
            check_at_least(1, name, getattr(self, name))
        if self.init_from_group0 and not self.init_checkpoint:
            raise ValueError(
                "`init_from_group0` says how to read `init_checkpoint`, and "
                "none is given. Pass one, or leave it out."
            )
        longest = self.config.max_position_embeddings
        if self.max_seq_length > longest:
            raise ValueError(
                f"`max_seq_length` must not exceed the {longest} position "
                "embeddings of the config. Received: "
                f"max_seq_length={self.max_seq_length}."
            )
        if not self.input_files and not self.eval_files:
            raise ValueError(
                "There is nothing to do: pass --input_file to train, "
                "--eval_file to evaluate."
            )
        if self.training.num_train_steps != self.optimizer.num_train_steps:
            raise ValueError(
                "`num_train_steps` must be the same for the training and for "
                "the optimizer, whose rate falls to 0 over them. Received: "
                f"{self.training.num_train_steps} and "
                f"{self.optimizer.num_train_steps}."
            )


def per_replica_batch_size(
    name: str, batch_size: int, *, num_replicas: int, num_parts: int = 1
) -> int:
    """Returns how many examples one replica computes at a time.

    >>> per_replica_batch_size("train_batch_size", 64, num_replicas=4)
    16

    Raises:
        ValueError: Replicas and parts do not divide `batch_size`.
    """
    size, rest = divmod(batch_size, num_replicas * num_parts)
    if rest or not size:
        raise ValueError(
            f"`{name}` must be a multiple of replicas times accumulation "
            f"steps ({num_replicas} x {num_parts}), because each takes an "
            f"equal part. Received: {name}={batch_size}."
        )
    return size


def check_at_least(least: int, name: str, value: int) -> None:
    """Raises ValueError if a setting is below the least it may be."""
    if value < least:
        raise ValueError(
            f"`{name}` must be at least {least}. Received: {name}={value}."
        )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError if a setting is none of its choices."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(choices)}. "
            f"Received: {name}={value!r}."
        )


ON_COLLAPSE = ("restart", "ignore")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningConfig:
    """What fine-tuning has beside a `TrainingConfig`.

    Args:
        max_seq_length: S, which no record exceeds.
        predict_batch_size: Records of that length in a batch of predictions;
            shorter ones come in larger batches.
        early_stopping_patience: Evaluations without a better score after
            which training ends; 0 never ends it early.
        num_seeds: Runs with seeds of their own, in `seed-*/`.
        on_collapse: What becomes of a run that predicts the same for all
            records, or whose loss never leaves its start: `restart` with
            another seed and a longer warm-up, or `ignore`.
        max_restarts: Restarts of one run at most.
        layerwise_lr_decay: Factor of the learning rate from one level of the
            model to the one below, see `layer_rates`; 1 for no decay.
        freeze_embeddings: Whether the embeddings keep their weights.
        cached_dir: Folder for the records; None for the run's own.

    Raises:
        ValueError: A value is impossible; the message names it.
    """

    max_seq_length: int = 512
    predict_batch_size: int = 8
    early_stopping_patience: int = 0
    num_seeds: int = 1
    on_collapse: str = "restart"
    max_restarts: int = 3
    layerwise_lr_decay: float = 1.0
    freeze_embeddings: bool = False
    cached_dir: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_seq_length", "predict_batch_size", "num_seeds"):
            check_at_least(1, name, getattr(self, name))
        for name in ("early_stopping_patience", "max_restarts"):
            check_at_least(0, name, getattr(self, name))
        check_choice("on_collapse", self.on_collapse, ON_COLLAPSE)
        if not 0 < self.layerwise_lr_decay <= 1:
            raise ValueError(
                "`layerwise_lr_decay` must be above 0 and at most 1. "
                f"Received: layerwise_lr_decay={self.layerwise_lr_decay}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSet:
    """Examples that are trained on, evaluated or predicted together.

    Args:
        examples: The task's own.
        is_stored: Whether their records are kept in `cached_dir`.
        name: Of an evaluation set beside the first one, which is unnamed:
            its scores get `_<name>` behind their keys. Of a prediction set:
            the folder below `output_dir` for its files, "" for that itself.
        data: Makes and scores these records; None for the job's.
    """

    examples: Examples
    is_stored: bool = False
    name: str = ""
    data: TaskData | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningJob:
    """What to fine-tune, on what, and where to put it.

    Args:
        config: Shape of the model.
        training: How to train and evaluate.
        finetuning: What fine-tuning has beside that.
        optimizer: Update rule and rate; its `num_train_steps` is the run's.
        data: The task's NumPy half.
        make_task: Makes the task's TensorFlow half.
        output_dir: Folder of the run.
        train_set: Examples to train on; None not to train.
        eval_sets: Labelled examples to evaluate on; the first gives the score
            by which the best weights are chosen.
        predict_sets: Examples to write predictions of.
        init_checkpoint: Weights to start from; None for random ones. Heads
            that it lacks start at random.
        flags_text: Written to `flags.txt`.

    Raises:
        ValueError: Two values contradict each other.
    """

    config: AlbertConfig
    training: TrainingConfig
    finetuning: FinetuningConfig
    optimizer: OptimizerConfig
    data: TaskData
    make_task: "MakeTask"
    output_dir: str
    train_set: ExampleSet | None = None
    eval_sets: Sequence[ExampleSet] = ()
    predict_sets: Sequence[ExampleSet] = ()
    init_checkpoint: str | None = None
    flags_text: str = ""

    def __post_init__(self) -> None:
        if not (self.train_set or self.eval_sets or self.predict_sets):
            raise ValueError(
                "There is nothing to do: pass --do_train, --do_eval or "
                "--do_predict."
            )
        self._check_lengths()
        self._check_vocabulary()
        self._check_sets()
        if self.training.num_train_steps != self.optimizer.num_train_steps:
            raise ValueError(
                "`num_train_steps` must be the same for the training and for "
                "the optimizer, whose rate falls to 0 over them. Received: "
                f"{self.training.num_train_steps} and "
                f"{self.optimizer.num_train_steps}."
            )

    def _check_lengths(self) -> None:
        longest = self.config.max_position_embeddings
        if self.finetuning.max_seq_length > longest:
            raise ValueError(
                f"`max_seq_length` must not exceed the {longest} position "
                "embeddings of the config. Received: "
                f"max_seq_length={self.finetuning.max_seq_length}."
            )

    def _check_vocabulary(self) -> None:
        vocab_size = self.data.vocab_size
        if vocab_size != self.config.vocab_size:
            raise ValueError(
                f"The vocabulary has {vocab_size} tokens, the config has "
                f"vocab_size={self.config.vocab_size}. Pass the vocabulary and "
                "the --albert_config_file of one checkpoint."
            )

    def _check_sets(self) -> None:
        for kind in (self.eval_sets, self.predict_sets):
            names = [one.name for one in kind]
            if len(set(names)) < len(names):
                raise ValueError(
                    "The sets to evaluate, and those to predict, must have "
                    f"different names. Received: {', '.join(map(repr, names))}."
                )
        if self.eval_sets and self.eval_sets[0].name:
            raise ValueError(
                "The first evaluation set must have the name '', because its "
                "scores have no suffix. Received: "
                f"name={self.eval_sets[0].name!r}."
            )
        patience = self.finetuning.early_stopping_patience
        if patience and self.train_set and not self.eval_sets:
            raise ValueError(
                "`early_stopping_patience` counts evaluations, and there is no "
                f"set to evaluate. Received: early_stopping_patience={patience}"
                ". Pass --do_eval."
            )
        if self.finetuning.num_seeds > 1 and not (
            self.train_set and self.eval_sets
        ):
            raise ValueError(
                "`num_seeds` above 1 needs training and evaluation, by which "
                "the best seed is chosen. Received: num_seeds="
                f"{self.finetuning.num_seeds}. Pass --do_train and --do_eval."
            )
