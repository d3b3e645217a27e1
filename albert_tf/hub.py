"""Checkpoints by name: `hf://owner/name`, or `hf://owner/name@revision`.

Hugging Face's own client fetches the files of a checkpoint into its cache, and
nothing pickled.
"""

import functools
import glob
import os

_PREFIX = "hf://"
_PATTERNS = ("*.json", "*model*.safetensors", "*spiece.model", "*vocab.txt")


@functools.cache
def fetch(name: str) -> str:
    """Fetches a checkpoint; returns its folder."""
    import huggingface_hub

    repository, _, revision = name.removeprefix(_PREFIX).partition("@")
    try:
        folder: str = huggingface_hub.snapshot_download(
            repository, revision=revision or None, allow_patterns=[*_PATTERNS]
        )
    except Exception as error:  # Of the client, and of what it is made of.
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{name!r} cannot be fetched ({reason}). Check the name and the "
            "network; or fetch config.json, model.safetensors and spiece.model "
            "(or vocab.txt) by hand, and pass their folder."
        ) from error
    if not glob.glob(
        os.path.join(glob.escape(folder), "**/*.safetensors"), recursive=True
    ):
        raise ValueError(
            f"{name!r} has no safetensors, and pickles are never read. If one "
            "of its pull requests has added them, such as the first, pass "
            f"{_PREFIX}{repository}@refs/pr/1."
        )
    return folder
