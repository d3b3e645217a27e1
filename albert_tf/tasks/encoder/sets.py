"""The flags of similarity, and the pairs of texts that they name.

Data flow: flags -> [this file] -> sets -> run. Slow imports come after them.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

from albert_tf import checks
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.settings import SettingValues, setting
from albert_tf.tasks import held_out, labelled_texts, task_data
from albert_tf.tasks.encoder.spec import EncoderSpec
from albert_tf.tasks.held_out import FileFlags
from albert_tf.tasks.labelled_texts import ClassificationExample, Columns
from albert_tf.tasks.spec import DataRequest, FinetuningSpec
from albert_tf.tasks.task import MakeTask
from albert_tf.tasks.task_data import ExampleSet, Sets


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimilarityConfig(FileFlags):
    """The flags of similarity."""

    name = "similarity"
    is_table = True

    text_columns: tuple[str, ...] = setting(
        (),
        "Columns of the two texts of a pair. Without --label_column, a third "
        "one may have a text to train on that does not belong to the first.",
    )
    label_column: str | None = setting(
        None,
        "Column of numbers, the higher, the more similar. Without it, the "
        "texts of each row belong together, and those of other rows do not.",
    )
    pooling: str = setting(
        "mean",
        "The vector of a text: mean, of its tokens, or cls, that of [CLS]. "
        "By default, that of the start, if that was trained for vectors.",
        choices=("mean", "cls"),
    )
    normalize: bool = setting(
        False,
        "Whether the vectors that the model then gives have the length 1; "
        "similarities are the same. By default, likewise.",
    )
    loss: str = setting(
        "cosent",
        "With --label_column: cosent, which sorts the pairs of a batch by "
        "their cosines, or cosine, the squared error of the cosine. Without, "
        "it is the softmax over the second texts of a batch.",
        choices=("cosent", "cosine"),
        affects_training=True,
    )
    temperature: float = setting(
        0.05,
        "What cosent and softmax divide cosines by. Both compare the rows of "
        "a batch on all devices; with --gradient_accumulation_steps, those of "
        "a micro-batch.",
        affects_training=True,
        above=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        most = 2 if self.label_column else 3
        if not 2 <= len(self.text_columns) <= most:
            raise ValueError(
                "--text_columns must name the two columns of a pair, and "
                "without --label_column perhaps a third one. Received: "
                f"{checks.listed(self.text_columns)}."
            )


def read_sets(
    config: SimilarityConfig, request: DataRequest
) -> Sets[ExampleSet]:
    """Reads the pairs of a run, and checks that they can be used."""
    from albert_tf.tasks.encoder.data import SimilarityData

    def read(use: str) -> list[ClassificationExample]:
        path = held_out.find(config, request, use)
        columns = Columns(
            texts=config.text_columns[: 3 if use == "train" else 2],
            label=None if use == "predict" else config.label_column,
        )
        return labelled_texts.read_examples(path, columns, labels=())

    examples, validation = held_out.read(
        config,
        request,
        read,
        texts=SimilarityData.texts_of,
        # Before the first release, a pair was held out without its mirror.
        old_texts=held_out.both_texts,
    )
    if config.label_column:
        for use, rows in examples.items():
            labelled_texts.check_rows(use, rows, labels=())
    else:
        for use, rows in examples.items():
            labelled_texts.check_texts(use, rows)
        if "train" in examples:
            _check_answers(examples["train"])
    if "predict" in request.uses:
        examples["predict"] = read("predict")
    is_cosine = config.label_column and config.loss == "cosine"
    if is_cosine and "train" in request.uses:
        examples["train"] = _as_cosines(examples["train"])
    data = SimilarityData(
        tokenizer=request.tokenizer,
        max_seq_length=request.max_seq_length,
        pooling=config.pooling,
        normalizes=config.normalize,
        has_scores=bool(config.label_column),
        validation=validation,
    )
    sets = task_data.one_set_each(examples, data)
    if not sets.train:
        return sets
    data = dataclasses.replace(data, num_texts=len(config.text_columns))
    return dataclasses.replace(
        sets, train=dataclasses.replace(sets.train, data=data)
    )


def _check_answers(pairs: Sequence[ClassificationExample]) -> None:
    texts = ((pair.text_a, pair.text_b, pair.text_c) for pair in pairs)
    if len({*itertools.chain(*texts)} - {""}) < 3:
        raise ValueError(
            f"The rows to train on ({len(pairs)}) have no wrong answers, which "
            "are the second texts of other rows. Pass more rows."
        )


def _as_cosines(
    pairs: Sequence[ClassificationExample],
) -> list[ClassificationExample]:
    """Returns pairs whose labels are 0 to 1, the lowest to the highest."""
    labels: list[Any] = [pair.label for pair in pairs]
    low, span = min(labels), (max(labels) - min(labels)) or 1.0
    return [
        dataclasses.replace(pair, label=(label - low) / span)
        for pair, label in zip(pairs, labels, strict=True)
    ]


def make_task(config: SimilarityConfig, sets: Sets[ExampleSet]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.encoder.model import SimilarityTask

    data: Any = sets.data
    return functools.partial(
        SimilarityTask,
        data=data,
        loss=config.loss if config.label_column else "softmax",
        temperature=config.temperature,
    )


def _settings_of_vectors(weights: Checkpoint) -> SettingValues:
    """Returns the flags of the vectors that weights were trained for."""
    names = {"pooling": "pooling", "normalize": "normalizes"}
    trained = weights.settings
    return {f: trained[name] for f, name in names.items() if name in trained}


FINETUNING = FinetuningSpec(
    task_names=("similarity",),
    config_class=SimilarityConfig,
    defaults={"learning_rate": 5e-5, "train_batch_size": 32},
    read_sets=read_sets,
    make_task=make_task,
    head_spec=lambda _: EncoderSpec(),
    predict_arguments=lambda _: '"TEXT"  # or < texts, one a line',
    settings_of_weights=_settings_of_vectors,
    settings_of_start=_settings_of_vectors,
)
