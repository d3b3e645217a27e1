"""Text in, answers out: a trained model with its tokenizer.

Data flow: texts -> examples -> records -> [model] -> outputs -> answers.
Records, outputs and answers are those of `--do_predict`.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import checks, files, hub
from albert_tf.checkpoints import compatibility, discovery, heads, load
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.data.bucketed_batches import Padding
from albert_tf.export import litert
from albert_tf.export.export_config import SPAN_LIMITS
from albert_tf.predict import texts
from albert_tf.predict.texts import TextData, Texts
from albert_tf.tasks import finetuning
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.examples import ClassificationExample
from albert_tf.tasks.race.data import MultipleChoiceData
from albert_tf.tasks.race.examples import (
    LETTERS,
    MIN_OPTIONS,
    ChoiceLengths,
    MultipleChoiceExample,
)
from albert_tf.tasks.squad.data import SquadData
from albert_tf.tasks.squad.examples import SquadExample
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.tasks.task import ExampleSet
from albert_tf.training import prediction
from albert_tf.training.workers import Workers

# Texts whose answers are in memory together.
_CHUNK_SIZE = 4096
_LONGEST = {"squad": 384}
_DEFAULT_LONGEST = 512
_SEPARATOR = "|"


def load_predictor(
    path: files.Path,
    *,
    head: str | None = None,
    max_seq_length: int | None = None,
    dtype: Any = None,
    pooling: str = "mean",
    normalize: bool = False,
) -> "Predictor":
    """Returns a model that takes texts and gives answers.

    Args:
        path: A run, or a folder of any format with a config and a vocabulary,
            or `hf://owner/name`, of Hugging Face's hub; or an export of
            `export_saved_model.py --format=litert`.
        head: As for `load_model`: None for the head that the checkpoint has;
            `encoder` for vectors.
        max_seq_length: Longest sequence in tokens; None for that of the
            fine-tuning or the export, or else 512 (384 for questions about a
            context; always 512 for a checkpoint without the head of a task).
        dtype: Keras dtype policy; None for the global policy of Keras. It has
            no effect on an export.
        pooling: Of vectors: `mean` over the tokens of a text, or `cls`.
        normalize: Whether vectors have the length 1.

    Returns:
        What `Predictor.predict` takes and gives depends on the head:

        classifier: a text, or two (`text_a`, `text_b`); `prediction` (a label,
            a number, or a list of labels) and, but for numbers,
            `probabilities` by label.
        span, beam_span: `question` and `context`; `answer`, where it is in the
            context (`start`, `end`, in characters; -1 if there is none), and
            `score`, its probability among the best answers.
        multiple_choice: `article`, `question` and `options`; `choice`, the
            index of the best `option`, and the `probabilities` of all.
        pretraining: a text with `[MASK]`s, or two texts; `masks`, for each the
            five likeliest (`token`, `probability`), and, of two texts,
            `in_order`, the probability that they are in this order.
        encoder: a text, or two; `vector`, float32 `[H]`.
    """
    path = hub.local_folder(path)
    where = files.check_local(path)
    exported = None
    source = discovery.open(path)
    if source.format == discovery.LITERT:
        exported = litert.LiteRtModel(where)
    compatibility.check_vocabulary(source)
    source = compatibility.with_vocabulary(source)
    head = _find_head(head, source, exported, where)
    settings = source.settings
    config = source.known_config
    longest = settings.get(
        "max_seq_length", _LONGEST.get(_KINDS[head], _DEFAULT_LONGEST)
    )
    if head in ("pretraining", "encoder") and not exported:
        longest = _DEFAULT_LONGEST
    if max_seq_length is None:
        max_seq_length = min(longest, config.max_position_embeddings)
    checks.check_integer(
        "max_seq_length",
        max_seq_length,
        at_least=1,
        at_most=config.max_position_embeddings,
    )
    settings = {
        **settings,
        "max_seq_length": max_seq_length,
        "pooling": pooling,
        "normalizes": normalize,
        "num_outputs": exported.num_outputs
        if exported
        else len(source.arrays.get("output_bias", ())),
    }
    data, task = _MAKERS[head](source, settings, dtype=dtype)
    if exported:
        task.model = exported
    else:
        load.load_checkpoint(task.model, source)
    has_one_text = len(settings.get("text_columns", ())) == 1
    return Predictor(
        _KINDS[head],
        data,
        task,
        has_one_text=has_one_text and head == "classifier",
    )


def _find_head(
    head: str | None,
    source: Checkpoint,
    exported: litert.LiteRtModel | None,
    where: str,
) -> str:
    """Returns the head to use, which the checkpoint or the export has."""
    if head is not None:
        checks.check_choice("head", head, tuple(_MAKERS))
    if exported:
        if head not in (None, exported.head):
            raise ValueError(
                f"{where!r} has no {head} head. It has: {exported.head}."
            )
        return exported.head
    compatibility.check_shapes(source)
    return source.head(head).name


class Predictor:
    """Answers texts; `load_predictor` makes one."""

    def __init__(
        self, kind: str, data: Any, task: Any, *, has_one_text: bool = False
    ) -> None:
        self.kind = kind
        self._has_one_text = has_one_text
        self.model = task.model
        self.tokenizer = data.tokenizer
        self._data = data
        length = getattr(data, "lengths", data).max_seq_length
        width = 8 if tf.config.list_logical_devices("GPU") else None
        self._predictor = prediction.Predictor(
            task,
            Workers(tf.distribute.get_strategy()),
            Padding(max_seq_length=length, bucket_width=width),
            is_final=True,
        )

    def predict(self, inputs: Any, *, batch_size: int = 32) -> Any:
        """Answers one input, a list of inputs, or any iterable of them.

        An input is a text, a tuple of two, or a dict of the names that
        `load_predictor` lists. Returns a dict for one input, a list of dicts
        for a list, and else an iterator, which reads and answers some thousand
        inputs at a time; of a `tf.data.Dataset`, too.
        """
        checks.check_integer("batch_size", batch_size, at_least=1)
        if tf.is_tensor(inputs):
            inputs = inputs.numpy()
        if isinstance(inputs, str | bytes | tuple | Mapping):
            [answer] = self._stream([inputs], batch_size)
            return answer
        if isinstance(inputs, tf.data.Dataset):
            inputs = inputs.as_numpy_iterator()
        # The names of the columns of a table are no texts.
        if not isinstance(inputs, Iterable) or hasattr(inputs, "columns"):
            raise ValueError(
                "Pass a text, a dict, or an iterable of them. Received: "
                f"{type(inputs).__name__}."
            )
        answers = self._stream(inputs, batch_size)
        return list(answers) if isinstance(inputs, Sequence) else answers

    def _stream(
        self, inputs: Iterable[Any], batch_size: int
    ) -> Iterator[dict[str, Any]]:
        make = _EXAMPLES[self.kind]
        numbered = enumerate(inputs)
        while chunk := list(itertools.islice(numbered, _CHUNK_SIZE)):
            examples: Any = [make(*one) for one in chunk]
            data = self._data
            if self._has_one_text and any(e.text_b for e in examples):
                raise ValueError(
                    "The model was trained on one text, and two are a pair. "
                    "For several answers, pass a list, or lines of standard "
                    "input."
                )
            if self.kind == "squad":
                examples = data.questions(examples)
            if self.kind == "race":
                data = _with_choices(data, examples)
            pairs = self._predictor.predict(
                ExampleSet(examples=examples, data=data), batch_size
            )
            for some, outputs in pairs:
                yield from data.answers(some, outputs)


def _with_choices(
    data: MultipleChoiceData, examples: Sequence[MultipleChoiceExample]
) -> MultipleChoiceData:
    numbers = {len(example.options) for example in examples}
    if len(numbers) > 1:
        raise ValueError(
            "Pass questions with different numbers of options separately. "
            f"Received: {checks.listed(sorted(numbers))}."
        )
    return dataclasses.replace(data, num_choices=max(numbers))


# The halves of each kind of model.


def _classifier(
    source: Checkpoint, settings: Mapping[str, Any], *, dtype: Any
) -> tuple[Any, Any]:
    known = source.metadata
    labels = compatibility.find_labels(
        known, settings["num_outputs"], where="The checkpoint"
    )
    dataset = glue.GLUE_DATASETS.get(known.task or "")
    data = ClassificationData(
        name=known.task or "texts",
        labels=labels,
        score_names=(),
        tokenizer=source.load_tokenizer(),
        max_seq_length=settings["max_seq_length"],
        prediction_range=dataset.prediction_range if dataset else None,
        label_separator=_SEPARATOR if known.multi_label else "",
        thresholds=known.thresholds,
        target_mean=known.target_mean or 0.0,
        target_scale=known.target_scale or 1.0,
    )
    return data, finetuning.ClassificationTask(
        source.known_config,
        num_labels=len(labels),
        multi_label=data.is_multi_label,
        dtype=dtype,
    )


def _multiple_choice(
    source: Checkpoint, settings: Mapping[str, Any], *, dtype: Any
) -> tuple[Any, Any]:
    data = MultipleChoiceData(
        tokenizer=source.load_tokenizer(),
        lengths=ChoiceLengths.within(settings),
    )
    config = source.known_config
    return data, finetuning.MultipleChoiceTask(config, dtype=dtype)


def _span(
    source: Checkpoint,
    settings: Mapping[str, Any],
    *,
    dtype: Any,
    has_beams: bool = False,
) -> tuple[Any, Any]:
    if source.metadata.null_from_cls:
        raise ValueError(
            "The logits of [CLS] are those of there being no answer, which "
            "only exports compute. Pass the checkpoint to "
            "export_saved_model.py."
        )
    data = SquadData(
        tokenizer=source.load_tokenizer(),
        lengths=WindowLengths.within(settings),
        limits=SpanLimits(
            **{n: settings[n] for n in SPAN_LIMITS if n in settings}
        ),
        version_2_with_negative=has_beams,
        saved_threshold=source.metadata.null_threshold,
    )
    task = finetuning.BeamSpanTask if has_beams else finetuning.SpanTask
    return data, task(source.known_config, dtype=dtype)


def _pretraining(
    source: Checkpoint, settings: Mapping[str, Any], *, dtype: Any
) -> tuple[Any, Any]:
    objectives = heads.objectives_of(source)
    data = TextData(
        tokenizer=source.load_tokenizer(),
        max_seq_length=settings["max_seq_length"],
        objectives=objectives,
    )
    config = source.known_config
    return data, texts.PretrainedTask(
        config, objectives=objectives, dtype=dtype
    )


def _encoder(
    source: Checkpoint, settings: Mapping[str, Any], *, dtype: Any
) -> tuple[Any, Any]:
    data = TextData(
        tokenizer=source.load_tokenizer(),
        max_seq_length=settings["max_seq_length"],
    )
    return data, texts.VectorTask(
        source.known_config,
        pooling=settings["pooling"],
        normalizes=settings["normalizes"],
        dtype=dtype,
    )


_MAKERS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "classifier": _classifier,
    "multiple_choice": _multiple_choice,
    "span": _span,
    "beam_span": functools.partial(_span, has_beams=True),
    "pretraining": _pretraining,
    "encoder": _encoder,
}
# What a model of each head takes.
_KINDS = {
    "classifier": "classification",
    "multiple_choice": "race",
    "span": "squad",
    "beam_span": "squad",
    "pretraining": "text",
    "encoder": "text",
}


# Inputs of `predict` as examples.


def _fields(number: int, item: Any, *names: str) -> dict[str, Any]:
    """Returns the texts of an input by name, in the order of the names."""
    if isinstance(item, Mapping) and {*item} >= {*names}:
        values = {name: item[name] for name in names}
    elif isinstance(item, tuple) and len(item) == len(names):
        values = dict(zip(names, item, strict=True))
    else:
        raise ValueError(
            f"Input {number} must have {', '.join(names)}, as a dict or a "
            f"tuple. Received: {item!r:.100}."
        )
    return {
        name: _texts(number, value)
        if name == "options"
        else _text(number, value)
        for name, value in values.items()
    }


def _texts(number: int, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple | np.ndarray)
    if not is_list or not MIN_OPTIONS <= len(value) <= len(LETTERS):
        raise ValueError(
            f"Input {number} must have a list of {MIN_OPTIONS} to "
            f"{len(LETTERS)} options. Received: {value!r:.100}."
        )
    return tuple(_text(number, one) for one in value)


def _text(number: int, value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value
    raise ValueError(f"Input {number} has {value!r:.100}, which is no text.")


def _one_or_two(number: int, item: Any) -> dict[str, Any]:
    if not isinstance(item, tuple | Mapping):
        return {"text_a": _text(number, item)}
    if isinstance(item, Mapping) and len(item) == 1:
        return _fields(number, item, "text_a")
    return _fields(number, item, "text_a", "text_b")


_EXAMPLES: dict[str, Callable[[int, Any], Any]] = {
    "classification": lambda number, item: ClassificationExample(
        guid=str(number), **_one_or_two(number, item)
    ),
    "text": lambda number, item: Texts(**_one_or_two(number, item)),
    "squad": lambda number, item: SquadExample(
        guid=str(number), **_fields(number, item, "question", "context")
    ),
    "race": lambda number, item: MultipleChoiceExample(
        guid=str(number),
        passage_id=str(number),
        **_fields(number, item, "article", "question", "options"),
    ),
}
