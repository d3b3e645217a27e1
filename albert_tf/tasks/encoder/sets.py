"""The flags of similarity, and the pairs of texts that they name.

Data flow: flags -> [this file] -> sets -> run. Slow imports come after them.
"""

import dataclasses
import functools
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import checks
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.settings import check_choices, setting
from albert_tf.tasks import example_files, task
from albert_tf.tasks.encoder.spec import EncoderSpec
from albert_tf.tasks.example_files import RowsInMemory
from albert_tf.tasks.held_out import HoldOutFlags
from albert_tf.tasks.spec import FinetuningSpec
from albert_tf.tasks.task import ExampleSet, MakeTask, Sets
from albert_tf.text.tokenizer import Tokenizer

_LOGGER = logging.getLogger(__name__)

_STS_B = "sts-b"
_FORMATS = "a table (.tsv, .csv or .jsonl)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimilarityConfig(HoldOutFlags):
    """The flags of similarity."""

    name = "similarity"
    is_table = True

    task_name: str = setting(
        "similarity",
        "The task: similarity, files of your own; or sts-b, GLUE's set.",
        choices=("similarity", _STS_B),
    )
    data_dir: str | None = setting(
        None, "With --task_name=sts-b: directory that holds STS-B/."
    )
    train_file: str | None = setting(
        None, f"Pairs to train on: {_FORMATS} with a pair of texts in each row."
    )
    eval_file: str | None = setting(None, f"Pairs to evaluate: {_FORMATS}.")
    predict_file: str | None = setting(
        None, f"Pairs whose similarity is predicted: {_FORMATS}."
    )
    text_columns: tuple[str, ...] = setting(
        (),
        "Columns of the two texts of a pair. Without --label_column, a third "
        "one may have a text that does not belong to the first.",
    )
    label_column: str | None = setting(
        None,
        "Column of numbers, the higher, the more similar. Without it, the "
        "texts of each row belong together, and those of other rows do not.",
    )
    pooling: str | None = setting(
        None,
        "The vector of a text: mean, of its tokens, or cls, that of [CLS]. "
        "Default: as the weights in use were trained, or mean.",
        choices=("mean", "cls"),
    )
    normalize: bool | None = setting(
        None,
        "Whether the vectors that the model then gives have the length 1; "
        "similarities are the same. Default: as trained, or false.",
    )
    loss: str | None = setting(
        None,
        "With --label_column: cosent, which sorts the pairs of a batch by "
        "their cosines, or cosine, the squared error of the cosine. Without: "
        "softmax over the second texts of a batch. Default: cosent or softmax.",
        choices=("cosent", "cosine", "softmax"),
        affects_training=True,
    )
    temperature: float = setting(
        0.05,
        "What cosent and softmax divide cosines by. Both compare the rows of "
        "a batch on all devices; with --gradient_accumulation_steps, those of "
        "a micro-batch.",
        affects_training=True,
    )

    def __post_init__(self) -> None:
        HoldOutFlags.__post_init__(self)
        check_choices(self)
        checks.check_number("temperature", self.temperature, above=0)
        texts, label = self.columns
        if len(texts) not in ((2,) if label else (2, 3)):
            raise ValueError(
                "--text_columns must name the two columns of a pair, and "
                "without --label_column perhaps a third one. Received: "
                f"text_columns={','.join(texts)}, label_column={label}."
            )
        fits = ("cosent", "cosine") if label else ("softmax",)
        checks.check_choice("loss", self.used_loss, fits)

    @property
    def columns(self) -> tuple[tuple[str, ...], str | None]:
        """The columns of the texts, and that of the score."""
        if self.task_name == _STS_B and not self.text_columns:
            return ("sentence1", "sentence2"), self.label_column or "score"
        return self.text_columns, self.label_column

    @property
    def used_loss(self) -> str:
        """The loss, or its default."""
        return self.loss or ("cosent" if self.columns[1] else "softmax")


