"""The sidecar of a record file: what made the file, and what is in it.

A sidecar is the JSON file `<record file>.json`, written beside the records.
"""

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

from albert_tf import files, storage
from albert_tf.data import remote_files
from albert_tf.data.deduplication import Duplicates
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.text.special_tokens import SpecialIds

FORMAT_VERSION = 2
# Fields that sidecars of earlier builds of this version do not have.
_LATER_FIELDS = {
    *("num_corpus_files", "corpus_sha256", "part", "word_starts"),
    "duplicates",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildCounts:
    """Counts of a block, a shard or a whole build; they can be added.

    For every build, `tokens` times the number of copies, less
    `tokens_left_out`, plus `tokens_repeated`, is `record_tokens` less the
    special tokens. If the records of a block are dealt to several shards, the
    first of them has the counts of the block's text.

    Args:
        documents: Documents with at least one token.
        sentences: Sentences with at least one token.
        tokens: Tokens of the text, counted once, without the copies.
        unknown_tokens: How many of them are the unknown token.
        lone_tokens: How many of them are in a block of a single document,
            from which its unrelated segments come, too.
        chunks_without_pair: Chunks of one sentence, which are skipped, of all
            copies.
        tokens_left_out: Tokens of the text that are in no record of a copy,
            of all copies.
        tokens_repeated: Tokens of the text that are in records of the same
            copy again, of all copies.
        records: Records, of all copies.
        label_1_records: Records whose label is 1.
        record_tokens: Tokens in records, special tokens included, without
            padding.
        masked_tokens: Prediction slots in use.
    """

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    lone_tokens: int = 0
    chunks_without_pair: int = 0
    tokens_left_out: int = 0
    tokens_repeated: int = 0
    records: int = 0
    label_1_records: int = 0
    record_tokens: int = 0
    masked_tokens: int = 0

    def __add__(self, other: "BuildCounts") -> "BuildCounts":
        theirs = vars(other)
        return BuildCounts(**{n: v + theirs[n] for n, v in vars(self).items()})

    @property
    def unknown_share(self) -> float:
        """Share of the text's tokens that are unknown."""
        return self.unknown_tokens / max(1, self.tokens)

    @property
    def lone_share(self) -> float:
        """Share of the text's tokens that are in a block of one document."""
        return self.lone_tokens / max(1, self.tokens)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sidecar:
    """Facts about one record file.

    Args:
        config: The settings of the build.
        corpus_files: Name (without folder) and size of the first few text
            files.
        num_corpus_files: Number of text files.
        corpus_sha256: Digest of the documents that were read from them.
        duplicates: Documents that were left out of the whole corpus, because
            it has them several times; None if none were looked for.
        blocks: First block in this file, and one past the last, counted over
            the corpus.
        part: `[k, n]`: the file has every n-th record of its blocks, from
            record k on.
        tokenizer_hash: See `Tokenizer`, as the next three.
        vocab_size: V.
        special_ids: Ids of the special tokens.
        forbidden_ids: Sorted ids that a random replacement must not be.
        word_starts: For each token, whether it starts a word, as bits in
            hexadecimal, the first one the highest; only of records without
            `token_boundary`.
        counts: What the file holds.
        num_bytes: Size of the file.
        sha256: Checksum of the file.
    """

    config: PretrainingDataConfig
    corpus_files: list[list[str | int]]
    blocks: list[int]
    tokenizer_hash: str
    vocab_size: int
    special_ids: SpecialIds
    forbidden_ids: list[int]
    num_corpus_files: int | None = None
    corpus_sha256: str | None = None
    duplicates: Duplicates | None = None
    part: list[int] = dataclasses.field(default_factory=lambda: [0, 1])
    word_starts: str | None = None
    counts: BuildCounts = BuildCounts()
    num_bytes: int = 0
    sha256: str = ""


def sidecar_path(record_path: files.Path) -> str:
    """Returns the path of the sidecar of a record file."""
    return os.fspath(record_path) + ".json"


def write(record_path: files.Path, sidecar: Sidecar) -> None:
    """Writes the sidecar of a record file, which may be remote."""
    values = {"version": FORMAT_VERSION, **dataclasses.asdict(sidecar)}
    storage.write_json(sidecar_path(record_path), values)


def read(
    record_path: files.Path,
    *,
    read_remote: Callable[[str], bytes] = remote_files.read,
) -> Sidecar | None:
    """Reads the sidecar of a record file; None if it has none.

    Args:
        record_path: The record file.
        read_remote: Returns the content of a remote file.

    Raises:
        FileNotFoundError: A remote file has none.
        ValueError: The file is damaged, or not a sidecar of this version.
    """
    path = sidecar_path(record_path)
    if files.is_remote(path):
        values = _read_remote(path, read_remote)
    elif not os.path.exists(path):
        return None
    else:
        values = files.read_json_object(path)
    try:
        version = values.pop("version", None)
        if version != FORMAT_VERSION:
            raise ValueError(
                f"its version is {version!r}, expected {FORMAT_VERSION}"
            )
        names = {field.name for field in dataclasses.fields(Sidecar)}
        if missing := names - _LATER_FIELDS - values.keys():
            raise ValueError(f"it has no {', '.join(sorted(missing))}")
        nested: dict[str, Any] = {
            "config": _read_config(values["config"]),
            "special_ids": SpecialIds(**values["special_ids"]),
            "counts": BuildCounts(**values["counts"]),
        }
        if values.get("duplicates") is not None:
            nested["duplicates"] = Duplicates(**values["duplicates"])
        found = Sidecar(**values | nested)
        if not found.config.token_boundary and not found.word_starts:
            raise ValueError("it has no word_starts")
        return found
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path!r} is not a sidecar that this version can read ({error}). "
            "Build the records again."
        ) from error


def _read_remote(
    path: str, read_remote: Callable[[str], bytes]
) -> dict[str, Any]:
    try:
        text = read_remote(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"There is no {path!r}. Copy remote records together with their "
            "sidecars and indexes."
        ) from error
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path!r} is not a sidecar ({error}). Copy it again."
        ) from error


def _read_config(values: dict[str, Any]) -> PretrainingDataConfig:
    # Earlier builds always cut off what did not fit.
    is_single = values.get("pair_objective") == "none"
    earlier: dict[str, Any] = {"keep_more_text": is_single}
    return PretrainingDataConfig(**earlier | values)
