"""Reads text files as documents, in blocks that a worker builds records from.

Data flow: files -> [this file] -> block of documents -> sentences -> tokens.
Floor: data. Plain Python; the text is streamed, one block at a time.

A text file has one sentence a line; a blank line ends a document. A `.jsonl`
file has one document a line, `{"text": ...}`, which is split into sentences.
Either may be compressed (`.gz`).

Differs: in google-research/albert, a document continues in the next file if
its file does not end with a blank line.
"""

import dataclasses
import json
import logging
from collections.abc import Iterable, Iterator, Sequence

import sentencex

from albert_tf import files

# A block is what one worker builds records from at a time: large enough that
# its documents are a fair sample (random next sentences, shuffling), small
# enough that 40 copies of its records fit in memory many times.
BLOCK_CHARACTERS = 2**19
# Longer documents are split, so that a file without blank lines need not fit
# in memory.
DOCUMENT_CHARACTERS = 2**20

_SENTENCE_LANGUAGE = "en"

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """One document: sentences, one a line, if `is_split`; or running text."""

    text: str
    is_split: bool

    def sentences(self) -> list[str]:
        """Returns the sentences; some may be blank."""
        if self.is_split:
            return self.text.split("\n")
        return sentencex.segment(_SENTENCE_LANGUAGE, self.text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive documents of the corpus, at least one.

    Blocks are numbered in the order of the corpus, from 0.
    """

    number: int
    documents: Sequence[Document]


def read_documents(paths: Iterable[str]) -> Iterator[Document]:
    """Yields the documents of text and `.jsonl` files, in order.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not UTF-8, or a line of a `.jsonl` file is not an
            object with a `text`; the message names file and line.
    """
    for path in paths:
        if path.removesuffix(".gz").endswith(".jsonl"):
            yield from _json_documents(path)
        else:
            yield from _text_documents(path)


def read_blocks(paths: Iterable[str]) -> Iterator[Block]:
    """Yields the corpus in blocks, whose borders depend on the text alone.

    A block ends once it has `BLOCK_CHARACTERS` and two documents, so that
    there is another document to draw a random next sentence from.

    Raises:
        FileNotFoundError, ValueError: As `read_documents`.
    """
    number, size = 0, 0
    documents: list[Document] = []
    for document in read_documents(paths):
        documents.append(document)
        size += len(document.text)
        if size >= BLOCK_CHARACTERS and len(documents) > 1:
            yield Block(number=number, documents=documents)
            number, size, documents = number + 1, 0, []
    if documents:
        yield Block(number=number, documents=documents)


def block_sizes(paths: Sequence[str]) -> list[int]:
    """Reads the corpus once, to find bad lines early.

    Returns:
        The characters of each block, at least one block.

    Raises:
        FileNotFoundError, ValueError: As `read_documents`, or there is no
            sentence.
    """
    sizes, num_documents = [], 0
    for block in read_blocks(paths):
        num_documents += len(block.documents)
        sizes.append(sum(len(document.text) for document in block.documents))
    if not sizes:
        raise ValueError(
            f"The corpus has no sentence: {', '.join(paths)}. Pass files with "
            "one sentence a line and a blank line between documents."
        )
    _LOGGER.debug(
        "%d files, %d documents, %d characters",
        len(paths),
        num_documents,
        sum(sizes),
    )
    return sizes


def _text_documents(path: str) -> Iterator[Document]:
    sentences: list[str] = []
    size = 0
    for line in files.read_lines(path):
        if line and not line.isspace():
            sentences.append(line)
            size += len(line)
            if size < DOCUMENT_CHARACTERS:
                continue
        if sentences:
            yield Document(text="\n".join(sentences), is_split=True)
            sentences, size = [], 0
    if sentences:
        yield Document(text="\n".join(sentences), is_split=True)


def _json_documents(path: str) -> Iterator[Document]:
    for number, line in enumerate(files.read_lines(path), start=1):
        if not line or line.isspace():
            continue
        text = _json_text(line, f"{path!r}, line {number}")
        if text and not text.isspace():
            yield Document(text=text, is_split=False)


def _json_text(line: str, where: str) -> str:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(
            f"{where} is not JSON ({error}). A .jsonl file has one object "
            'a line, like {"text": "..."}.'
        ) from error
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(text, str) or not _is_text(text):
        raise ValueError(
            f"{where} has no 'text' that is a string of Unicode characters. "
            'A .jsonl file has one object a line, like {"text": "..."}.'
        )
    return text


def _is_text(text: str) -> bool:
    """Returns whether UTF-8 can encode it: JSON may have lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
