"""Opens a checkpoint of any format: its arrays, and the files beside them.

No array is read, and neither TensorFlow nor KerasHub is imported, before the
arrays are asked for.
"""

import dataclasses
import os
from typing import TYPE_CHECKING

from albert_tf import checks, files, registry
from albert_tf.checkpoints import tf1, vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint, naming
from albert_tf.config import AlbertConfig
from albert_tf.published_configs import load_config
from albert_tf.text import tokenizer

if TYPE_CHECKING:
    from albert_tf.text.base import Tokenizer

CONFIG_ADVICE = "Use the config that the checkpoint was made with."


def open(  # noqa: A001
    path: files.Path,
    *,
    albert_config: AlbertConfig | str | None = None,
    may_change_layers: bool = False,
) -> Checkpoint:
    """Opens a checkpoint of any format.

    Args:
        path: A prefix, file or folder, `hf://owner/name`, or the folder of a
            run, which stands for its `run_checkpoints.trained_weights`.
        albert_config: Replaces the config of the checkpoint, which must agree
            with it, and settles ambiguities there. A text is the argument of
            `load_config`, or empty.
        may_change_layers: Whether `albert_config` may have other layers.
    """
    wanted = albert_config or None
    if isinstance(wanted, str):
        wanted = load_config(wanted)
    name = files.check_local(local_path(path))
    modules = map(registry.load, registry.CHECKPOINT_FORMATS.values())
    readers = (module for module in modules if module.recognises(name))
    if reader := next(readers, None):
        with naming(name):
            checkpoint: Checkpoint = reader.describe(name, wanted)
    else:
        checkpoint = tf1.describe(name)
    return with_config(checkpoint, wanted, may_change_layers=may_change_layers)


def local_path(path: files.Path) -> str:
    """Returns a path; a name such as `hf://owner/name` is fetched first."""
    name = os.fspath(path)
    scheme, separator, _ = name.partition("://")
    if separator and scheme in registry.CHECKPOINT_SCHEMES:
        return str(registry.load(registry.CHECKPOINT_SCHEMES[scheme])(name))
    return name


def with_config(
    checkpoint: Checkpoint,
    wanted: AlbertConfig | None,
    *,
    may_change_layers: bool = False,
) -> Checkpoint:
    """Returns a checkpoint with a wanted config; None keeps the checkpoint's.

    Both configs must agree in the fields that the shapes of the weights do not
    show, except for the layers if a model `may_change_layers`.
    """
    if wanted is None:
        return checkpoint
    fields = ["hidden_act", "num_attention_heads", "attention_window"]
    stored = checkpoint.config or wanted
    if not may_change_layers and _layers(stored) != _layers(wanted):
        fields += [
            "num_hidden_layers",
            "num_hidden_groups",
            "inner_group_num",
            "parameter_sharing",
        ]
    both = (
        {name: getattr(config, name) for name in fields}
        for config in (stored, wanted)
    )
    if different := checks.differences(*both):
        raise ValueError(
            f"Checkpoint {checkpoint.path!r} was made with "
            f"{checks.listed(different)}. {CONFIG_ADVICE} Or change its "
            "layers or its window by convert_checkpoint.py."
        )
    return dataclasses.replace(checkpoint, config=wanted)


def _layers(config: AlbertConfig) -> list[tuple[int, ...]]:
    """Returns the sets of weights that each layer uses, and their blocks."""
    halves, inner = ("attention", "ffn"), config.inner_group_num
    return [
        (*(config.weight_set(half, layer) for half in halves), inner)
        for layer in range(config.num_hidden_layers)
    ]


def load_tokenizer(
    path: files.Path | None = None,
    *,
    spm_model_file: files.Path | None = None,
    vocab_file: files.Path | None = None,
    do_lower_case: bool | None = None,
    keep_accents: bool | None = None,
) -> "Tokenizer":
    """Loads the tokenizer of a checkpoint, or of a vocabulary.

    Args:
        path: A checkpoint of any format, or a run; None for a file below.
        spm_model_file: SentencePiece model, as in the English checkpoints.
        vocab_file: WordPiece vocabulary, as in the Chinese checkpoints.
        do_lower_case: Default: the setting of the checkpoint, or true: the
            released English vocabulary has no capitals.
        keep_accents: Whether letters keep their accents. Default: the setting
            of the checkpoint, or no, but for WordPiece of cased text.
    """
    if path is None:
        return tokenizer.load_tokenizer(
            spm_model_file=spm_model_file,
            vocab_file=vocab_file,
            do_lower_case=do_lower_case is not False,
            keep_accents=keep_accents,
        )
    stated = {"do_lower_case": do_lower_case, "keep_accents": keep_accents}
    return vocabularies.as_trained(open(path), **stated).tokenizer
