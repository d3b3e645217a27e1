"""Declares a new head over the pooled output: `PooledHead`.

A subclass says how many numbers the head computes and what they mean. Model,
records, loss, scores, files, answers and signatures follow from that. The page
docs/new_head.md has an example. Slow parts are imported where they are used.
"""

import abc
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from albert_tf import checks
from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.heads import Head
from albert_tf.config import AlbertConfig
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import (
    example_files,
    head_flags,
    held_out,
    inputs,
    task_data,
)
from albert_tf.tasks.held_out import FileFlags
from albert_tf.tasks.pooled.data import (
    BINARY_CROSS_ENTROPY,
    CROSS_ENTROPY,
    LOSSES,
    OTHER,
    SQUARED_ERROR,
    PooledData,
    PooledExample,
)
from albert_tf.tasks.spec import (
    DataRequest,
    Exported,
    FinetuningSpec,
    HeadSpec,
    Signatures,
)
from albert_tf.tasks.task import MakeTask
from albert_tf.tasks.task_data import ExampleSet, Sets

if TYPE_CHECKING:
    import keras

    from albert_tf.modeling import Tensor

# The numbers of a text, `[K]`; for `cross_entropy`, the number of its class.
Label: TypeAlias = Sequence[float] | float


@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledConfig(FileFlags):
    """The settings of the fine-tuning of a `PooledHead`."""

    is_table = True

    dropout_prob: float = head_flags.dropout(
        "Dropout rate of the pooled output."
    )


