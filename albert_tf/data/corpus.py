"""Divides the files of a corpus into blocks that a worker builds from.

Data flow: documents -> [this file] -> blocks of documents -> records.
Plain Python; one block is in memory at a time.

A block is documents of one file, and the key of its random draws is its text.
So its records are the same whatever other files there are, whatever they are
called, and whoever reads them. If documents that the corpus has several times
are left out, blocks are made of those that stay.
"""

import bisect
import collections
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf import checks
from albert_tf.data import deduplication, ordered_workers
from albert_tf.data.deduplication import Hashing, Measures
from albert_tf.data.shards import Duplicates
from albert_tf.text.documents import CorpusSettings, Document, Documents

# A block is what one worker builds records from at a time: large enough that
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

    Args:
        number: Blocks are numbered in the order of their file, from 0.
        documents: The documents.
        copy: Number of equal blocks that come before it in the corpus.
        num_parts: Files that the records of the block are dealt to.
    """

    number: int
    documents: Sequence[Document]
    copy: int = 0
    num_parts: int = 1

    @property
    def size(self) -> int:
        """Size of the documents, see `Document.size`."""
        return sum(document.size for document in self.documents)

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
        """What the random draws depend on, beside the seed."""
        # The same text twice gets different pairs and masks.
        return int.from_bytes(self.digest, "big"), self.copy


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileContents:
    """What a first reading of a file shows; measures to find duplicates."""

    path: str
    block_sizes: Sequence[int]
    block_digests: Sequence[bytes]
    num_bad_lines: int
    measures: Measures | None = None


class Selection(NamedTuple):
    """Which documents of a file to leave out.

    Args:
        is_left_out: bool [N], for each document.
        block_digests: Digest of each block of all documents of the file.
    """

    is_left_out: np.ndarray
    block_digests: Sequence[bytes]


class BlockRequest(NamedTuple):
    """A block to read, and fields of the `Block` that it becomes.

    `digest` is that of the block in the survey; None if a `Selection` has it.
    """

    number: int
    digest: bytes | None
    copy: int
    num_parts: int


class FileRequest(NamedTuple):
    """A file to read blocks from, in order; all documents if no selection."""

    path: str
    blocks: Sequence[BlockRequest]
    selection: Selection | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusContents:
    """What a first reading of the corpus shows.

    Here, blocks are numbered over all files, in their order.

    Args:
        paths: The files.
        first_blocks: Number of the first block of each file; then the number
            of blocks.
        block_sizes: Size of each block, at least one.
        block_digests: Digest of each block; None if there are selections.
        sha256: Hexadecimal digest of all documents, and of which stay.
        num_bad_lines: Lines that were skipped.
        selections: For each file, if duplicates were looked for.
        duplicates: What is left out, if duplicates were looked for.
    """

    paths: Sequence[str]
    first_blocks: Sequence[int]
    block_sizes: Sequence[int]
    block_digests: Sequence[bytes] | None
    sha256: str
    num_bad_lines: int
    selections: Sequence[Selection] | None = None
    duplicates: Duplicates | None = None

    @functools.cached_property
    def _copies(self) -> Mapping[int, int]:
        """`Block.copy` of the blocks that have an equal one before them."""
        seen: collections.Counter[bytes] = collections.Counter()
        copies = {}
        for block, digest in enumerate(self.block_digests or ()):
            if seen[digest]:
                copies[block] = seen[digest]
            seen[digest] += 1
        return copies

    def requests(self, num_parts: Mapping[int, int]) -> list[FileRequest]:
        """Returns files, and the blocks to read from each, in order.

        `num_parts` has the numbers of the blocks, and for each
        `Block.num_parts`.
        """
        by_file = itertools.groupby(
            sorted(num_parts),
            # Files without a block are passed over.
            lambda block: bisect.bisect(self.first_blocks, block) - 1,
        )
        return [
            FileRequest(
                self.paths[file],
                [self._request(b, file, num_parts[b]) for b in blocks],
                self.selections[file] if self.selections else None,
            )
            for file, blocks in by_file
        ]

    def _request(self, block: int, file: int, num_parts: int) -> BlockRequest:
        return BlockRequest(
            number=block - self.first_blocks[file],
            digest=self.block_digests[block] if self.block_digests else None,
            copy=self._copies.get(block, 0),
            num_parts=num_parts,
        )


def read_blocks(documents: Iterable[Document]) -> Iterator[Block]:
    """Yields a file in blocks, whose borders depend on its text alone.

    A block ends once it has `BLOCK_CHARACTERS` and two documents, so that
    there is another document to draw a random next sentence from, or with the
    file.
    """
    number, size = 0, 0
    in_block: list[Document] = []
    for document in documents:
        in_block.append(document)
        size += document.size
        if _is_full(size, len(in_block)):
            yield Block(number=number, documents=in_block)
            number, size, in_block = number + 1, 0, []
    if in_block:
        yield Block(number=number, documents=in_block)


def _is_full(size: int, num_documents: int) -> bool:
    return size >= BLOCK_CHARACTERS and num_documents > 1


def _block_sizes(document_sizes: Iterable[int]) -> list[int]:
    """Returns the sizes of the blocks that `read_blocks` makes of documents."""
    sizes, size, num_documents = [], 0, 0
    for document_size in document_sizes:
        size += document_size
        num_documents += 1
        if _is_full(size, num_documents):
            sizes.append(size)
            size, num_documents = 0, 0
    return sizes + [size] * (num_documents > 0)


def read_requested(
    requests: Iterable[FileRequest], settings: CorpusSettings
) -> Iterator[Block]:
    """Yields the blocks of `CorpusContents.requests`, in that order."""
    for path, block_requests, selection in requests:
        documents: Iterable[Document] = Documents(settings, [path])
        if selection is not None:
            documents = _selected(path, documents, selection)
        blocks = read_blocks(documents)
        for request in block_requests:
            block = next(
                (b for b in blocks if b.number == request.number), None
            )
            if block is None or request.digest not in (None, block.digest):
                raise _changed(path)
            yield dataclasses.replace(
                block, copy=request.copy, num_parts=request.num_parts
            )


def _selected(
    path: str, documents: Iterable[Document], selection: Selection
) -> Iterator[Document]:
    """Yields the documents of a file that are not left out."""
    first = 0
    for block in read_blocks(documents):
        if block.digest not in selection.block_digests[block.number :][:1]:
            raise _changed(path)
        for index, document in enumerate(block.documents, start=first):
            if not selection.is_left_out[index]:
                yield document
        first += len(block.documents)


def _changed(path: str) -> ValueError:
    return ValueError(
        f"The corpus was changed while it was read: {path!r}. Run the command "
        "again when it is complete; finished files must then be removed."
    )


def survey(
    paths: Sequence[str],
    settings: CorpusSettings,
    hashing: Hashing | None = None,
    *,
    num_workers: int = 1,
) -> CorpusContents:
    """Reads the corpus once, to find bad lines early and to identify it.

    With `hashing`, documents are left out that have a hash in common with one
    that comes before them.
    """
    with ordered_workers.map_in_order(
        functools.partial(survey_file, settings=settings, hashing=hashing),
        paths,
        num_workers=min(num_workers, len(paths)),
    ) as contents:
        return join(contents, settings)


def survey_file(
    path: str, settings: CorpusSettings, hashing: Hashing | None = None
) -> FileContents:
    """Reads a file of the corpus once; for arguments, see `survey`."""
    sizes, digests = [], []
    documents = Documents(settings, [path])
    measures = Measures(hashing) if hashing else None
    for block in read_blocks(documents):
        sizes.append(block.size)
        digests.append(block.digest)
        if measures is not None:
            for document in block.documents:
                measures.add(document)
    return FileContents(
        path=path,
        block_sizes=sizes,
        block_digests=digests,
        num_bad_lines=documents.num_bad_lines,
        measures=measures,
    )


def join(
    files_in_order: Iterable[FileContents], settings: CorpusSettings
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
    paths = [file.path for file in contents]
    digests = [digest for file in contents for digest in file.block_digests]
    if not digests:
        raise ValueError(
            f"The corpus has no sentence: {checks.listed(paths, at_most=3)}. "
            "Pass files with one sentence a line and a blank line between "
            "documents."
        )
    sizes = [file.block_sizes for file in contents]
    selections, duplicates = _select(contents)
    if selections is not None:
        sizes = [
            _block_sizes(file.measures.sizes[~selection.is_left_out].tolist())
            for file, selection in zip(contents, selections, strict=True)
            if file.measures is not None
        ]
    # The borders of files are borders of what stays, so they count here.
    left_out = _FILE_END.join(
        s.is_left_out.tobytes() for s in selections or () if len(s.is_left_out)
    )
    return CorpusContents(
        paths=paths,
        first_blocks=[0, *itertools.accumulate(map(len, sizes))],
        block_sizes=[size for of_file in sizes for size in of_file],
        block_digests=digests if selections is None else None,
        sha256=hashlib.sha256(b"".join(digests) + left_out).hexdigest(),
        num_bad_lines=num_bad_lines,
        selections=selections,
        duplicates=duplicates,
    )


def _select(
    contents: Sequence[FileContents],
) -> tuple[list[Selection] | None, Duplicates | None]:
    """Returns what to leave out of each file, if its documents are measured."""
    measured = [file.measures for file in contents if file.measures is not None]
    if len(measured) < len(contents):
        return None, None
    is_left_out = deduplication.find_duplicates(
        [measures.hashes for measures in measured]
    )
    ends = np.cumsum([len(measures) for measures in measured])
    parts = np.split(is_left_out, ends[:-1])
    characters = np.concatenate([measures.characters for measures in measured])
    duplicates = Duplicates(
        documents=int(is_left_out.sum()),
        characters=int(characters[is_left_out].sum()),
    )
    selections = [
        Selection(part, file.block_digests)
        for part, file in zip(parts, contents, strict=True)
    ]
    return selections, duplicates
