"""Settings of a fine-tuning run, checked when they are made.

Floor: training. Plain Python, so that a script can report a bad flag before
TensorFlow is imported.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.task_data import Examples, TaskData
from albert_tf.training import options
from albert_tf.training.options import TrainingConfig

if TYPE_CHECKING:
    from albert_tf.tasks.finetuning import MakeTask

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
            options.check_at_least(1, name, getattr(self, name))
        for name in ("early_stopping_patience", "max_restarts"):
            options.check_at_least(0, name, getattr(self, name))
        options.check_choice("on_collapse", self.on_collapse, ON_COLLAPSE)
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
                f"The vocabulary has {vocab_size} pieces, the config has "
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
