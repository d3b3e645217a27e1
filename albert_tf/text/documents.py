"""Reads text files of any format as documents, for vocabularies and records.

Data flow: files -> [this file] -> documents -> sentences.
Plain Python; the text is streamed.

`CorpusSettings.input_file` lists the formats. Text files have one sentence a
line; the texts of all others are split into sentences. A file holds JSON lines
if its name says so, or else if its first line is a JSON object.

Differs: in google-research/albert, a document continues in the next file if
its file does not end with a blank line.
"""

import collections
import dataclasses
import itertools
import json
import logging
import os
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import IO

import sentencex

from albert_tf import globs, registry
from albert_tf.settings import Settings, setting
from albert_tf.text import text_lines

# Longer documents are split, so that a file without blank lines need not fit
# in memory.
DOCUMENT_CHARACTERS = 2**20

_JSON_NAMES = (".jsonl", ".ndjson", ".json")
# Parts of a Wikipedia dump are called `...xml-p1p41242.bz2`.
_PART_OF_DUMP = re.compile(r"-p\d+p\d+$")
# The time of sentencex grows with the square of a paragraph.
_LONGEST_PARAGRAPH = 2**14
# White space that is not ASCII: sentencex 1.0 panics where a capital letter,
# it and a full stop follow one another. A tokenizer makes it a space anyway.
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
# A token of English text has four characters, one of Chinese, Japanese or
# Korean text has one.
_CJK_SIZE = 4
# From radicals to ideographs, Hangul syllables, compatibility ideographs, and
# the planes of rare ideographs: the inside of a class of regular expressions.
CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_CJK_TEXT = re.compile(f"[{CJK}]+")

_SAMPLE_WORDS = 100_000

_LOGGER = logging.getLogger(__name__)

