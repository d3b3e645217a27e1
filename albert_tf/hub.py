"""Checkpoints by name: `hf://owner/name`, or `hf://owner/name@revision`.

Hugging Face's own client fetches what a checkpoint consists of into its cache,
and nothing pickled.
"""

import functools
import os

from albert_tf import files

PREFIX = "hf://"
_PATTERNS = ("*.json", "*model*.safetensors", "*spiece.model", "*vocab.txt")


def local_folder(path: files.Path) -> files.Path:
    """Returns a path as it is, or the folder of a name, which is fetched."""
    if not os.fspath(path).startswith(PREFIX):
        return path
    return _fetch(os.fspath(path))


@functools.cache
def _fetch(name: str) -> str:
    import huggingface_hub

    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    try:
        return huggingface_hub.snapshot_download(
            repository, revision=revision or None, allow_patterns=[*_PATTERNS]
        )
    except Exception as error:  # Of the client, and of what it is made of.
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{name!r} cannot be fetched ({reason}). Check the name and the "
            "network; or fetch config.json, model.safetensors and spiece.model "
            "(or vocab.txt) by hand, and pass their folder."
        ) from error
