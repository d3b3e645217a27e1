"""What is done with a head: one record for each, and the table of them.

Whatever depends on the head of a model asks its record: `load_predictor`, the
evaluation of a run, exports. A new head is a room of this folder with such a
record, and a row in `TASKS`; or a record that is passed as `head`.

Plain Python: a room imports its slow parts where they are used.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.heads import Head
from albert_tf.tasks.task import (
    AnswerData,
    AnswerTask,
    ExampleSet,
    ModelOutputs,
)

if TYPE_CHECKING:
    import keras

    from albert_tf.serving.exported_encoder import ExportedWeights
    from albert_tf.serving.graph_tokenizer import GraphTokenizer
    from albert_tf.serving.signature import Signature


class TaskSpec(abc.ABC):
    """What is done with a head: texts, answers, signatures."""

    head: ClassVar[Head]
    # The longest sequence of raw text, unless a fine-tuning determined it.
    max_seq_length: ClassVar[int] = 512

    # Whether it is the settings of a fine-tuning that a checkpoint with this
    # head has.
    is_finetuned: ClassVar[bool] = True

    # Answers, as `load_predictor` gives them.

    # Names of the outputs of the model whose second axis is the sequence.
    sequence_outputs: ClassVar[frozenset[str]] = frozenset()

    @abc.abstractmethod
    def example(self, position: int, item: Any) -> Any:
        """Returns an input of `Predictor.predict` as an example.

        `position` is which of the inputs it is.
        """

    @abc.abstractmethod
    def answer_data(
        self, source: Checkpoint, model: Any, settings: Mapping[str, Any]
    ) -> AnswerData:
        """Returns the data half that answers texts.

        Args:
            source: The checkpoint or export, with its vocabulary.
            model: The model of this head, or the export in its place.
            settings: Those of its fine-tuning, with `max_seq_length`, and
                options of `load_predictor`.
        """

    def answer_task(self, data: Any, model: Any) -> AnswerTask:
        """Returns the model half, with a model that has its weights."""
        return ModelOutputs(model, self.sequence_outputs)

    def example_set(self, data: Any, examples: Sequence[Any]) -> ExampleSet:
        """Returns examples with the data half that makes their records."""
        return ExampleSet(examples=examples, data=data)

    # Served.

    # Dataclass of the settings of an export that this head alone has.
    serving_settings: ClassVar[type]
    # Rows of one run of a served model.
    served_batch_size: ClassVar[int] = 32
    # Whether a server may join the outputs of several requests.
    joins_outputs: ClassVar[bool] = True

    def make_signatures(
        self,
        settings: Any,
        source: Checkpoint,
        model: "keras.Model",
        weights: "ExportedWeights",
        tokenizer: "GraphTokenizer",
    ) -> "Sequence[Signature]":
        """Traces the signatures of an exported model.

        Args:
            settings: Of the class `serving_settings`.
            source: The checkpoint; its `metadata` say what is known of it.
            model: Its structure; the weights are `weights`.
            weights: The exported copies.
            tokenizer: Of raw text.
        """
        raise NotImplementedError(f"{self.head.name} has no signatures.")
