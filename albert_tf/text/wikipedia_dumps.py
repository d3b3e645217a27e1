"""Reads the articles of a Wikipedia as text, from its XML dump.

Data flow: `enwiki-...-pages-articles.xml.bz2` -> [this file] -> texts.
mwparserfromhell parses wiki text. A page is in memory at a time.

Source: Devlin et al. 2018, section 3.1: only text passages are extracted;
lists, tables and headings are left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any
from xml.etree import ElementTree

from albert_tf import checks

_ARTICLES = "0"
# Numbers of the namespaces whose links show no text: media, files, categories.
_HIDDEN = ("-2", "6", "14")
# Names that every wiki knows, in addition to the names of its language.
_HIDDEN_NAMES = frozenset({"media", "file", "image", "category"})
_LIST_MARKS = ("*", "#", ":", ";")
_TAGS_WITHOUT_TEXT = frozenset(
    [
        *("ce", "chem", "gallery", "graph", "hiero", "imagemap", "indicator"),
        *("mapframe", "maplink", "math", "ref", "references", "score"),
        *("section", "syntaxhighlight", "source", "table", "templatestyles"),
        "timeline",
    ]
)
_SWITCH = re.compile(r"__[A-Z]+__")
_WIKI_TEXT = "wikitext"


def read_texts(
    file: IO[bytes], name: str, _: str, on_bad_text: Callable[[str], None]
) -> Iterator[str]:
    """Yields the text passages of articles, no redirects; some may be blank.

    See `documents.DocumentReader`. A page is bad if it cannot be parsed.
    """
    with checks.needs_package("mwparserfromhell", repr(name)):
        import mwparserfromhell
        from mwparserfromhell import parser
    hidden = set(_HIDDEN_NAMES)
    errors = parser.ParserError, RecursionError, UnicodeEncodeError
    for number, title, wiki_text in _articles(file, name, hidden):
        try:
            code = mwparserfromhell.parse(wiki_text)
            _leave_out(code, hidden)
            text = code.strip_code(normalize=True, collapse=True)
            text = _SWITCH.sub("", text).strip()
            text.encode()  # Half a character may be written as a number.
        except errors as error:
            on_bad_text(
                f"{name!r}, page {number} ({title!r}) cannot be parsed "
                f"({error})."
            )
        else:
            yield text


def _leave_out(code: Any, hidden: set[str]) -> None:
    """Removes nodes that are no passage of text, and `hidden` namespaces."""
    stripped = (_stripped(node, hidden) for node in _without_lists(code.nodes))
    code.nodes = [node for node in stripped if node is not None]


def _without_lists(nodes: Iterable[Any]) -> Iterator[Any]:
    from mwparserfromhell.nodes import Tag, Text

    in_list = False
    for node in nodes:
        if isinstance(node, Tag) and node.wiki_markup in _LIST_MARKS:
            in_list = True
        elif not in_list:
            yield node
        elif isinstance(node, Text) and "\n" in node.value:
            # A list item ends with its line.
            yield Text("\n" + node.value.partition("\n")[2])
            in_list = False


def _stripped(node: Any, hidden: set[str]) -> Any:
    """Returns a node without its hidden parts; None if nothing stays."""
    from mwparserfromhell.nodes import Heading, Tag, Text, Wikilink

    inner = None
    if isinstance(node, Heading):
        return None
    if isinstance(node, Tag):
        tag = str(node.tag).strip().lower()
        if tag in _TAGS_WITHOUT_TEXT:
            return None
        if tag == "br":
            return Text("\n")
        inner = node.contents
    elif isinstance(node, Wikilink):
        namespace, mark, _ = str(node.title).partition(":")
        if mark and namespace.strip().lower() in hidden:
            return None
        inner = node.text
    if inner is not None:
        _leave_out(inner, hidden)
    return node


def _articles(
    file: IO[bytes], name: str, hidden: set[str]
) -> Iterator[tuple[int, str, str]]:
    """Yields numbers of pages, titles and wiki text of articles.

    Adds the names of hidden namespaces in the language of the dump.
    """
    number = 0
    try:
        events = ElementTree.iterparse(file, events=("start", "end"))
        _, root = next(events)
        if _tag(root) != "mediawiki":
            raise ValueError(
                f"{name!r} is not a Wikipedia dump: its XML begins with "
                f"<{_tag(root)}>, expected <mediawiki>."
            )
        page, wiki_text = root, ""
        for event, element in events:
            tag = _tag(element)
            if event == "start":
                if tag == "page":
                    page, wiki_text = element, ""
            elif tag == "namespace" and element.get("key") in _HIDDEN:
                hidden.add((element.text or "").lower())
            elif tag == "revision":
                model = element.findtext("{*}model", _WIKI_TEXT)
                text = element.findtext("{*}text", "")
                wiki_text = text if model == _WIKI_TEXT else ""
                # A page may have more of them than fit in memory.
                page.remove(element)
            elif tag == "page":
                number += 1
                is_redirect = page.find("{*}redirect") is not None
                if page.findtext("{*}ns") == _ARTICLES and not is_redirect:
                    yield number, page.findtext("{*}title", ""), wiki_text
                root.clear()
    except ElementTree.ParseError as error:
        raise ValueError(
            f"{name!r}, after page {number}: damaged, or no XML ({error}). "
            "Create or copy the file again."
        ) from error


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
