"""TF1 checkpoints: `P.index` and `P.data-00000-of-00001`, arrays by name.

Reads what google-research/albert released and wrote. Checkpoints of our own
runs have this format, too, and are written here. `albert_config.json` and the
vocabulary are in the folder of the two files, or in the folder of the run.
"""

import dataclasses
import glob
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, files, registry
from albert_tf.checkpoints import (
    run_checkpoints,
    tensor_bundle,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import (
    Arrays,
    Checkpoint,
    LazyArrays,
    Note,
    WriteReport,
)
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import CONFIG_FILE, AlbertConfig

_DATA = ".data-00000-of-00001"
# Is in the folder of an unpacked module of TF-Hub.
_HUB_FILE = "tfhub_module.pb"
_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def describe(path: str) -> Checkpoint:
    """Describes a checkpoint: a prefix, a file or folder of it, or a run."""
    prefix = resolve(path)
    folders = run_checkpoints.folders_of(prefix)
    module = os.path.dirname(folders[0])
    if os.path.isfile(os.path.join(module, _HUB_FILE)):
        folders = [os.path.join(module, "assets")]
    arrays = LazyArrays(prefix, tensor_bundle.readers)
    checkpoint = describe_folders(folders, arrays)
    metadata = checkpoint.metadata
    for reference in registry.CHECKPOINT_FACTS.values():
        read = registry.load(reference)
        facts = read(folders[0], checkpoint.vocabulary_kind)
        metadata = metadata.combined(facts)
    return dataclasses.replace(
        checkpoint, path=path, format="tf1", metadata=metadata
    )


def describe_folders(folders: Sequence[str], arrays: Arrays) -> Checkpoint:
    """Describes a checkpoint by the files that we write with it.

    `folders` are the folder of the weights and, if a run has saved them, the
    folder of the run.
    """
    notes: list[Note] = []
    vocabulary_path = config = None
    for folder in folders:
        # The first folder that has one decides.
        config_file = os.path.join(folder, CONFIG_FILE)
        if config is None and os.path.isfile(config_file):
            config = AlbertConfig.from_json_file(config_file)
        path, new_notes = vocabularies.find(folder)
        vocabulary_path = vocabulary_path or path
        notes += new_notes
    return Checkpoint(
        arrays=arrays,
        config=config,
        vocabulary=vocabulary_path,
        metadata=Metadata.read(folders[0]),
        notes=tuple(notes),
    )


def resolve(path: files.Path) -> str:
    """Returns the prefix of the checkpoint at a path.

    The path is a prefix; one of the files that begin with it; a folder, in
    which the file `checkpoint` names the prefix if there are several; an
    unpacked module of TF-Hub; or the folder of a run, which stands for its
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
            # The released files name a folder of another machine.
            text = files.read_text(state_file)
            match = re.search(r'^model_checkpoint_path: "(.*)"', text, re.M)
            stem = os.path.basename(match[1]) if match else ""
            named = os.path.join(name, stem)
            prefixes = [named] if named in prefixes else prefixes
    if not prefixes or not os.path.isfile(prefixes[0] + ending):
        raise FileNotFoundError(
            f"There is no checkpoint {name!r} ({_hint(name)}). Pass a "
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


def _hint(name: str) -> str:
    """Describes a path without a checkpoint, for a message."""
    if os.path.isfile(name):
        return f"it is a file; its folder is {os.path.dirname(name) or '.'!r}"
    if not os.path.isdir(name):
        is_of_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", name)
        hint = f"; of the Hugging Face hub: hf://{name}" if is_of_hub else ""
        return f"no file *.index{hint}"
    if os.path.isfile(os.path.join(name, "saved_model.pb")):
        return "it is a SavedModel, which TF Serving runs"
    # Weights of other names, and links to nothing, are among them.
    paths = (os.path.join(name, n) for n in sorted(os.listdir(name)))
    names = [
        os.path.basename(path)
        + " (a link to nothing)" * (not os.path.exists(path))
        for path in paths
    ]
    return f"no file *.index, but {checks.listed(names, at_most=9)}"


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


def write_ours(folder: str, checkpoint: Checkpoint) -> WriteReport:
    """Writes a checkpoint as our runs do to an empty folder."""
    config_file = os.path.join(folder, CONFIG_FILE)
    checkpoint.known_config.to_json_file(config_file)
    write_weights(folder, run_checkpoints.MODEL_PREFIX, checkpoint)
    return [], []


def write_weights(folder: str, stem: str, checkpoint: Checkpoint) -> None:
    """Writes arrays, metadata and vocabulary of a checkpoint."""
    write(os.path.join(folder, stem), checkpoint.arrays)
    checkpoint.metadata.write(folder)
    if checkpoint.vocabulary:
        vocabularies.write(checkpoint, folder)