def read_sets(
    config: SimilarityConfig,
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    weights: Checkpoint = task.NO_WEIGHTS,
    given_examples: Mapping[str, RowsInMemory] = {},
) -> Sets[Any]:
    """Reads the pairs of a run, and checks that they can be used."""
    from albert_tf.tasks.encoder.data import SimilarityData

    how: dict[str, Any] = {
        "pooling": config.pooling,
        "normalizes": config.normalize,
    }
    if "train" not in uses:
        trained = weights.settings
        config.check_unseen(config.name, trained)
        how = {n: trained.get(n) if x is None else x for n, x in how.items()}
    examples, validation = _read(config, uses, weights, given_examples)
    texts, label = config.columns
    data: Any = SimilarityData(
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        has_scores=bool(label),
        text_columns=texts,
        validation=validation,
        **{name: value for name, value in how.items() if value is not None},
    )
    of_use = {use: data for use in examples}
    if "train" in examples:
        span = 0.0, 1.0
        if config.loss == "cosine":
            scores = [row.label for row in examples["train"]]
            span = min(scores), max(scores)
            text = "The scores %g to %g are taken for cosines of 0 to 1."
            _LOGGER.info(text, *span)
        of_use["train"] = dataclasses.replace(
            data, num_texts=len(texts), score_range=span
        )
    return task.sets_by_use(
        {
            use: [ExampleSet(examples=rows, data=of_use[use])]
            for use, rows in examples.items()
        }
    )


def _read(
    config: SimilarityConfig,
    uses: Sequence[str],
    weights: Checkpoint,
    given_examples: Mapping[str, RowsInMemory],
) -> tuple[dict[str, Any], list[Any] | None]:
    """Returns the pairs by use, and what is kept of those held out."""

    def read(use: str) -> list[Any]:
        given: Any = example_files.given_file(config, use, given_examples)
        texts, label = config.columns
        if use != "train":
            texts = texts[:2]
        name = f"{task.SPLITS[use]}.tsv"
        path = given or os.path.join(config.data_dir or "", "STS-B", name)
        return read_pairs(path, texts, None if use == "predict" else label)

    if not config.validation_share or {*uses} == {"predict"}:
        return {use: read(use) for use in uses}, None
    if config.eval_file or "eval" in given_examples:
        raise ValueError(
            "--validation_share is for pairs without an --eval_file. Leave one "
            "of them out."
        )
    examples, validation = config.divide(
        read("train"),
        [use for use in uses if use != "predict"],
        weights.settings,
        texts=lambda row: [row.text_a, row.text_b, row.text_c],
    )
    if "predict" in uses:
        examples["predict"] = read("predict")
    return examples, validation


def read_pairs(
    path: example_files.Source, texts: Sequence[str], label: str | None
) -> list[Any]:
    """Returns the `ScoredPair`s of a file; without a label, `TextPair`s.

    `texts` and `label` are names of columns.
    """
    from albert_tf.tasks.encoder.data import ScoredPair, TextPair

    pairs: list[TextPair] = []
    columns = [*texts, label] if label else texts
    for line, fields in example_files.read_rows(path, columns):
        names = ("text_a", "text_b", "text_c")[: len(texts)]
        own = dict(zip(names, fields, strict=False))
        own["guid"] = str(line - 1)
        if not label:
            pairs.append(TextPair(**own))
            continue
        try:
            score = float(fields[-1])
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(
                f"{path}, line {line}: {label!r} must be a number. Received: "
                f"{fields[-1]!r}."
            )
        pairs.append(ScoredPair(**own, label=score))
    example_files.check_ids([pair.guid for pair in pairs], str(path))
    return pairs


def make_task(config: SimilarityConfig, sets: Sets[Any]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.encoder.model import SimilarityTask

    return functools.partial(
        SimilarityTask,
        data=sets.data,
        loss=config.used_loss,
        temperature=config.temperature,
    )


FINETUNING = FinetuningSpec(
    task_names=("similarity",),
    config_class=SimilarityConfig,
    defaults={"learning_rate": 5e-5, "train_batch_size": 32},
    read_sets=read_sets,
    make_task=make_task,
    head_spec=lambda _: EncoderSpec(),
    predict_arguments=lambda _: '"TEXT"  # or < texts, one a line',
)
