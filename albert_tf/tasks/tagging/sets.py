"""The flags of tagging, and the texts that they name.

Data flow: flags -> [this file] -> sets -> run. Slow imports come after them.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import checks, files
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.metrics import entities
from albert_tf.settings import setting
from albert_tf.tasks import example_files, task
from albert_tf.tasks.example_files import RowsInMemory
from albert_tf.tasks.held_out import HoldOutFlags
from albert_tf.tasks.spec import FinetuningSpec
from albert_tf.tasks.tagging import examples as examples_lib
from albert_tf.tasks.tagging.examples import TaggedText
from albert_tf.tasks.tagging.spec import TaggingSpec
from albert_tf.tasks.task import NO_WEIGHTS, SPLITS, ExampleSet, MakeTask, Sets
from albert_tf.text.tokenizer import Tokenizer

_LOGGER = logging.getLogger(__name__)
_ENDINGS = (".conll", ".txt", ".jsonl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingConfig(HoldOutFlags):
    """The flags of tagging."""

    name = "ner"
    is_table = True

    data_dir: str | None = setting(
        None,
        "Directory of the files train, dev and test (.conll, .txt or .jsonl).",
    )
    train_file: str | None = setting(
        None,
        "Texts to train on: CoNLL (a word a line, its tag in the last column, "
        "empty lines between texts); or JSON lines of tokens and tags, or of "
        "text and entities.",
    )
    eval_file: str | None = setting(None, "Texts to evaluate.")
    predict_file: str | None = setting(
        None, "Texts to tag; they may have no tags."
    )
    labels: tuple[str, ...] = setting(
        (),
        "All tags, in the order of the model's outputs; names of tags that are "
        "numbers. By default, those of the training file, O first.",
    )
    dropout_prob: float = setting(
        0.1, "Dropout rate of the vectors of tokens.", affects_training=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_number(
            "dropout_prob", self.dropout_prob, at_least=0, below=1
        )


def read_sets(
    config: TaggingConfig,
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    weights: Checkpoint = NO_WEIGHTS,
    given_examples: Mapping[str, RowsInMemory] = {},
) -> Sets[Any]:
    """Reads the texts of a run, and checks that they can be used."""
    from albert_tf.tasks.tagging import data as data_lib

    trained = weights.settings if "train" not in uses else {}
    known = weights.metadata.labels if "train" not in uses else None
    labels = config.labels or known or ()
    data = data_lib.TaggingData(
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        labels=labels,
        scheme=entities.PLAIN,
        words=trained.get("words", "spaced" if not weights.path else "tokens"),
    )
    find = functools.partial(_find, config, given_examples=given_examples)

    def read(use: str) -> list[TaggedText]:
        return _read(find(use), data, use)

    validation = None
    if config.validation_share and {"train", "eval"} & {*uses}:
        chosen = [use for use in uses if use != "predict"]
        found, validation = config.divide(
            read("train"), chosen, trained, texts=lambda one: [one.text]
        )
    else:
        found = {use: read(use) for use in uses if use != "predict"}
    if "predict" in uses:
        found["predict"] = read("predict")
    if "train" in uses:
        tags = [[*(one.tags or ())] for one in found["train"]]
        scheme = entities.scheme_of(tags)
        own = {tag for row in tags for tag in row}
        labels = labels or tuple(
            sorted(own, key=lambda tag: (tag != entities.OUTSIDE, tag))
        )
        data = dataclasses.replace(
            data,
            labels=labels,
            scheme=scheme,
            dictionary=data_lib.dictionary_of(found["train"]),
        )
    elif not labels:
        raise ValueError("The tags are not known. Pass --labels.")
    else:
        scheme = entities.scheme_of([label] for label in labels)
        data = dataclasses.replace(data, scheme=trained.get("scheme", scheme))
    data = dataclasses.replace(data, validation=validation)
    return task.sets_by_use(
        {
            use: [ExampleSet(examples=rows, data=data)]
            for use, rows in found.items()
        }
    )


def _find(
    config: TaggingConfig,
    use: str,
    given_examples: Mapping[str, RowsInMemory],
) -> Any:
    path = example_files.given_file(config, use, given_examples)
    if path is not None:
        return path
    folder = files.check_local(config.data_dir or "")
    names = [SPLITS[use] + ending for ending in _ENDINGS]
    paths = [os.path.join(folder, name) for name in names]
    paths = [*filter(os.path.isfile, paths)]
    if len(paths) != 1:
        raise FileNotFoundError(
            f"{folder!r} must have one of {', '.join(names)}."
        )
    return paths[0]


def _read(path: Any, data: Any, use: str) -> list[TaggedText]:
    lost: list[str] = []
    found = []
    for example, marked in examples_lib.read_examples(path, data.labels):
        example = data.with_words(example)
        if example.tags == () and not example.has_words:
            tags = examples_lib.tags_of(example.raw_words, marked, lost)
            example = dataclasses.replace(example, tags=tags)
        found.append(example)
    if use != "predict" and found[0].tags is None:
        raise ValueError(f"{path} has no tags.")
    if lost:
        _LOGGER.warning(
            "%s: %d entities overlap others, or cut words: %s.",
            path,
            len(lost),
            checks.listed(lost),
        )
    return found


def make_task(config: TaggingConfig, sets: Sets[Any]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.tagging.model import TaggingTask

    return functools.partial(
        TaggingTask,
        num_labels=len(sets.data.settings["labels"]),
        dropout_prob=config.dropout_prob,
    )


FINETUNING = FinetuningSpec(
    task_names=("ner",),
    config_class=TaggingConfig,
    defaults={
        "learning_rate": 5e-5,
        "num_train_steps": 1000,
        "num_warmup_steps": 0,
        "train_batch_size": 32,
        "save_checkpoints_steps": 1000,
    },
    read_sets=read_sets,
    make_task=make_task,
    head_spec=lambda _: TaggingSpec(),
    predict_arguments=lambda _: '"TEXT" # or < texts, one a line, or JSON',
)
