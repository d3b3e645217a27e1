import io
from xml.sax import saxutils

import pytest

from albert_tf.text import wikipedia_dumps

HEAD = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">'
    "<siteinfo><namespaces>"
    '<namespace key="0" /><namespace key="6">Datei</namespace>'
    '<namespace key="14">Kategorie</namespace>'
    "</namespaces></siteinfo>"
)
END = "</mediawiki>"


def page(*texts, ns=0, extra="", model="wikitext"):
    revisions = "".join(
        f"<revision><model>{model}</model>"
        f'<text xml:space="preserve">{saxutils.escape(text)}</text></revision>'
        for text in texts
    )
    return f"<page><title>A</title><ns>{ns}</ns>{extra}{revisions}</page>"


def read(text, bad_pages=None):
    pytest.importorskip("mwparserfromhell")
    data = text if isinstance(text, bytes) else text.encode()
    on_bad_page = None if bad_pages is None else bad_pages.append
    return list(
        wikipedia_dumps.read_texts(
            io.BytesIO(data), "wiki.xml", "text", on_bad_page
        )
    )


def test_articles_are_read_and_nothing_else():
    pages = [
        page("One & <b>only</b>."),
        page("#REDIRECT [[B]]", extra='<redirect title="B" />'),
        page("A discussion.", ns=1),
        page("Old.", "New."),  # The history of a page.
        page("a { color: red }", model="css"),
        page(),
    ]

    assert read(HEAD + "".join(pages) + END) == ["One & only.", "New.", "", ""]


@pytest.mark.parametrize(
    ("wiki_text", "text"),
    [
        ("'''Ulm''' is ''old''.", "Ulm is old."),
        ("A [[town]] in [[Germany|a country]].", "A town in a country."),
        ("See [http://a.b this] now.", "See this now."),
        ("A&nbsp;&amp; B&mdash;C", "A\xa0& B\N{EM DASH}C"),
        # Templates, references, comments, switches.
        ("{{Infobox|a=[[b]]}}One.{{cn}} Two.", "One. Two."),
        ("One.<ref name=a>No.</ref> <ref name=a />Two.", "One. Two."),
        ("''One.<ref>No.</ref>'' Two.", "One. Two."),
        ("One.<!-- No. -->\n__NOTOC__", "One."),
        # Files and categories, in both languages, with links in their captions.
        ("[[File:a.jpg|thumb|A [[b]].]]One.", "One."),
        ("[[Datei:a.jpg|mini|A [[b]].]]One.", "One."),
        ("One.\n[[Kategorie:B]]\n[[category:C]]", "One."),
        ("A [[:Kategorie:B|link]].", "A link."),
        # Headings, lists, tables.
        ("One.\n== Head ==\nTwo.", "One.\n\nTwo."),
        ("One.\n* a ''b'' [[c]]\n** d\n# e\n: f\nTwo.", "One.\n\nTwo."),
        ('One.\n{| class="a"\n! a\n|-\n| b || c\n|}\nTwo.', "One.\n\nTwo."),
        ("One.\n<gallery>\nFile:a.jpg|b\n</gallery>\nTwo.", "One.\n\nTwo."),
        ("One.<br />Two.", "One.\nTwo."),
        ("x<sup>2</sup> and <math>y^2</math>", "x2 and"),
        # What never ends is text.
        ("{{One. [[Two.", "{{One. [[Two."),
    ],
)
def test_only_passages_of_text_stay(wiki_text, text):
    assert read(HEAD + page(wiki_text) + END) == [text]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"'wiki\.xml', after page 0: damaged, or no XML \(no element"),
        (HEAD + page("One.") + page("Two.")[:-30], "after page 1: damaged"),
        (HEAD + page("One."), "after page 1: damaged"),
        ("<rss><page/></rss>", "begins with <rss>, expected <mediawiki>"),
        ((HEAD + page("Caf\xe9") + END).encode("latin-1"), "not well-formed"),
    ],
)
def test_a_damaged_dump_is_an_error_that_says_after_which_page(text, message):
    with pytest.raises(ValueError, match=message):
        read(text)


def test_a_page_with_a_character_that_does_not_exist_is_a_bad_page():
    bad_pages = []
    pages = page("One.") + page("A lone &#xD800; surrogate.")

    assert read(HEAD + pages + END, bad_pages) == ["One."]
    (message,) = bad_pages
    assert message.startswith("'wiki.xml', page 2 ('A') cannot be parsed (")
