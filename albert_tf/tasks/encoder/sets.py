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
    id_column: str | None = setting(
        None,
        "Column with an id for each row, which the predictions then have. By "
        "default, the line number is the id.",
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
        num_texts = (2,) if self.columns[1] else (2, 3)
        if len(self.columns[0]) not in num_texts:
            raise ValueError(
                "--text_columns must name the two columns of a pair, and "
                "without --label_column perhaps a third one. Received: "
                f"text_columns={','.join(self.text_columns)}, "
                f"label_column={self.label_column}."
            )
        fits = ("cosent", "cosine") if self.columns[1] else ("softmax",)
        if self.loss and self.loss not in fits:
            raise ValueError(
                f"--loss must be {' or '.join(fits)} "
                f"{'with' if self.columns[1] else 'without'} --label_column. "
                f"Received: loss={self.loss}."
            )

    @property
    def columns(self) -> tuple[tuple[str, ...], str | None]:
        """The columns of the texts, and that of the score."""
        if self.task_name == _STS_B and not self.text_columns:
            return ("sentence1", "sentence2"), self.label_column or "score"
        return self.text_columns, self.label_column


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

    texts, label = config.columns
    how: dict[str, Any] = {
        "pooling": config.pooling,
        "normalizes": config.normalize,
    }
    if "train" not in uses:
        kept = {name: weights.settings.get(name) for name in how}
        how = {n: kept[n] if x is None else x for n, x in how.items()}
        config.check_unseen(config.name, weights.settings)
    examples, validation = _read(config, uses, weights, given_examples)
    data = SimilarityData(
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        has_scores=bool(label),
        text_columns=texts,
        validation=validation,
        **{name: value for name, value in how.items() if value is not None},
    )
    sets = {
        use: [ExampleSet(examples=rows, data=data)]
        for use, rows in examples.items()
    }
    if "train" in examples:
        train = dataclasses.replace(data, num_texts=len(texts))
        if config.loss == "cosine":
            scores = [row.label for row in examples["train"]]
            low, high = min(scores), max(scores)
            if low < -1 or high > 1:
                text = "The scores %g to %g are taken for cosines of 0 to 1."
                _LOGGER.info(text, low, high)
                train = dataclasses.replace(train, score_range=(low, high))
        sets["train"] = [ExampleSet(examples=examples["train"], data=train)]
    return task.sets_by_use(sets)


def _read(
    config: SimilarityConfig,
    uses: Sequence[str],
    weights: Checkpoint,
    given_examples: Mapping[str, RowsInMemory],
) -> tuple[dict[str, Any], list[Any] | None]:
    """Returns the pairs by use, and what is kept of those held out."""

    def source(use: str) -> Any:
        given: Any = example_files.given_file(config, use, given_examples)
        if given or config.task_name == _STS_B:
            name = f"{task.SPLITS[use]}.tsv"
            return given or os.path.join(config.data_dir or "", "STS-B", name)
        raise ValueError(f"--{use}_file must be given.")

    texts, label = config.columns
    examples: dict[str, Any] = {}
    validation = None
    labelled = [use for use in uses if use != "predict"]
    if config.validation_share and labelled:
        if config.eval_file or "eval" in given_examples:
            raise ValueError(
                "--validation_share is for pairs without an --eval_file. Leave "
                "one of them out."
            )
        examples, validation = config.divide(
            read_pairs(source("train"), texts, label, config.id_column),
            labelled,
            weights.settings,
            texts=lambda row: [*row.texts],
        )
    else:
        for use in labelled:
            columns = texts if use == "train" else texts[:2]
            examples[use] = read_pairs(
                source(use), columns, label, config.id_column
            )
    if "predict" in uses:
        examples["predict"] = read_pairs(
            source("predict"), texts[:2], None, config.id_column
        )
    return examples, validation


def read_pairs(
    path: example_files.Source,
    texts: Sequence[str],
    label: str | None = None,
    guid: str | None = None,
) -> list[Any]:
    """Returns the `ScoredPair`s of a file; without a label, `TextPair`s.

    The arguments are names of columns.
    """
    from albert_tf.tasks.encoder.data import ScoredPair, TextPair

    pairs: list[TextPair] = []
    names = [*texts, *filter(None, (label, guid))]
    for line, fields in example_files.read_rows(path, names):
        own: dict[str, Any] = {
            "guid": fields[-1] if guid else str(line - 1),
            "texts": tuple(fields[: len(texts)]),
        }
        if not label:
            pairs.append(TextPair(**own))
            continue
        try:
            score = float(fields[len(texts)])
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(
                f"{path}, line {line}: {label!r} must be a number. Received: "
                f"{fields[len(texts)]!r}."
            )
        pairs.append(ScoredPair(**own, label=score))
    example_files.check_ids([pair.guid for pair in pairs], str(path))
    if empty := sum(not all(map(str.strip, pair.texts)) for pair in pairs):
        text = "%s: %d of %d pairs have a text that is empty."
        _LOGGER.warning(text, path, empty, len(pairs))
    return pairs


def make_task(config: SimilarityConfig, sets: Sets[Any]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.encoder.model import SimilarityTask

    data: Any = sets.data
    return functools.partial(
        SimilarityTask,
        loss=config.loss or ("cosent" if data.has_scores else "softmax"),
        temperature=config.temperature,
        pooling=data.pooling,
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
