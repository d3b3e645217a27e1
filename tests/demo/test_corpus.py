import pytest

from demo import corpus

DOCSTRING = """\
Writes the `rows` of a *small table* to **a file** [1]_.

See :class:`~csv.Dialect` or [the manual](address) for the form.  It's common.

Example::

    for row in rows:
        write(row)

* The first item of a list, e.g. this one, is a sentence.
- The second item goes on
  over two lines.

>>> print("This is a session.")

Args:
    rows: This is about a parameter of the function.

+----------------------------+
| A table is not a sentence. |
+----------------------------+

Parameters
----------
rows : list of str
    This is about a parameter as well.

Notes
-----
The notes of a docstring are prose.

```
This is code between fences.
```

.. note:: This is a directive of its own.

Calls f(x)[0], g(y)[1] and h(z)[2] are mostly code.

Uses my_name and otherName in place of words.

Too short.
"""


def test_prose_is_kept_without_markup_and_the_rest_is_left_out():
    assert list(corpus.prose_sentences(DOCSTRING)) == [
        "Writes the rows of a small table to a file.",
        "See Dialect or the manual for the form.",
        "The first item of a list, e.g. this one, is a sentence.",
        "The second item goes on over two lines.",
        "The notes of a docstring are prose.",
    ]


def test_docstrings_are_found_in_the_order_of_the_file():
    source = b'''"""Module."""
if True:
    class Box:
        """Class."""
        def open(self):
            """Method."""
async def load():
    """Coroutine."""
    return "text"
'''

    found = list(corpus.docstrings(source))

    assert found == ["Module.", "Class.", "Method.", "Coroutine."]


@pytest.mark.parametrize("source", [b"def f(:", b'"\\d"\n1 is 1', b"\0", b""])
def test_files_that_are_broken_or_have_no_docstring_give_none(source):
    assert not list(corpus.docstrings(b"x = 1\n" + source))


@pytest.fixture
def package(tmp_path):
    """A function that writes source files; returns their folder."""

    def write(**docstrings):
        for name, texts in docstrings.items():
            functions = [
                f"def f{number}():\n    {text!r}\n"
                for number, text in enumerate(texts)
            ]
            path = tmp_path / f"{name}.py"
            path.write_text("".join(functions), encoding="utf-8")
        return tmp_path

    return write


def test_a_document_is_a_docstring_and_copies_are_left_out(package):
    shared = "This sentence is in both of them."
    long = "Returns a copy of the first of all files " + "with every line " * 9
    folder = package(
        a=[f"The first one begins so. {shared}", f"{long}changed."],
        b=[f"The second one begins so. {shared}", f"{long}as it was."],
        c=["THE FIRST one begins so - this sentence is in both of them!"],
    )

    assert list(corpus.documents_by_file([folder])) == [
        [["The first one begins so.", shared], [f"{long}changed."]],
        [["The second one begins so."]],
    ]


def test_tests_and_copied_packages_are_not_read(package):
    folder = package(test_a=[], b_test=[], b=[], a=[])
    for name in ("tests", "compat"):
        (folder / name).mkdir()
        (folder / name / "c.py").touch()

    names = [path.name for path in corpus.source_files(folder)]

    assert names == ["a.py", "b.py"]


def test_whole_files_are_held_out(monkeypatch):
    files = [[[f"This is number {number}."]] for number in range(50)]
    monkeypatch.setattr(corpus, "documents_by_file", lambda _: iter(files))

    train, held_out = corpus.train_and_held_out()

    assert held_out == [["This is number 7."], ["This is number 32."]]
    assert len(train) == 48