class PooledHead(HeadSpec, abc.ABC):
    """Base class of a head that computes K `logits` from the pooled output.

    `albert_tf.finetune` and every argument `head` take an instance.

    Attributes:
        name: Name of the head and of its task.
        num_outputs: Number of logits, K.
        text_columns: Columns of the text, or of both texts of a pair.
        label_columns: Columns that `label` reads.
        loss: `squared_error`, for K numbers; `cross_entropy`, for one of K
            classes; `binary_cross_entropy`, for K labels, 0 or 1; or `other`,
            if the class has its own `losses` and `scores`.
        primary_metric: Key of the first of the `scores`.
    """

    name: ClassVar[str]
    num_outputs: ClassVar[int]
    text_columns: ClassVar[tuple[str, ...]] = ("text",)
    label_columns: ClassVar[tuple[str, ...]] = ()
    loss: ClassVar[str] = SQUARED_ERROR
    primary_metric: ClassVar[str]

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "name"):
            return
        _check_declaration(cls)
        if not hasattr(cls, "primary_metric"):
            is_number = cls.loss == SQUARED_ERROR
            cls.primary_metric = "pearson" if is_number else "accuracy"
        group = frozenset({f"{cls.name}_head"})
        cls.head = Head(
            name=cls.name,
            make_model=cls._make_model,
            model_class="PooledModel",
            groups=group,
            over_pooler=group,
            pipeline="other",
            command="",
        )

    @abc.abstractmethod
    def answers(self, logits: np.ndarray) -> Mapping[str, Any]:
        """Returns the answers to N texts, arrays `[N, ...]`, by their names.

        `logits` are float32 `[N, K]`: an array of NumPy, or in an export a
        tensor of TensorFlow. Operators, indices and `keras.ops` take both.
        """

    def label(self, row: Mapping[str, str]) -> Label:
        """Returns the label of a row, of the texts in its columns."""
        return [float(row[column]) for column in self.label_columns]

    def losses(self, logits: "Tensor", labels: "Tensor") -> "Tensor":
        """Returns the losses of B texts, float32 `[B]`.

        `logits` are float32 `[B, K]`; `labels` float32 `[B, K]`, or, for
        `cross_entropy`, int32 `[B]`.
        """
        from albert_tf.tasks.pooled import model

        return model.LOSSES[self.loss](logits, labels)

    def scores(self, labels: np.ndarray, logits: np.ndarray) -> Scores:
        """Returns the scores of N texts, the primary metric first."""
        from albert_tf.metrics import classification

        if self.loss == SQUARED_ERROR:
            correlate = classification.SCORES["pearson"]
            correlations = map(correlate, labels.T, logits.T)
            error = np.mean(np.square(labels - logits))
            return Scores(
                entries=(
                    Score("pearson", float(np.mean([*correlations]))),
                    Score("mean_squared_error", float(error), Role.ERROR),
                )
            )
        if self.loss == CROSS_ENTROPY:
            is_right = np.argmax(logits, axis=-1) == labels
        else:
            is_right = (logits > 0) == (labels > 0)
        return Scores(entries=(Score("accuracy", float(np.mean(is_right))),))

    # The parts of a `HeadSpec`.

    def example(self, position: int, item: object) -> PooledExample:
        """Takes one text, or two."""
        texts = inputs.one_or_two_texts(position, item)
        if bool(texts.text_b) != (len(self.text_columns) == 2):
            raise ValueError(
                f"Input {position} must be {len(self.text_columns)} texts: "
                f"{', '.join(self.text_columns)}."
            )
        return PooledExample(guid=str(position), **texts._asdict())

    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> PooledData:
        """Returns the data half."""
        return PooledData(
            head=self,
            tokenizer=checkpoint.tokenizer,
            max_seq_length=settings["max_seq_length"],
        )

    def make_signatures(self, exported: Exported) -> Signatures:
        """Traces the signatures of texts and of ids."""
        from albert_tf.tasks.pooled import signatures

        return signatures.make_signatures(exported, self)

    @classmethod
    def _make_model(
        cls, config: AlbertConfig, stored: Checkpoint, **arguments: Any
    ) -> "keras.Model":
        from albert_tf.modeling.pooled_model import PooledModel

        return PooledModel(
            config, head_name=cls.name, num_labels=cls.num_outputs, **arguments
        )

    # The fine-tuning.

    @property
    def finetuning(self) -> FinetuningSpec:
        """The fine-tuning of the head, with the settings `PooledConfig`."""
        num_texts = len(self.text_columns)
        return FinetuningSpec(
            task_names=(self.name,),
            config_class=type("Config", (PooledConfig,), {"name": self.name}),
            defaults={"learning_rate": 5e-5, "train_batch_size": 32},
            read_sets=self._read_sets,
            make_task=self._make_task,
            head_spec=lambda _: self,
            predict_arguments=lambda _: " ".join(['"TEXT"'] * num_texts),
        )

    def _make_task(
        self, config: PooledConfig, sets: Sets[ExampleSet]
    ) -> MakeTask:
        from albert_tf.tasks.pooled.model import PooledTask

        self._check_answers()
        return functools.partial(
            PooledTask, head=self, dropout_prob=config.dropout_prob
        )

    def _read_sets(
        self, config: PooledConfig, request: DataRequest
    ) -> Sets[ExampleSet]:
        def read(use: str) -> list[PooledExample]:
            return self._read(held_out.find(config, request, use), use)

        examples, validation = held_out.read(config, request, read)
        if "predict" in request.uses:
            examples["predict"] = read("predict")
        data = PooledData(
            head=self,
            tokenizer=request.tokenizer,
            max_seq_length=request.max_seq_length,
            validation=validation,
        )
        return task_data.one_set_each(examples, data)

    def _read(
        self, path: example_files.Source, use: str
    ) -> list[PooledExample]:
        """Reads the rows of a file, with their labels unless to predict."""
        columns = self.text_columns
        if use != "predict":
            columns += self.label_columns
        examples = []
        for line, cells in example_files.read_rows(path, columns):
            text_a, text_b, *_ = *cells[: len(self.text_columns)], ""
            label = None
            if use != "predict":
                row = dict(zip(columns, cells, strict=True))
                label = self._checked_label(row, f"{path}, line {line}")
            examples.append(
                PooledExample(
                    guid=str(line), text_a=text_a, text_b=text_b, label=label
                )
            )
        example_files.check_ids([each.guid for each in examples], str(path))
        return examples

    def _checked_label(self, row: Mapping[str, str], where: str) -> np.ndarray:
        try:
            label = np.array(self.label(row), np.float32)
        except Exception as error:  # Of the user's method.
            raise ValueError(
                f"{where}: no label ({type(error).__name__}: {error})."
            ) from error
        if self.loss == CROSS_ENTROPY:
            wanted = f"the number of a class, 0 to {self.num_outputs - 1}"
            is_known = label.size == 1 and label.item() in range(
                self.num_outputs
            )
        else:
            label, wanted = np.atleast_1d(label), f"{self.num_outputs} numbers"
            is_known = label.shape == (self.num_outputs,)
            is_known = is_known and bool(np.isfinite(label).all())
        if self.loss == BINARY_CROSS_ENTROPY:
            wanted += " from 0 to 1"
            is_known = is_known and 0 <= label.min() <= label.max() <= 1
        if not is_known:
            raise ValueError(
                f"{where}: the label must be {wanted}. Received: "
                f"{label.tolist()}."
            )
        return label.reshape(()) if self.loss == CROSS_ENTROPY else label

    def _check_answers(self) -> None:
        """Checks, before a training, the answers to two texts."""
        answers = self.answers(np.zeros((2, self.num_outputs), np.float32))
        if not isinstance(answers, Mapping) or any(
            np.shape(column)[:1] != (2,) for column in answers.values()
        ):
            raise ValueError(
                f"`answers` of the head {self.name} must return a dict of "
                f"arrays with a row for each text. Received: {answers!r}."
            )


def _check_declaration(cls: type[PooledHead]) -> None:
    """Checks the attributes of a head."""
    if cls.name in heads.HEADS or not cls.name.isidentifier():
        raise ValueError(
            "The `name` of a head must be a word of letters, digits and "
            f"underscores that no other head has. Received: {cls.name!r}."
        )
    checks.check_choice("loss", cls.loss, LOSSES)
    if getattr(cls, "num_outputs", 0) < 1:
        raise ValueError(
            f"The head {cls.name} must have `num_outputs`, 1 or more."
        )
    for columns in ("text_columns", "label_columns"):
        if isinstance(getattr(cls, columns), str):
            raise ValueError(
                f"`{columns}` of the head {cls.name} must be a tuple of names. "
                f"Received: {getattr(cls, columns)!r}."
            )
    methods = ("losses", "scores")
    if cls.loss == OTHER and any(
        getattr(cls, method) is getattr(PooledHead, method)
        for method in methods
    ):
        raise ValueError(
            f"The head {cls.name} with loss='other' must have the methods "
            f"{checks.listed(methods)}."
        )