# Takes an open file, its path, the field or column of the texts, and a function
# that is called with the message of each bad text, which is skipped.
DocumentReader = Callable[
    [IO[bytes], str, str, Callable[[str], None]], Iterator[str]
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusSettings(Settings):
    """Settings that name a text: a part of every config that reads one."""

    input_file: str | None = setting(
        None,
        "Text files: globs, separated by commas. Text has one sentence a line "
        "and a blank line between documents; JSON lines (.jsonl, .json) have "
        "one object with a text a line; .parquet has a column of texts; .xml "
        "is a Wikipedia dump. Of .gz, .bz2 and .zst, the content is read.",
    )
    text_field: str = setting(
        "text",
        "Field of a JSON line, or column of a Parquet file, that holds the "
        "text of a document.",
    )
    max_bad_lines: int = setting(
        0,
        "Largest number of bad lines or rows (not UTF-8, not JSON, without a "
        "text) that are counted and skipped; the next one is an error.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """One document: sentences, one a line, if `is_split`; or running text."""

    text: str
    is_split: bool

    def sentences(self) -> list[str]:
        """Returns the sentences; some may be blank."""
        if self.is_split:
            return self.text.split("\n")
        text = _WIDE_SPACE.sub(" ", self.text)
        paragraphs = text.split("\n\n")
        if max(map(len, paragraphs)) <= _LONGEST_PARAGRAPH:
            return _sentences(text)
        return [s for part in paragraphs for s in _sentences_of_any(part)]

    @property
    def size(self) -> int:
        """Number of characters, times 4 for Chinese, Japanese or Korean."""
        return _size(self.text)


class Documents:
    """The documents of text files, in order; they can be read several times.

    The files are `paths`, or else the settings name them. Other files had
    `bad_lines_before`; `num_bad_lines` were skipped in the last reading.
    """

    def __init__(
        self,
        settings: CorpusSettings,
        paths: Sequence[str] | None = None,
        *,
        bad_lines_before: int = 0,
    ) -> None:
        self.paths = paths or globs.expand_globs(settings.input_file or "")
        self.num_bad_lines = 0
        self._settings = settings
        self._bad_lines_before = bad_lines_before

    def __iter__(self) -> Iterator[Document]:
        self.num_bad_lines = 0
        for path in self.paths:
            with text_lines.open_read(path) as file:
                yield from self._read(path, file)

    def _read(self, path: str, file: IO[bytes]) -> Iterator[Document]:
        """Yields the documents of a file; its name says its format."""
        name = text_lines.uncompressed_name(path).lower()
        ending = os.path.splitext(_PART_OF_DUMP.sub("", name))[1]
        if reader := registry.DOCUMENT_READERS.get(ending):
            read_texts: DocumentReader = registry.load(reader)
            field = self._settings.text_field
            texts = read_texts(file, path, field, self._skip)
        else:
            lines = text_lines.numbered_lines(
                file, path, on_bad_line=self._skip
            )
            # Blank lines before the first sentence end no document.
            first = next((x for x in lines if x[1].strip()), (0, ""))
            lines = itertools.chain([first], lines)
            has_json = name.endswith(_JSON_NAMES)
            if not has_json and not _is_object(first[1]):
                yield from _text_documents(line for _, line in lines)
                return
            texts = self._json_texts(path, lines)
        for text in texts:
            for part in _parts(text):
                yield Document(text=part, is_split=False)

    def _json_texts(
        self, path: str, lines: Iterator[tuple[int, str]]
    ) -> Iterator[str]:
        field = self._settings.text_field
        for number, line in lines:
            if not line.strip():
                continue
            try:
                text = text_lines.checked_text(json.loads(line)[field])
            except (KeyError, RecursionError, TypeError, ValueError) as error:
                self._skip(
                    f'{path!r}, line {number} is no JSON object {{"{field}": '
                    f"...}} with a text ({error}). `text_field` names another "
                    "field."
                )
            else:
                yield text

    def _skip(self, message: str) -> None:
        """Counts a bad line; raises ValueError if there are too many."""
        self.num_bad_lines += 1
        num_bad_lines = self._bad_lines_before + self.num_bad_lines
        if num_bad_lines > self._settings.max_bad_lines:
            raise ValueError(
                f"{message} Correct the line, or skip such lines. Received: "
                f"max_bad_lines={self._settings.max_bad_lines}."
            )
        _LOGGER.debug("Skipped: %s", message)


def merged_share(
    documents: Iterable[Document], form: Callable[[str], Hashable]
) -> float:
    """Returns the share of distinct words that have the form of another word.

    It looks at the first words of the documents; case does not count.
    """
    words = (word for document in documents for word in document.text.split())
    distinct = {
        unicodedata.normalize("NFKC", word.lower())
        for word in itertools.islice(words, _SAMPLE_WORDS)
    }
    sizes = collections.Counter(map(form, distinct)).values()
    return sum(size for size in sizes if size > 1) / max(1, len(distinct))


def _is_object(line: str) -> bool:
    """Returns whether a line is a JSON object, and so no sentence."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _text_documents(lines: Iterator[str]) -> Iterator[Document]:
    sentences: list[str] = []
    size = 0
    for line in itertools.chain(lines, [""]):
        if line.strip():
            sentences.append(line)
            size += _size(line)
            if size < DOCUMENT_CHARACTERS:
                continue
        if sentences:
            yield Document(text="\n".join(sentences), is_split=True)
            sentences, size = [], 0


def _parts(text: str) -> Iterator[str]:
    """Splits a text that is too long, at white space if there is any."""
    limit = max(1, DOCUMENT_CHARACTERS * len(text) // max(1, _size(text)))
    start = 0
    while start < len(text):
        end = start + limit
        if end < len(text):
            space = max(text.rfind(mark, start, end) for mark in "\n ")
            end = space + 1 if space > start else end
        part = text[start:end]
        if part.strip():
            yield part
        start = end


def _sentences(text: str) -> list[str]:
    return list(sentencex.segment("en", text))


def _sentences_of_any(paragraph: str) -> Iterator[str]:
    """Yields the sentences of a paragraph of any length, part by part."""
    while len(paragraph) > _LONGEST_PARAGRAPH:
        part = paragraph[:_LONGEST_PARAGRAPH]
        *whole, last = _sentences(part)
        # It may go on after the part.
        start = part.rfind(last)
        if start <= 0:
            whole, start = [part], len(part)
        yield from whole
        paragraph = paragraph[start:]
    yield from _sentences(paragraph)


def _size(text: str) -> int:
    if text.isascii():
        return len(text)
    # Foreign names in a text of another script do not count.
    is_mostly_cjk = 2 * len(_CJK_TEXT.sub("", text)) < len(text)
    return len(text) * (_CJK_SIZE if is_mostly_cjk else 1)
