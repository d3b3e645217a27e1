"""TF1 checkpoints: `P.index` and `P.data-00000-of-00001`, arrays by name.

Reads what google-research/albert released and wrote, and writes the same.
Checkpoints of our own runs have this format, too. `albert_config.json` and the
vocabulary are beside the two files, or in the folder of the run.
"""

import dataclasses
import glob
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints import (
    checkpoint,
    huggingface,
    huggingface_tokenizer,
    metadata,
    run_checkpoints,
    tensor_bundle,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, LazyArrays, Note
from albert_tf.config import CONFIG_FILE, AlbertConfig

# TF1: the stem of the released checkpoints.
_RELEASED_PREFIX = "model.ckpt-best"
_DATA = ".data-00000-of-00001"
# Is in the folder of an unpacked module of TF-Hub.
_HUB_FILE = "tfhub_module.pb"
_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def describe(path: str, albert_config: AlbertConfig | None) -> Checkpoint:
    """Describes a checkpoint: a prefix, a file or folder of it, or a run."""
    prefix = resolve(path)
    folders = run_checkpoints.folders_of(prefix)
    module = os.path.dirname(folders[0])
    if os.path.isfile(os.path.join(module, _HUB_FILE)):
        folders = [os.path.join(module, "assets")]
    arrays = LazyArrays(prefix, tensor_bundle.readers)
    source = describe_folders(folders, arrays)
    # The files of transformers may be there, without its weights.
    facts = huggingface_tokenizer.settings_of(
        folders[0], is_wordpiece=source.is_wordpiece
    )
    theirs = huggingface.metadata_of(folders[0], facts)
    known = metadata.combined(source.metadata, theirs)
    return dataclasses.replace(source, metadata=known)


def describe_folders(
    folders: Sequence[str], arrays: checkpoint.Arrays
) -> Checkpoint:
    """Describes a checkpoint by the files that we write beside it.

    `folders` are that of the weights and, if they are a run's, that of the run.
    """
    notes: list[Note] = []
    vocabulary = config = None
    for folder in folders:
        # The first folder that has one decides.
        config_file = os.path.join(folder, CONFIG_FILE)
        if config is None and os.path.isfile(config_file):
            config = AlbertConfig.from_json_file(config_file)
        found, own_notes = vocabulary_in(folder)
        vocabulary = vocabulary or found
        notes += own_notes
    return Checkpoint(
        arrays=arrays,
        config=config,
        vocabulary=vocabulary,
        metadata=metadata.read(folders[0]),
        notes=tuple(notes),
    )


def vocabulary_in(folder: str) -> tuple[str | None, list[Note]]:
    """Returns the one vocabulary in a folder, or why there is none."""
    paths = checkpoint.vocabularies_in(folder)
    if len(paths) < 2:
        return next(iter(paths), None), []
    names = checks.listed(map(os.path.basename, paths))
    text = f"{checkpoint.VOCABULARY} ({names}: which of them is unknown)"
    return None, [Note("left out", text)]


def resolve(path: files.Path) -> str:
    """Returns the prefix of the checkpoint at a path.

    That is a prefix; one of the files that begin with it; a folder, in which
    the file `checkpoint` names the prefix if there are several; an unpacked
    module of TF-Hub; or the folder of a run, which stands for its
    `run_checkpoints.trained_weights`.
    """
    name = files.check_local(path)
    name = run_checkpoints.trained_weights(name) or name
    if os.path.isfile(os.path.join(name, _HUB_FILE)):
        name = os.path.join(name, "variables")
    prefixes, ending = [_ENDING.sub("", name)], tensor_bundle.INDEX
    if os.path.isdir(name):
        pattern = os.path.join(glob.escape(name), f"*{ending}")
        prefixes = sorted(p.removesuffix(ending) for p in glob.glob(pattern))
        state_file = os.path.join(name, "checkpoint")
        if len(prefixes) > 1 and os.path.isfile(state_file):
            # The released ones name a folder on the machine that wrote them.
            text = files.read_text(state_file)
            found = re.search(r'^model_checkpoint_path: "(.*)"', text, re.M)
            base = os.path.basename(found[1]) if found else ""
            named = os.path.join(name, base)
            prefixes = [named] if named in prefixes else prefixes
    if not prefixes or not os.path.isfile(prefixes[0] + ending):
        raise FileNotFoundError(
            f"There is no checkpoint {name!r} (no file *.index). Pass a "
            "prefix, the folder of a run, of KerasHub, or of Hugging Face with "
            "model.safetensors. Pickles are never read."
        )
    if len(prefixes) > 1:
        raise ValueError(
            f"Folder {name!r} has {len(prefixes)} checkpoints and no file "
            "`checkpoint` that names one of them. Pass the prefix of one: "
            f"{checks.listed(prefixes)}."
        )
    return prefixes[0]


def read(path: files.Path) -> dict[str, np.ndarray]:
    """Reads all arrays of a checkpoint by name; for the path, see `resolve`."""
    return dict(LazyArrays(resolve(path), tensor_bundle.readers))


def write(prefix: files.Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays; missing folders are made."""
    import tensorflow as tf

    name = files.check_local(prefix)
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    names = sorted(arrays)
    try:
        tf.raw_ops.SaveV2(
            prefix=name,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.convert_to_tensor(arrays[name]) for name in names],
        )
    except tf.errors.OpError as error:
        raise OSError(
            f"Cannot write checkpoint {name!r}: {' '.join(str(error).split())}"
        ) from error
    for ending in (_DATA, tensor_bundle.INDEX):
        with open(name + ending, "rb+") as file:
            os.fsync(file.fileno())


def write_released(folder: str, source: Checkpoint) -> checkpoint.WriteReport:
    """Writes what google-research/albert reads to an empty folder.

    Optimizer slots are written, too; and, for other readers, the metadata.
    """
    config = checkpoint.as_groups(source.known_config, "google-research/albert")
    values = config.to_dict()
    if config.hidden_act == "gelu_erf" or config.always_projects:
        raise ValueError(
            "google-research/albert has no gelu_erf, and no projection where "
            "E = H; our format has."
        )
    # Not in the original's configs.
    del values["parameter_sharing"]
    files.write_json(os.path.join(folder, CONFIG_FILE), values)
    _write(folder, _RELEASED_PREFIX, source)
    others = source.metadata
    if others.do_lower_case:
        # So does the original by default.
        others = dataclasses.replace(others, do_lower_case=None)
    reason = f"only in {metadata.METADATA_FILE}: the original does not read it"
    return [], checkpoint.notes_of_metadata(others, reason)


def write_ours(folder: str, source: Checkpoint) -> checkpoint.WriteReport:
    """Writes a checkpoint as our runs do to an empty folder."""
    source.known_config.to_json_file(os.path.join(folder, CONFIG_FILE))
    _write(folder, run_checkpoints.MODEL_PREFIX, source)
    return [], []


def _write(folder: str, stem: str, source: Checkpoint) -> None:
    write(os.path.join(folder, stem), source.arrays)
    metadata.write(folder, source.metadata)
    if source.vocabulary:
        checkpoint.write_vocabulary(source, folder)
