"""The flags of tagging, and the texts that they name.

Data flow: flags -> [this file] -> sets -> run. Slow imports come after them.
"""

import collections
import dataclasses
import functools
import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import checks
from albert_tf.metrics import entities
from albert_tf.metrics.entities import OUTSIDE
from albert_tf.settings import setting
from albert_tf.tasks import head_flags, held_out, task_data
from albert_tf.tasks.held_out import FileFlags
from albert_tf.tasks.labelled_texts import LEAST_EXAMPLES
from albert_tf.tasks.spec import DataRequest, FinetuningSpec
from albert_tf.tasks.tagging import decoding
from albert_tf.tasks.tagging import examples as examples_lib
from albert_tf.tasks.tagging.examples import TaggedText
from albert_tf.tasks.tagging.rows import Columns
from albert_tf.tasks.tagging.spec import TaggingSpec
from albert_tf.tasks.task import MakeTask
from albert_tf.tasks.task_data import ExampleSet, Sets

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingConfig(FileFlags):
    """The flags of tagging."""

    name = "ner"
    is_table = True
    endings = (".conll", ".txt", ".jsonl", ".json")

    data_dir: str | None = setting(
        None,
        "Directory of the files train, dev and test: .conll or .txt (a word a "
        "line, its tag in the last column, empty lines between texts), or "
        ".jsonl (tokens and tags, or text and entities).",
    )
    labels: tuple[str, ...] = setting(
        (),
        "All tags, in the order of the model's outputs; also the names of tags "
        "that are numbers. By default, the sorted ones of the training file.",
    )
    word_column: int | None = setting(
        None,
        "Column of the words in files without a header, from 1. By default, "
        "the first.",
        at_least=1,
    )
    tag_column: int | None = setting(
        None,
        "Column of the tags in files without a header, from 1. By default, "
        "the last.",
        at_least=1,
    )
    dropout_prob: float = head_flags.dropout(
        "Dropout rate of the vectors of tokens."
    )


def read_sets(config: TaggingConfig, request: DataRequest) -> Sets[ExampleSet]:
    """Reads the texts of a run, and checks that they can be used."""
    from albert_tf.tasks.tagging import data as data_lib

    trains, weights = "train" in request.uses, request.weights
    labels = config.labels or weights.metadata.labels or ()
    data = data_lib.TaggingData(
        tokenizer=request.tokenizer,
        max_seq_length=request.max_seq_length,
        labels=labels,
        words=weights.settings.get("words", "tokens"),
        rules=weights.settings.get("rules") or {},
    )
    columns = Columns(config.word_column, config.tag_column)
    if trains and "words" not in weights.settings:
        path = held_out.find(config, request, "train")
        kind = examples_lib.kind_of_words(path, columns)
        data = dataclasses.replace(data, words=kind)

    def read(use: str) -> list[TaggedText]:
        predicts = use == "predict"
        tags = data.labels if predicts else None
        return examples_lib.read_examples(
            held_out.find(config, request, use),
            data,
            columns._replace(known_tags=tags),
            needs_tags=not predicts,
        )

    sets, validation = held_out.read(
        config, request, read, texts=lambda example: [example.text]
    )
    rows: list[Sequence[str]] = [[label] for label in labels]
    if trains:
        rows = [example.tags or () for example in sets["train"]]
    counts = collections.Counter(itertools.chain(*rows))
    labels = labels or tuple(
        sorted(counts, key=lambda tag: (tag != OUTSIDE, tag))
    )
    if len({*labels}) < max(2, len(labels)):
        raise ValueError(
            "There must be several tags, all different, not "
            f"{checks.listed(labels)}. Pass texts to train on that have them, "
            "or --labels."
        )
    data = dataclasses.replace(data, labels=labels, validation=validation)
    if trains:
        tagged = [(one.strings, one.tags or ()) for one in sets["train"]]
        rules = decoding.learn_rules(tagged, labels)
        data = dataclasses.replace(data, rules=rules)
        data = data.of_training(sets["train"])
    _tell_tags(entities.scheme_of(rows), labels, counts if trains else {})
    if "predict" in request.uses:
        sets["predict"] = read("predict")
    _warn_of_others([*itertools.chain(*sets.values())], labels)
    return task_data.one_set_each(sets, data)


def _tell_tags(
    scheme: str, labels: Sequence[str], counts: Mapping[str, int]
) -> None:
    _LOGGER.info("Tags (%s): %s.", scheme, checks.listed(labels))
    marks = [tag for tag in labels if tag == OUTSIDE or tag.startswith("B-")]
    if scheme == entities.PLAIN and marks:
        odd = [tag for tag in labels if not entities.PREFIXED.fullmatch(tag)]
        text = "Because of the tags %s, they are plain: none marks an entity."
        _LOGGER.warning(text, checks.listed(map(repr, odd or labels)))
    rare = [tag for tag, number in counts.items() if number < LEAST_EXAMPLES]
    if rare:
        _LOGGER.warning(
            "Too few words to rely on have the tags %s. Check their spelling, "
            "and that the file has no header.",
            checks.listed(f"{tag!r} ({counts[tag]})" for tag in sorted(rare)),
        )


def _warn_of_others(
    examples: Sequence[TaggedText], labels: Sequence[str]
) -> None:
    tags = (tag for example in examples for tag in example.tags or ())
    others = collections.Counter(tag for tag in tags if tag not in labels)
    if others:
        _LOGGER.warning(
            "%d words have tags that are none of these, so that they are "
            "never predicted: %s.",
            others.total(),
            checks.listed(f"{tag!r} ({n})" for tag, n in others.items()),
        )


def make_task(config: TaggingConfig, sets: Sets[ExampleSet]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.tagging.model import TaggingTask

    data: Any = sets.data
    examples = sets.train.examples if sets.train else ()
    return functools.partial(
        TaggingTask,
        words_per_record=data.words_per_record(examples),
        num_labels=len(data.labels),
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
