"""Divides the files of a corpus into blocks that a worker builds from.

Data flow: documents -> [this file] -> blocks of documents -> records.
Plain Python; one block is in memory at a time.

A block is documents of one file, and the key of its random draws is its text.
So its records are the same whatever other files there are, whatever they are
called, and whoever reads them. If documents that the corpus has several times
are left out, blocks are made of the others.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from albert_tf import checks, registry
from albert_tf.data import ordered_workers
from albert_tf.data.shards import Duplicates
from albert_tf.text.documents import CorpusSettings, Document, Documents

_Item = TypeVar("_Item")

# One worker builds the records of a block at a time: it is large enough that
# its documents are a fair sample (random next sentences, shuffling), small
# enough that 40 copies of its records fit in memory many times.
BLOCK_CHARACTERS = 2**19
# Files of builds that drew otherwise are not continued.
_DIGEST_VERSION = b"2\n"
# Between the files in a digest of bytes that are 0 or 1.
_FILE_END = b"\2"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive documents of a file, at least one.

    Blocks are numbered in the order of their file, from 0. `copy` equal blocks
    come before it in the corpus; its records are dealt to `num_parts` files.
    """

    number: int
    documents: Sequence[Document]
    copy: int = 0
    num_parts: int = 1

    @functools.cached_property
    def digest(self) -> bytes:
        """Digest of the documents."""
        digest = hashlib.sha256(_DIGEST_VERSION)
        for document in self.documents:
            text = document.text.encode()
            digest.update(b"%d %d\n" % (document.is_split, len(text)))
            digest.update(text)
        return digest.digest()

    @property
    def key(self) -> tuple[int, int]:
        """Key of the random draws, together with the seed."""
        # The same text twice gets different pairs and masks.
        return int.from_bytes(self.digest, "big"), self.copy


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileContents:
    """The blocks that a first reading of a file has found.

    `block_digests` has the digests of the blocks of all documents, and
    `measures` of a deduplicator for each of these. `is_left_out`, bool [N],
    tells which documents do not stay, None if all do; `block_sizes` has the
    sizes of the blocks of the others.
    """

    path: str
    block_sizes: Sequence[int]
    block_digests: Sequence[bytes]
    num_bad_lines: int
    measures: Sequence[Any] = ()
    is_left_out: np.ndarray | None = None


# Beam checks arguments by their annotations.
@runtime_checkable
class Deduplicator(Protocol):
    """Finds documents to leave out; `deduplication.py` has the only one."""

    def measure(self, documents: Sequence[Document]) -> Any:
        """Returns measures of the documents of a block."""

    def leave_out(
        self, contents: Sequence[FileContents]
    ) -> tuple[list[FileContents], Duplicates]:
        """Returns the files of a corpus, and how much of them is left out."""


def load_deduplicator(method: str) -> Deduplicator | None:
    """Returns the deduplicator of a method; None for `none`."""
    reference = registry.DEDUPLICATION.get(method)
    return registry.load(reference)(method) if reference else None


class FileRequest(NamedTuple):
    """A file to read blocks from, in order; they have no documents yet."""

    file: FileContents
    blocks: Sequence[Block]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusContents:
    """The blocks that a first reading of the corpus has found.

    Here, blocks are numbered over all files, in their order. `sha256` is a
    digest of all documents, and of which documents stay.
    """

    files: Sequence[FileContents]
    sha256: str
    duplicates: Duplicates | None = None

    @property
    def num_bad_lines(self) -> int:
        """Bad lines of all files, which were skipped."""
        return sum(file.num_bad_lines for file in self.files)

    @functools.cached_property
    def block_sizes(self) -> Sequence[int]:
        """The size of each block, at least one."""
        return [size for file in self.files for size in file.block_sizes]

    @functools.cached_property
    def _copies(self) -> Sequence[int]:
        """`Block.copy` of each block."""
        if self.duplicates:
            return [0] * len(self.block_sizes)
        seen: collections.Counter[bytes] = collections.Counter()
        copies = []
        for digest in (d for file in self.files for d in file.block_digests):
            copies.append(seen[digest])
            seen[digest] += 1
        return copies

    def requests(self, num_parts: Mapping[int, int]) -> list[FileRequest]:
        """Returns files, and the blocks to read from each, in order.

        `num_parts` has the numbers of the blocks, and for each
        `Block.num_parts`.
        """
        requests, first = [], 0
        for file in self.files:
            end = first + len(file.block_sizes)
            blocks = [
                Block(
                    number=block - first,
                    documents=(),
                    copy=self._copies[block],
                    num_parts=num_parts[block],
                )
                for block in range(first, end)
                if block in num_parts
            ]
            if blocks:
                requests.append(FileRequest(file, blocks))
            first = end
        return requests


