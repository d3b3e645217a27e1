"""What a checkpoint means, compared with what the user says of it.

Activation and layers, head, labels, vocabulary and lower-casing do not show in
the arrays. Whoever uses a checkpoint, of any format, asks here. A contradiction
is an error.

NumPy: no TensorFlow.
"""

import dataclasses
import logging
import os
from collections.abc import Mapping

from albert_tf import checks, files
from albert_tf.checkpoints import metadata
from albert_tf.checkpoints.checkpoint import Checkpoint, known_config
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)
# By kind of model, the heads of a checkpoint that it can load.
CHECKPOINT_HEADS: Mapping[str, set[str]] = {
    "encoder": set(),
    "pretraining": {"cls/predictions", "cls/seq_relationship"},
    "classifier": {"task"},
    "multiple_choice": {"task"},
    "span": {"cls/squad"},
    "beam_span": {"beam"},
}


def find_head(source: Checkpoint, where: str) -> str:
    """Returns the kind of model, of `CHECKPOINT_HEADS`, that a checkpoint is.

    It is that of a task, else of pretraining, else the encoder.
    """
    # Regression and multiple choice have the same weights; only the name of
    # the task tells them apart.
    is_multiple_choice = source.metadata.task in metadata.MULTIPLE_CHOICE_TASKS
    ruled_out = "classifier" if is_multiple_choice else "multiple_choice"
    kinds = [
        kind
        for kind, heads in CHECKPOINT_HEADS.items()
        if heads & source.heads and kind != ruled_out
    ]
    tasks = [kind for kind in kinds if kind != "pretraining"]
    if len(tasks) > 1:
        raise ValueError(
            f"Checkpoint {where!r} has the heads of several tasks: "
            f"{', '.join(tasks)}. Name the one to use, such as "
            f"head={tasks[0]!r}, or by --task."
        )
    return [*tasks, *kinds, "encoder"][0]


def check_config(
    known: AlbertConfig,
    wanted: AlbertConfig,
    where: str,
    *,
    may_change_layers: bool = False,
) -> None:
    """Checks what configs say of the weights and their shapes do not show.

    `known` is the config beside the checkpoint `where`, `wanted` that of the
    model that is to have its weights, and that `may_change_layers`.
    """
    fields = ["hidden_act", "num_attention_heads", "attention_window"]
    if not may_change_layers and _layers(known) != _layers(wanted):
        fields += [
            "num_hidden_layers",
            "num_hidden_groups",
            "inner_group_num",
            "parameter_sharing",
        ]
    different = checks.differences(
        *(
            {name: getattr(one, name) for name in fields}
            for one in (known, wanted)
        )
    )
    if different:
        raise ValueError(
            f"Checkpoint {where!r} was made with {checks.listed(different)}. "
            "Use the config that the checkpoint was made with, or correct the "
            "one beside it. convert_checkpoint.py changes the layers and the "
            "window of a checkpoint."
        )


def _layers(config: AlbertConfig) -> list[tuple[int, int, int]]:
    """Returns the sets of weights that each layer uses, and their blocks."""
    return [
        (
            config.weight_set("attention", layer),
            config.weight_set("ffn", layer),
            config.inner_group_num,
        )
        for layer in range(config.num_hidden_layers)
    ]


def check_task(path: files.Path, wanted: Metadata) -> None:
    """Checks that weights were trained with the labels and text of a task.

    What is None in `wanted`, or not known of the weights, is not compared.
    """
    known, different = metadata.read(path), []
    if None not in (known.labels, wanted.labels):
        labels = checks.differences(
            {"labels": known.labels}, {"labels": wanted.labels}
        )
        # Who trained weights elsewhere may have given the labels other names.
        fold = str if known.task else str.casefold
        theirs, ours = (
            [*map(fold, one.labels or ())] for one in (known, wanted)
        )
        if theirs != ours and (known.task or {*theirs} & {*ours}):
            different += labels
        elif theirs != ours:
            _LOGGER.warning(
                "The weights of %s were trained with %s.", path, labels[0]
            )
    for name in ("do_lower_case", "tokenizer_hash"):
        pair = [{name: getattr(one, name)} for one in (known, wanted)]
        if None not in (pair[0][name], pair[1][name]):
            different += checks.differences(*pair)
    if different:
        raise ValueError(
            f"The weights of {os.fspath(path)!r} were trained with another "
            "vocabulary, lower-casing or labels: "
            f"{checks.listed(different)}. Pass what they were trained with."
        )


