"""Divides the files of a corpus into blocks that a worker builds from.

Data flow: documents -> [this file] -> blocks of documents -> records.
Floor: data. Plain Python; one block is in memory at a time.

A block is documents of one file, and the key of its random draws is its text.
So its records are the same whatever other files there are, whatever they are
called, and whoever reads them.
"""

import bisect
import collections
import dataclasses
import functools
import hashlib
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.text.documents import CorpusSettings, Document, Documents

# A block is what one worker builds records from at a time: large enough that
# its documents are a fair sample (random next sentences, shuffling), small
# enough that 40 copies of its records fit in memory many times.
BLOCK_CHARACTERS = 2**19
# Files of builds that drew otherwise are not continued.
_DIGEST_VERSION = b"2\n"

_LOGGER = logging.getLogger(__name__)


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
    """What a first reading of a file has found.

    Args:
        path: The file.
        block_sizes: Size of each block.
        block_digests: Digest of each block.
        num_bad_lines: Lines that were skipped.
    """

    path: str
    block_sizes: Sequence[int]
    block_digests: Sequence[bytes]
    num_bad_lines: int


class WantedBlock(NamedTuple):
    """A block to read: what it is there, and the fields it shall have."""

    number: int
    digest: bytes
    copy: int
    num_parts: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusContents:
    """What a first reading of the corpus has found.

    Here, blocks are numbered over all files, in their order.

    Args:
        paths: The files.
        first_blocks: Number of the first block of each file; then the number
            of blocks.
        block_sizes: Size of each block, at least one.
        block_digests: Digest of each block.
        num_bad_lines: Lines that were skipped.
    """

    paths: Sequence[str]
    first_blocks: Sequence[int]
    block_sizes: Sequence[int]
    block_digests: Sequence[bytes]
    num_bad_lines: int

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of all documents."""
        return hashlib.sha256(b"".join(self.block_digests)).hexdigest()

    @functools.cached_property
    def _copies(self) -> Mapping[int, int]:
        """`Block.copy` of the blocks that have an equal one before them."""
        seen: collections.Counter[bytes] = collections.Counter()
        copies = {}
        for number, digest in enumerate(self.block_digests):
            if seen[digest]:
                copies[number] = seen[digest]
            seen[digest] += 1
        return copies

    def wanted(
        self, num_parts: Mapping[int, int]
    ) -> list[tuple[str, list[WantedBlock]]]:
        """Returns files, and the blocks to read from each, in order.

        Args:
            num_parts: The wanted blocks, and `Block.num_parts` of each.
        """
        by_file = itertools.groupby(
            sorted(num_parts),
            # Files without a block are passed over.
            lambda number: bisect.bisect(self.first_blocks, number) - 1,
        )
        return [
            (
                self.paths[file],
                [self._wanted(n, file, num_parts[n]) for n in numbers],
            )
            for file, numbers in by_file
        ]

    def _wanted(self, number: int, file: int, num_parts: int) -> WantedBlock:
        return WantedBlock(
            number=number - self.first_blocks[file],
            digest=self.block_digests[number],
            copy=self._copies.get(number, 0),
            num_parts=num_parts,
        )


def read_blocks(documents: Iterable[Document]) -> Iterator[Block]:
    """Yields a file in blocks, whose borders depend on its text alone.

    A block ends once it has `BLOCK_CHARACTERS` and two documents, so that
    there is another document to draw a random next sentence from, or with the
    file.

    Raises:
        FileNotFoundError, ValueError: As `Documents`.
    """
    number, size = 0, 0
    gathered: list[Document] = []
    for document in documents:
        gathered.append(document)
        size += document.size
        if size >= BLOCK_CHARACTERS and len(gathered) > 1:
            yield Block(number=number, documents=gathered)
            number, size, gathered = number + 1, 0, []
    if gathered:
        yield Block(number=number, documents=gathered)


def read_wanted(
    wanted: Iterable[tuple[str, Sequence[WantedBlock]]],
    settings: CorpusSettings,
) -> Iterator[Block]:
    """Yields blocks of files, in the order of `CorpusContents.wanted`.

    Raises:
        FileNotFoundError, ValueError: As `Documents`, or a file is not the one
            that was surveyed.
    """
    for path, facts_of_blocks in wanted:
        blocks = read_blocks(Documents(settings, [path]))
        for facts in facts_of_blocks:
            block = next((b for b in blocks if b.number == facts.number), None)
            if block is None or block.digest != facts.digest:
                raise ValueError(
                    f"The corpus was changed while it was read: {path!r}. Run "
                    "the command again when it is complete; finished files "
                    "must then be removed."
                )
            yield dataclasses.replace(
                block, copy=facts.copy, num_parts=facts.num_parts
            )


def survey(paths: Sequence[str], settings: CorpusSettings) -> CorpusContents:
    """Reads the corpus once, to find bad lines early and to identify it.

    Raises:
        FileNotFoundError, ValueError: As `Documents`, or there is no
            sentence.
    """
    return join((survey_file(path, settings) for path in paths), settings)


def survey_file(path: str, settings: CorpusSettings) -> FileContents:
    """Reads a file of the corpus once.

    Raises:
        FileNotFoundError, ValueError: As `Documents`.
    """
    sizes, digests = [], []
    documents = Documents(settings, [path])
    for block in read_blocks(documents):
        sizes.append(block.size)
        digests.append(block.digest)
    return FileContents(
        path=path,
        block_sizes=sizes,
        block_digests=digests,
        num_bad_lines=documents.num_bad_lines,
    )


def join(
    found: Iterable[FileContents], settings: CorpusSettings
) -> CorpusContents:
    """Joins what was found in the files of a corpus, in their order.

    Raises:
        ValueError: There is no sentence, or there are too many bad lines.
    """
    paths: list[str] = []
    first_blocks, num_bad_lines = [0], 0
    sizes: list[int] = []
    digests: list[bytes] = []
    for file in found:
        if num_bad_lines + file.num_bad_lines > settings.max_bad_lines:
            # Its error names the first line that is one too many.
            for _ in Documents(
                settings, [file.path], bad_lines_before=num_bad_lines
            ):
                pass
        num_bad_lines += file.num_bad_lines
        paths.append(file.path)
        sizes += file.block_sizes
        digests += file.block_digests
        first_blocks.append(len(sizes))
    if not sizes:
        raise ValueError(
            f"The corpus has no sentence: {files.list_paths(paths)}. "
            "Pass files with one sentence a line and a blank line between "
            "documents."
        )
    _LOGGER.debug("%d files, %d characters", len(paths), sum(sizes))
    return CorpusContents(
        paths=paths,
        first_blocks=first_blocks,
        block_sizes=sizes,
        block_digests=digests,
        num_bad_lines=num_bad_lines,
    )