def read_blocks(documents: Iterable[Document]) -> Iterator[Block]:
    """Yields a file in blocks, whose borders depend on its text alone.

    A block ends once it has `BLOCK_CHARACTERS` and two documents, so that
    there is another document to draw a random next sentence from, or with the
    file.
    """
    blocks = divide(documents, lambda document: document.size)
    for number, in_block in enumerate(blocks):
        yield Block(number=number, documents=in_block)


def divide(
    items: Iterable[_Item], size_of: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """Yields the items of each block, by the sizes of the items."""
    size = 0
    in_block: list[_Item] = []
    for item in items:
        in_block.append(item)
        size += size_of(item)
        if size >= BLOCK_CHARACTERS and len(in_block) > 1:
            yield in_block
            size, in_block = 0, []
    if in_block:
        yield in_block


def read_requested(
    requests: Iterable[FileRequest], settings: CorpusSettings
) -> Iterator[Block]:
    """Yields the blocks of `CorpusContents.requests`, in that order."""
    for file, requested in requests:
        blocks = _read_again(file, settings)
        if file.is_left_out is not None:
            documents = (d for block in blocks for d in block.documents)
            blocks = read_blocks(
                itertools.compress(documents, ~file.is_left_out)
            )
        for wanted in requested:
            block = next(b for b in blocks if b.number == wanted.number)
            yield dataclasses.replace(wanted, documents=block.documents)


def _read_again(
    file: FileContents, settings: CorpusSettings
) -> Iterator[Block]:
    """Yields the blocks of all documents of a file, which must be the same."""
    blocks = read_blocks(Documents(settings, [file.path]))
    for block, digest in itertools.zip_longest(blocks, file.block_digests):
        if block is None or block.digest != digest:
            raise ValueError(
                f"The corpus was changed while it was read: {file.path!r}. "
                "Run the command again when it is complete; finished files "
                "must then be removed."
            )
        yield block


def survey(
    paths: Sequence[str],
    settings: CorpusSettings,
    deduplicator: Deduplicator | None = None,
    *,
    num_workers: int = 1,
) -> CorpusContents:
    """Reads the corpus once, to find bad lines early and to identify it.

    With a `deduplicator`, documents are left out that have a hash in common
    with an earlier document.
    """
    with ordered_workers.map_in_order(
        functools.partial(
            survey_file, settings=settings, deduplicator=deduplicator
        ),
        paths,
        num_workers=min(num_workers, len(paths)),
    ) as contents:
        return join(contents, settings, deduplicator)


def survey_file(
    path: str,
    settings: CorpusSettings,
    deduplicator: Deduplicator | None = None,
) -> FileContents:
    """Reads a file of the corpus once; for arguments, see `survey`."""
    sizes, digests, measures = [], [], []
    documents = Documents(settings, [path])
    for block in read_blocks(documents):
        sizes.append(sum(document.size for document in block.documents))
        digests.append(block.digest)
        if deduplicator:
            measures.append(deduplicator.measure(block.documents))
    return FileContents(
        path=path,
        block_sizes=sizes,
        block_digests=digests,
        num_bad_lines=documents.num_bad_lines,
        measures=measures,
    )


def join(
    files_in_order: Iterable[FileContents],
    settings: CorpusSettings,
    deduplicator: Deduplicator | None = None,
) -> CorpusContents:
    """Joins the contents of the files of a corpus."""
    contents: list[FileContents] = []
    num_bad_lines = 0
    for file in files_in_order:
        if num_bad_lines + file.num_bad_lines > settings.max_bad_lines:
            # Its error names the first line that is one too many.
            for _ in Documents(
                settings, [file.path], bad_lines_before=num_bad_lines
            ):
                pass
        num_bad_lines += file.num_bad_lines
        contents.append(file)
    digests = [digest for file in contents for digest in file.block_digests]
    if not digests:
        paths = checks.listed((file.path for file in contents), at_most=3)
        raise ValueError(
            f"The corpus has no sentence: {paths}. Pass files with one "
            "sentence a line and a blank line between documents."
        )
    duplicates, left_out = None, b""
    if deduplicator:
        contents, duplicates = deduplicator.leave_out(contents)
        # Blocks of the documents that stay end with a file: borders count.
        flags = [file.is_left_out for file in contents]
        left_out = _FILE_END.join(
            is_out.tobytes()
            for is_out in flags
            if is_out is not None and len(is_out)
        )
    sha256 = hashlib.sha256(b"".join(digests) + left_out).hexdigest()
    return CorpusContents(files=contents, sha256=sha256, duplicates=duplicates)