def find_labels(
    known: Metadata,
    num_outputs: int,
    *,
    where: str,
    given: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    """Returns the names of a classifier's labels, in the order of its logits.

    They are those `given`, or else known of the checkpoint `where`, or else
    `0`, `1`, ...; regression, with one output, has none.
    """
    is_regression = num_outputs == 1 and not known.multi_label
    num_labels = 0 if is_regression else num_outputs
    labels = known.labels if given is None else given
    if labels is None:
        return tuple(map(str, range(num_labels)))
    if len(labels) != num_labels:
        raise ValueError(
            f"{repr(where) if given is None else '--labels'} names "
            f"{len(labels)} labels ({checks.listed(labels)}), but the model "
            f"has {num_outputs} outputs, which means {num_labels} labels. Pass "
            "--labels with one name for each output, in their order; none for "
            "regression."
        )
    pairs = zip(labels, known.labels or labels, strict=False)
    if any(name != own and name in (known.labels or ()) for name, own in pairs):
        raise ValueError(
            f"--labels={','.join(labels)} gives names of the model's labels to "
            f"other outputs: in its order they are "
            f"{','.join(known.labels or ())}. Leave --labels out, or pass new "
            "names."
        )
    return labels


def with_vocabulary(
    source: Checkpoint, given: str | None, do_lower_case: bool | None
) -> Checkpoint:
    """Returns a checkpoint with the vocabulary and lower-casing to use.

    They are those that the user names, or else those beside the checkpoint. If
    the tokenizer that the model was trained with is known, it decides.
    """
    known = source.metadata.do_lower_case
    if None not in (known, do_lower_case) and known != do_lower_case:
        _LOGGER.warning(
            "The checkpoint says do_lower_case=%s; %s is used, as you say.",
            known,
            do_lower_case,
        )
    if do_lower_case is None:
        do_lower_case = known
    beside, path = source.vocabulary, given or source.vocabulary
    if path is None:
        return _with(source, None, do_lower_case)
    result = as_trained(_with(source, path, do_lower_case))
    tokenizer = result.load_tokenizer()
    if beside and given and beside != given:
        _check_same_tokens(tokenizer, source)
    num_tokens, vocab_size = (
        tokenizer.vocab_size,
        known_config(source).vocab_size,
    )
    # A vocabulary beside its checkpoint may have fewer: the rest is padding.
    is_certain = beside or source.metadata.tokenizer_hash
    if num_tokens > vocab_size or (num_tokens < vocab_size and not is_certain):
        raise ValueError(
            f"The vocabulary {path!r} has {num_tokens} tokens, but the config "
            f"has vocab_size={vocab_size}. Pass the vocabulary that the model "
            "was trained with."
        )
    return result


def _with(
    source: Checkpoint, vocabulary: str | None, do_lower_case: bool | None
) -> Checkpoint:
    known = dataclasses.replace(source.metadata, do_lower_case=do_lower_case)
    return dataclasses.replace(source, vocabulary=vocabulary, metadata=known)


def as_trained(source: Checkpoint) -> Checkpoint:
    """Returns a checkpoint with the lower-casing of its training.

    Another vocabulary than that of the training, if it is known, is an error.
    """
    trained_with = source.metadata.tokenizer_hash
    if trained_with is None:
        return source
    known = source.metadata.do_lower_case
    for do_lower_case in (True, False) if known is None else (known,):
        result = _with(source, source.vocabulary, do_lower_case)
        if result.load_tokenizer().fingerprint == trained_with:
            return result
    raise ValueError(
        f"The model was trained with another tokenizer than "
        f"{source.vocabulary!r} (do_lower_case={known}). Pass the vocabulary "
        "and --do_lower_case of its training."
    )


def _check_same_tokens(tokenizer: Tokenizer, source: Checkpoint) -> None:
    tokens, expected = (
        [*map(one.id_to_token, range(one.vocab_size))]
        for one in (tokenizer, source.load_tokenizer())
    )
    if tokens != expected:
        raise ValueError(
            "The given vocabulary differs from the one beside the checkpoint, "
            f"{source.vocabulary}. Leave out --spm_model_file and --vocab_file."
        )
