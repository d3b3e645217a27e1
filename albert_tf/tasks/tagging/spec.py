"""The head that tags words."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.settings import SettingValues
from albert_tf.tasks import inputs
from albert_tf.tasks.spec import HeadSpec, ServingSettings
from albert_tf.tasks.task_data import AnswerData, Examples, ExampleSet


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingSettings(ServingSettings):
    """The settings of an exported token classifier; see `TaggingData`."""

    as_trained = ("words", "rules")

    words: str = "tokens"
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class TaggingSpec(HeadSpec):
    """Finds entities, by the head `token_classifier`."""

    head = heads.TOKEN_CLASSIFIER
    has_mean = True
    sequence_outputs = frozenset({"logits"})

    def example(self, position: int, item: object) -> tuple[str, Any]:
        """Takes a text, or a list of words; returns it with an id."""
        if isinstance(item, Mapping):
            name = "tokens" if "tokens" in item else "text"
            item = inputs.values_by_name(position, item, name)[name]
        if isinstance(item, Sequence) and not isinstance(item, str | bytes):
            return str(position), [inputs.text(position, w) for w in item]
        return str(position), inputs.text(position, item)

    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> AnswerData:
        """Takes the tags, unless given, from the metadata."""
        from albert_tf.tasks.tagging.data import TaggingData

        labels = checkpoint.metadata.find_labels(
            model.num_labels, settings.get("given_labels")
        )
        return TaggingData(
            tokenizer=checkpoint.tokenizer,
            max_seq_length=settings["max_seq_length"],
            labels=labels,
            words=settings.get("words", "tokens"),
            rules=settings.get("rules") or {},
        )

    def example_set(self, data: Any, examples: Examples) -> ExampleSet:
        """Finds the words of texts."""
        texts = [data.example(*example) for example in examples]
        return super().example_set(data, texts)

    serving_settings = TaggingSettings
    # Texts have different numbers of entities.
    joins_outputs = False
