"""A head that albert_tf does not know: the number of words of a text.

All that a new head needs, from its model to its signatures. Rows have a `text`.
"""

import contextlib
import dataclasses
import json
import os

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.heads import Head
from albert_tf.features import ArraySpec
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.modeling import base, base_model, layers, losses
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.serving import model_inputs, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.settings import setting
from albert_tf.tasks import example_files, inputs, task
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.spec import (
    FinetuningSpec,
    HeadSpec,
    ServingSettings,
    TaskConfig,
)
from albert_tf.tasks.task import ExampleSet, TaskData

# The model.


@base.register
class WordCountModel(base_model.BaseModel):
    """Gives `logits`, float32 `[B, 1]`, over the pooled output."""

    default_name = "word_count_model"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            config, seed=self.seed, dtype=self.dtype_policy
        )
        self.word_count_head = layers.output_layer(self, "word_count_head", 1)
        self.build_layers()

    def call(self, inputs, training=None, seed=None, **options):
        encoded = self.albert(inputs, training=training, seed=seed, **options)
        return {"logits": self.word_count_head(encoded["pooled_output"])}


WORD_COUNT = Head(
    name="word_count",
    make_model=lambda config, stored, **arguments: WordCountModel(
        config, **arguments
    ),
    groups=frozenset({"word_count_head"}),
)


# Examples, records, scores, answers.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """One text."""

    guid: str
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordCountData(TaskData):
    """Numbers of words, in units of `most_words`."""

    name = "words"
    primary_metric = "within_one"
    is_regression = True

    tokenizer: object
    max_seq_length: int
    most_words: int

    @property
    def array_specs(self):
        pad_id = self.tokenizer.special_ids.pad
        counts = ArraySpec(name="label_ids", dtype="float32")
        return (*task.encoder_specs(pad_id), counts)

    @property
    def settings(self):
        return {
            "task": self.name,
            "max_seq_length": self.max_seq_length,
            "most_words": self.most_words,
            "tokenizer": self.tokenizer.fingerprint,
        }

    def records(self, examples, *, is_training):
        for one in examples:
            ids = self.tokenizer.encode(one.text)
            record = task.pair_record(self, ids)
            count = np.float32(len(one.text.split()) / self.most_words)
            yield record | {"label_ids": count}

    def scores(self, examples, outputs):
        found = self._counts(outputs)
        return Scores(entries=tuple(self._scores(examples, found)))

    def baselines(self, examples, start_outputs=None):
        middle = np.median([len(one.text.split()) for one in examples])
        return {s.key: s.value for s in self._scores(examples, middle)}

    def _scores(self, examples, found):
        errors = np.abs(found - [len(one.text.split()) for one in examples])
        yield Score("within_one", float(np.mean(errors <= 1)))
        yield Score("mean_error", float(np.mean(errors)), Role.ERROR)

    def _counts(self, outputs):
        return np.asarray(outputs["logits"])[:, 0] * self.most_words

    @contextlib.contextmanager
    def open_predictions(self, output_dir, scores):
        path = os.path.join(output_dir, "predictions.jsonl")
        with files.atomic_write(path) as file:

            def write(examples, outputs):
                for answer in self.answers(examples, outputs):
                    file.write(f"{json.dumps(answer)}\n".encode())

            yield write

    def answers(self, examples, outputs):
        for count in self._counts(outputs):
            yield {"num_words": float(count)}


class WordCountTask(MeanLossTask):
    """The model half: squared errors."""

    accuracies = {}

    def __init__(self, config, **arguments):
        self.model = WordCountModel(config, **arguments)

    def _measure(self, outputs, batch, weights):
        return losses.regression_sums(
            outputs["logits"], batch["label_ids"], weights
        )


# What is done with the head.


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordCountSettings(ServingSettings):
    """The settings of an export."""

    as_trained = ("most_words",)

    most_words: int = setting(20, "The largest number of words.")

    def answer_settings(self):
        return super().answer_settings() | {"most_words": self.most_words}


class WordCountSpec(HeadSpec):
    """What is done with the head `word_count`."""

    head = WORD_COUNT
    serving_settings = WordCountSettings

    def example(self, position, item):
        return Words(guid=str(position), text=inputs.text(position, item))

    def answer_data(self, source, model, settings):
        return WordCountData(
            tokenizer=source.tokenizer,
            max_seq_length=settings["max_seq_length"],
            most_words=settings.get("most_words", WordCountSettings.most_words),
        )

    def make_signatures(self, exported):
        encode = ExportedEncoder(exported.model.albert, exported.weights)

        def from_ids(**ids):
            with exported.weights.scope():
                numbers = exported.model.word_count_head(encode.pooled(**ids))
            return {"logits": numbers}

        def from_text(text):
            ids = model_inputs.encode_pairs(
                text,
                tf.fill(tf.shape(text), ""),
                exported.tokenizer,
                max_seq_length=exported.settings.max_seq_length,
            )
            numbers = from_ids(**ids)["logits"][:, 0]
            return {"num_words": numbers * exported.settings.most_words}

        return signature.text_and_token_signatures(
            from_text, from_ids, example={"text": "A first text."}
        )


# What is fine-tuned.


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordCountConfig(TaskConfig):
    """The settings of the task."""

    name = "words"

    most_words: int = setting(
        20, "The largest number of words.", affects_training=True
    )


def _read_sets(config, request):
    data = WordCountData(
        tokenizer=request.tokenizer,
        max_seq_length=request.max_seq_length,
        most_words=config.most_words,
    )
    sets = {}
    for use in request.uses:
        rows = example_files.read_objects(request.given_examples[use])
        examples = [
            Words(guid=str(line), text=row["text"]) for line, row in rows
        ]
        sets[use] = [ExampleSet(examples=examples, data=data)]
    return task.sets_by_use(sets)


FINETUNING = FinetuningSpec(
    task_names=("words",),
    config_class=WordCountConfig,
    defaults={"learning_rate": 1e-2, "num_train_steps": 4},
    read_sets=_read_sets,
    make_task=lambda config, sets: WordCountTask,
    head_spec=lambda config: WordCountSpec(),
    predict_arguments=lambda _: '"a text"',
)
