"""The heads of pretraining: masked words, and the order of two segments."""

from typing import Any

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.settings import SettingValues
from albert_tf.tasks.encoder.spec import EncoderSpec
from albert_tf.tasks.task import AnswerTask
from albert_tf.tasks.task_data import AnswerData


class PretrainingSpec(EncoderSpec):
    """Fills in masked words, by the head `pretraining`."""

    head = heads.PRETRAINING
    gives_vectors = False

    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> AnswerData:
        """Takes the objectives of the model."""
        from albert_tf.tasks.pretraining.data import MaskedTextData

        return MaskedTextData(
            tokenizer=checkpoint.tokenizer,
            max_seq_length=settings["max_seq_length"],
            objectives=model.objectives,
        )

    def answer_task(self, data: Any, model: Any) -> AnswerTask:
        """Computes the likeliest tokens."""
        from albert_tf.tasks.pretraining.data import LikeliestTokens

        return LikeliestTokens(model, data.tokenizer.vocab_size)

    # The masked positions are not among the ids.
    litert_head = heads.ENCODER.name
