"""Checkpoints by name: `hf://owner/name`, or `hf://owner/name@revision`.

Hugging Face's own client fetches what a checkpoint consists of into its cache,
and nothing pickled.
"""

import functools

PREFIX = "hf://"
_PATTERNS = ("*.json", "*model*.safetensors", "*spiece.model", "*vocab.txt")


@functools.cache
def local_folder(path: str) -> str:
    """Returns a path as it is, or the folder of a name, which is fetched."""
    if not path.startswith(PREFIX):
        return path
    import huggingface_hub

    repository, _, revision = path.removeprefix(PREFIX).partition("@")
    try:
        return huggingface_hub.snapshot_download(
            repository, revision=revision or None, allow_patterns=[*_PATTERNS]
        )
    except Exception as error:  # Of the client, and of what it is made of.
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{path!r} cannot be fetched ({reason}). Check the name and the "
            "network; or fetch config.json, model.safetensors and spiece.model "
            "(or vocab.txt) by hand, and pass their folder."
        ) from error
