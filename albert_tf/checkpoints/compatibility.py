"""What a checkpoint is compared with: a model, a config, what the user says.

Activation and layers, labels, vocabulary and lower-casing do not show in the
arrays. Whoever uses a checkpoint, of any format, asks here. A contradiction is
an error. Without TensorFlow.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks
from albert_tf.checkpoints import checkpoint, metadata, variable_names
from albert_tf.checkpoints.checkpoint import REFUSED, Arrays, Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.text.tokenizer import VocabularyBeside

_LOGGER = logging.getLogger(__name__)
_ROWS_BY_TOKEN = {
    "bert/embeddings/word_embeddings",
    "cls/predictions/output_bias",
}
_CONFIG_ADVICE = "Use the config that the checkpoint was made with."
_HEAD_ADVICE = (
    "Use a checkpoint that has this head, or a model without it. Only training "
    "may start with a random head: --allow_new_heads of run_pretraining.py, in "
    "Python allow_new_heads=True."
)


def check_shapes(source: Checkpoint) -> None:
    """Checks that the weights, if need be without heads, match the config."""
    config = source.known_config
    rows = [*variable_names.EMBEDDINGS]
    if source.has_pooler:
        rows += variable_names.POOLER
    if config.has_projection:
        rows += variable_names.PROJECTION
    head_of = variable_names.head_of
    rows += [r for r in variable_names.HEADS if head_of(r.tf1) in source.heads]
    names = {row.tf1 for row in rows}
    for half, (sublayer, adapters) in variable_names.SUBLAYERS.items():
        for weight_set in range(config.num_weight_sets(half)):
            has_adapters = config.has_adapters(half, weight_set)
            names |= {
                row.tf1.format(set=weight_set, inner=inner)
                for row in sublayer + (adapters if has_adapters else ())
                for inner in range(config.inner_group_num)
            }
    shapes = {name: variable_names.shape_of(name, config) for name in names}
    check_fit(source.weights, shapes, source.path)


def check_fit(
    weights: Arrays, shapes: Mapping[str, tuple[int | None, ...]], where: str
) -> None:
    """Checks that weights are all that a model needs, and nothing else.

    Heads that are not among the variables of the model, in `shapes`, may be
    there. A length of None stands for any. The message names `where`.
    """
    problems = {name: "missing" for name in shapes if name not in weights}
    for name, array in weights.items():
        if name not in shapes and not variable_names.head_of(name):
            problems[name] = "unexpected"
        elif name in shapes:
            shape, expected = [*array.shape], shapes[name]
            pairs = zip(shape, expected, strict=False)
            fits = [length in (number, None) for number, length in pairs]
            if len(shape) != len(expected) or not all(fits):
                wanted = ["any" if n is None else n for n in expected]
                problems[name] = f"of shape {shape}, but must be {wanted}"
    if problems:
        is_of_head = all(map(variable_names.head_of, problems))
        texts = (f"{name} is {problems[name]}" for name in sorted(problems))
        raise ValueError(
            f"Checkpoint {where!r} does not have the weights of the model "
            f"({len(problems)} variables): {checks.listed(texts)}. "
            f"{_HEAD_ADVICE if is_of_head else _CONFIG_ADVICE}"
        )


def check_values(arrays: Arrays, where: str) -> None:
    """Checks that weights have no NaN and no infinity."""
    wrong = [name for name, a in arrays.items() if not np.isfinite(a).all()]
    if wrong:
        raise ValueError(
            f"{where!r} has values that are not finite numbers (NaN or "
            f"infinity), in {checks.listed(sorted(wrong))}. Pass another one."
        )


def with_config(
    source: Checkpoint,
    wanted: AlbertConfig | None,
    *,
    may_change_layers: bool = False,
) -> Checkpoint:
    """Returns a checkpoint with another config than the one beside it, if any.

    What configs say of the weights, and their shapes do not show, must be the
    same, except for the layers if a model `may_change_layers`.
    """
    if wanted is None:
        return source
    fields = ["hidden_act", "num_attention_heads", "attention_window"]
    beside = source.config or wanted
    if not may_change_layers and _layers(beside) != _layers(wanted):
        fields += [
            "num_hidden_layers",
            "num_hidden_groups",
            "inner_group_num",
            "parameter_sharing",
        ]
    compared = (
        {name: getattr(one, name) for name in fields}
        for one in (beside, wanted)
    )
    if different := checks.differences(*compared):
        raise ValueError(
            f"Checkpoint {source.path!r} was made with "
            f"{checks.listed(different)}. {_CONFIG_ADVICE} Or change its "
            "layers or its window by convert_checkpoint.py."
        )
    return dataclasses.replace(source, config=wanted)


def with_depth(source: Checkpoint, depth: int | None) -> Checkpoint:
    """Returns a checkpoint whose first `depth` layers are used; None for all.

    What was measured with all of them is left out.
    """
    config = source.known_config
    if depth in (None, config.num_hidden_layers):
        return source
    checks.check_integer(
        "depth", depth, at_least=1, at_most=config.num_hidden_layers
    )
    config.check_shared("depth")
    return dataclasses.replace(
        source,
        config=dataclasses.replace(config, num_hidden_layers=depth),
        metadata=source.metadata.measured({}),
    )


def _layers(config: AlbertConfig) -> list[tuple[int, ...]]:
    """Returns the sets of weights that each layer uses, and their blocks."""
    halves, inner = ("attention", "ffn"), config.inner_group_num
    return [
        (*(config.weight_set(half, layer) for half in halves), inner)
        for layer in range(config.num_hidden_layers)
    ]


def check_task(source: Checkpoint, wanted: Metadata) -> None:
    """Checks that weights were trained with the labels and text of a task.

    What is None in `wanted`, or not known of the weights, is not compared.
    """
    known, different = source.metadata, []
    if None not in (known.labels, wanted.labels):
        pair = [{"labels": one.labels} for one in (known, wanted)]
        labels = checks.differences(*pair)
        # Who trained weights elsewhere may have given the labels other names.
        fold = str if known.task else str.casefold
        theirs, ours = (
            [*map(fold, one.labels or ())] for one in (known, wanted)
        )
        if theirs != ours and (known.task or {*theirs} & {*ours}):
            different += labels
        elif theirs != ours:
            text = "The weights of %s were trained with %s."
            _LOGGER.warning(text, source.path, labels[0])
    for name in ("do_lower_case", "tokenizer_hash"):
        pair = [{name: getattr(one, name)} for one in (known, wanted)]
        if None not in (pair[0][name], pair[1][name]):
            different += checks.differences(*pair)
    if different:
        raise ValueError(
            f"The weights of {source.path!r} were trained with another "
            "vocabulary, lower-casing or labels: "
            f"{checks.listed(different)}. Pass what they were trained with."
        )


def find_labels(
    known: Metadata,
    num_outputs: int,
    given: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    """Returns the names of a classifier's labels, in the order of its logits.

    They are those `given`, or else known of the checkpoint, or else `0`, `1`,
    ...; regression, as one output is, has none.
    """
    is_regression = num_outputs == 1 or known.labels == ()
    num_labels = 0 if is_regression and not known.multi_label else num_outputs
    labels = known.labels if given is None else given
    if labels is None:
        return tuple(map(str, range(num_labels)))
    if len(labels) != num_labels:
        raise ValueError(
            f"{'The checkpoint' if given is None else 'What is given'} names "
            f"{len(labels)} labels ({checks.listed(labels)}), but the model "
            f"has {num_outputs} outputs, which means {num_labels} labels. Pass "
            "a name for each, in their order: --labels, in Python labels."
        )
    pairs = zip(labels, known.labels or labels, strict=False)
    if any(name != own and name in (known.labels or ()) for name, own in pairs):
        raise ValueError(
            f"labels={','.join(labels)} gives names of the model's labels to "
            f"other outputs: in its order they are "
            f"{','.join(known.labels or ())}. Leave them out."
        )
    return labels


def with_vocabulary(
    source: Checkpoint, options: VocabularyBeside, *, may_lack: bool = False
) -> Checkpoint:
    """Returns a checkpoint with the vocabulary and normalization to use.

    They are those that the user names, or else those beside the checkpoint; to
    have none is an error, unless it `may_lack` one. If the tokenizer of the
    training is known, what contradicts it is an error.
    """
    given = options.spm_model_file or options.vocab_file
    path, result = given or source.vocabulary, source
    if path != source.vocabulary:
        # What is known of the one beside the checkpoint is not of this one.
        notes = (note for note in source.notes if note.kind != REFUSED)
        result = dataclasses.replace(
            source, vocabulary=path, content=None, notes=tuple(notes)
        )
    stated = {n: getattr(options, n) for n in ("do_lower_case", "keep_accents")}
    result = as_trained(result, **stated)
    for name, value in stated.items():
        known = getattr(source.metadata, name)
        if None not in (known, value) and known != value:
            text = "The checkpoint says %s=%s; %s is used, as you say."
            _LOGGER.warning(text, name, known, value)
    is_refused = any(note.kind == REFUSED for note in result.notes)
    if path is None and may_lack and not is_refused:
        return result
    num_tokens = result.tokenizer.vocab_size
    vocab_size = source.known_config.vocab_size
    if given and source.vocabulary not in (None, given):
        tokens, expected = (
            [*map(one.id_to_token, range(one.vocab_size))]
            for one in (result.tokenizer, source.tokenizer)
        )
        if tokens != expected:
            raise ValueError(
                "The given vocabulary differs from the one beside the "
                f"checkpoint, {source.vocabulary}. Leave it out."
            )
    # A vocabulary beside its checkpoint may have fewer: the rest is padding.
    is_certain = source.vocabulary or source.metadata.tokenizer_hash
    if num_tokens > vocab_size or (num_tokens < vocab_size and not is_certain):
        raise ValueError(
            f"The vocabulary {path!r} has {num_tokens} tokens, but the config "
            f"has vocab_size={vocab_size}. Pass the vocabulary that the model "
            "was trained with."
        )
    return result


def with_new_tokens(source: Checkpoint, names: Sequence[str]) -> Checkpoint:
    """Returns the weights of a checkpoint with more tokens; see `with_tokens`.

    Their rows are the means of those of the other tokens.
    """
    if not names:
        return source
    source = as_trained(source)
    old, new = source.tokenizer, source.tokenizer.with_tokens(names)
    size = max(source.known_config.vocab_size, new.vocab_size)

    def read(_: str) -> Mapping[str, np.ndarray]:
        arrays = source.weights
        for name in _ROWS_BY_TOKEN & arrays.keys():
            rows = arrays[name]
            own, others = rows[: old.vocab_size], rows[new.vocab_size :]
            mean = own.mean(0, keepdims=True)
            more = mean.repeat(new.vocab_size - old.vocab_size, 0)
            arrays[name] = np.concatenate([own, more, others])
        return arrays

    known = dataclasses.replace(
        source.metadata,
        tokenizer_hash=source.metadata.tokenizer_hash and new.fingerprint,
        **new.settings.stated(),
    )
    return dataclasses.replace(
        source,
        arrays=checkpoint.LazyArrays(source.path, read),
        config=dataclasses.replace(source.known_config, vocab_size=size),
        content=new.vocabulary,
        metadata=known,
    )


def as_trained(source: Checkpoint, **settings: Any) -> Checkpoint:
    """Returns a checkpoint with these settings of its tokenizer, or its own.

    If the tokenizer of its training is known, it must be that one.
    """
    known = metadata.combined(Metadata(**settings), source.metadata)
    source = dataclasses.replace(source, metadata=known)
    if known.tokenizer_hash is None or source.vocabulary is None:
        return source
    is_lower = False if source.has_symbols else known.do_lower_case
    for value in (True, False) if is_lower is None else (is_lower,):
        text = dataclasses.replace(known, do_lower_case=value)
        result = dataclasses.replace(source, metadata=text)
        if result.tokenizer.fingerprint == known.tokenizer_hash:
            return result
    raise ValueError(
        f"The model was trained with another tokenizer than "
        f"{source.vocabulary!r} ({known.tokenizer_settings}). Pass the "
        "vocabulary, do_lower_case and keep_accents of its training."
    )
