"""Divides the documents of a corpus into blocks that a worker builds from.

Data flow: documents -> [this file] -> blocks of documents -> records.
Floor: data. Plain Python; one block is in memory at a time.
"""

import dataclasses
import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence

from albert_tf import files
from albert_tf.text.documents import Document, Documents

# A block is what one worker builds records from at a time: large enough that
# its documents are a fair sample (random next sentences, shuffling), small
# enough that 40 copies of its records fit in memory many times.
BLOCK_CHARACTERS = 2**19

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive documents of the corpus, at least one.

    Args:
        number: Blocks are numbered in the order of the corpus, from 0.
        documents: The documents.
        num_parts: Files that the records of the block are dealt to.
    """

    number: int
    documents: Sequence[Document]
    num_parts: int = 1

    @property
    def size(self) -> int:
        """Size of the documents, see `Document.size`."""
        return sum(document.size for document in self.documents)

    @property
    def digest(self) -> bytes:
        """Digest of the documents."""
        digest = hashlib.sha256()
        for document in self.documents:
            text = document.text.encode()
            digest.update(b"%d %d\n" % (document.is_split, len(text)))
            digest.update(text)
        return digest.digest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusContents:
    """What a first reading of the corpus has found.

    Args:
        block_sizes: Size of each block, at least one.
        block_digests: Digest of each block.
        num_bad_lines: Lines that were skipped.
    """

    block_sizes: Sequence[int]
    block_digests: Sequence[bytes]
    num_bad_lines: int

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of all documents."""
        return hashlib.sha256(b"".join(self.block_digests)).hexdigest()


def read_blocks(documents: Iterable[Document]) -> Iterator[Block]:
    """Yields the corpus in blocks, whose borders depend on the text alone.

    A block ends once it has `BLOCK_CHARACTERS` and two documents, so that
    there is another document to draw a random next sentence from.

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


def survey(documents: Documents) -> CorpusContents:
    """Reads the corpus once, to find bad lines early and to identify it.

    Raises:
        FileNotFoundError, ValueError: As `Documents`, or there is no
            sentence.
    """
    sizes, digests, num_documents = [], [], 0
    for block in read_blocks(documents):
        num_documents += len(block.documents)
        sizes.append(block.size)
        digests.append(block.digest)
    if not sizes:
        raise ValueError(
            f"The corpus has no sentence: {files.list_paths(documents.paths)}. "
            "Pass files with one sentence a line and a blank line between "
            "documents."
        )
    _LOGGER.debug(
        "%d files, %d documents, %d characters",
        len(documents.paths),
        num_documents,
        sum(sizes),
    )
    return CorpusContents(
        block_sizes=sizes,
        block_digests=digests,
        num_bad_lines=documents.num_bad_lines,
    )
