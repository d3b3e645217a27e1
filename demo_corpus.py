"""English sentences out of the topics that Python's `help()` knows.

Data flow: pydoc_data.topics (reST) -> [this file] -> lists of sentences.
Floor: scripts; for `demo.py`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

# Of every ten topics, the fifth is kept out of training.
HELD_OUT_EVERY, HELD_OUT_OFFSET = 10, 4
MIN_SENTENCE_WORDS = 4
MIN_SENTENCES = 2
# Share of letters and plain punctuation; below it, a sentence is mostly code.
MIN_PLAIN_SHARE = 0.9

_PLAIN_MARKS = " ,.;'-"
# A block that is a table, an underlined title, a Python session, a grammar or
# a footnote has such a line.
_NOT_PROSE = re.compile(
    r"^\s*([+|]|[*=~^-]{4}|>>>|\.\.\. |\[\d+\])|::=", re.MULTILINE
)
_BULLET_OR_REFERENCE = re.compile(r"^(\*|-|\d+\.) |\s*\[\d+\]")
_EMPHASIS = re.compile(r"(?<!\w)\*\*?(\w(?:[^*]*\w)?)\*\*?(?!\w)")
_QUOTES = str.maketrans({"‘": "'", "’": "'", '"': None})
_SENTENCE = re.compile(r"[A-Z].*[.!?:]")


def train_and_held_out() -> tuple[list[list[str]], list[list[str]]]:
    """Returns the documents to train on, and those kept for evaluation.

    A document is a list of sentences; no sentence is in both parts.
    """
    from pydoc_data import topics  # half a megabyte, for this call only

    train = list(documents(topics.topics))
    held_out = train[HELD_OUT_OFFSET::HELD_OUT_EVERY]
    del train[HELD_OUT_OFFSET::HELD_OUT_EVERY]
    return train, held_out


def documents(topics: Mapping[str, str]) -> Iterator[list[str]]:
    """Yields the prose of each topic as sentences, short topics first.

    Long topics repeat short ones, so a sentence is kept only where it comes
    first. Topics of fewer than two sentences are left out.
    """
    seen: set[str] = set()
    for name in sorted(topics, key=lambda name: (len(topics[name]), name)):
        own = dict.fromkeys(prose_sentences(topics[name]))
        sentences = [sentence for sentence in own if sentence not in seen]
        seen.update(sentences)
        if len(sentences) >= MIN_SENTENCES:
            yield sentences


def prose_sentences(topic: str) -> Iterator[str]:
    """Yields the sentences of a reST text; tables, code and titles are not.

    >>> list(prose_sentences('The "if" statement chooses *one* branch. [1]'))
    ['The if statement chooses one branch.']
    """
    import sentencex  # takes a while, and `--help` need not wait for it

    for block in re.split(r"\n\s*\n", topic):
        if not _NOT_PROSE.search(block):
            text = _without_markup(" ".join(block.split()))
            sentences = map(str.strip, sentencex.segment("en", text))
            yield from filter(_is_prose, sentences)


def to_text(parts: Iterable[Sequence[str]]) -> str:
    """Returns one sentence a line, and an empty line between documents."""
    return "\n\n".join("\n".join(sentences) for sentences in parts) + "\n"


def describe(parts: Sequence[Sequence[str]]) -> str:
    """Returns how much text it is.

    >>> describe([["This is one.", "This is two."]])
    '1 topics, 2 sentences, 6 words'
    """
    sentences = [sentence for part in parts for sentence in part]
    num_words = sum(len(sentence.split()) for sentence in sentences)
    return (
        f"{len(parts)} topics, {len(sentences):,} sentences, "
        f"{num_words:,} words"
    )


def _without_markup(text: str) -> str:
    text = _BULLET_OR_REFERENCE.sub("", text)
    return _EMPHASIS.sub(r"\1", text).translate(_QUOTES)


def _is_prose(sentence: str) -> bool:
    num_plain = sum(c.isalpha() or c in _PLAIN_MARKS for c in sentence)
    return (
        _SENTENCE.fullmatch(sentence) is not None
        and len(sentence.split()) >= MIN_SENTENCE_WORDS
        and num_plain >= MIN_PLAIN_SHARE * len(sentence)
    )
