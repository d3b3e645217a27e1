"""English prose from the docstrings of Python and of installed packages.

Data flow: Python source files -> [this file] -> documents (lists of
sentences) to train on and to evaluate on.
Files are parsed, never imported.

A document is one docstring, without code, tables, parameter lists and sentences
full of identifiers. Docstrings are often copied (deprecated aliases, second
versions of a module), so texts with the same first letters are taken once;
otherwise the held-out files would contain what the model has seen.
"""

import ast
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures

# What `requirements.lock` installs for running, so that a machine with
# development packages gets the same corpus.
PACKAGES = """
    absl anyio click fsspec google grpc h5py httpcore2 httpx2 huggingface_hub
    jinja2 joblib keras keras_hub markdown matplotlib narwhals numpy optree
    packaging PIL pygments requests rich scipy sklearn tensorboard tensorflow
    tensorflow_text tqdm urllib3 werkzeug
""".split()
# One source file of this many is kept out of training.
HELD_OUT_EVERY, HELD_OUT_OFFSET = 25, 7
# Texts that agree in so many first letters count as the same.
NUM_COMPARED_LETTERS = 80
MIN_SENTENCE_WORDS, MAX_SENTENCE_CHARACTERS = 4, 400
# Shares of a sentence; beyond them it is mostly code or mathematics.
MIN_PLAIN_SHARE, MAX_CODE_SHARE = 0.96, 0.08

# Tests, generated or copied modules, and what is no part of the library.
_SKIPPED_FOLDER = re.compile(
    r"_api|_tf_keras|_vendor|compat|distutils|ensurepip|externals|idlelib"
    r"|lib2to3|pydoc_data|site-packages|test|testing|tests|turtledemo"
)
_SKIPPED_FILE = re.compile(r"test_.*|.*_test\.py")
_FENCED = re.compile(r"^\s*(```|~~~).*?(^\s*\1\s*$|\Z)", re.M | re.S)
_UNDERLINE = re.compile(r"[=~^*#\"`-]{3,}")
# Headings of sections that list parameters, code or literature.
_SKIPPED_SECTION = re.compile(
    r"(arg|argument|attribute|call arg|call argument|example|input shape"
    r"|keyword argument|kwarg|method|other parameter|output shape|parameter"
    r"|raise|reference|return|see also|usage|warn|yield)s?\b[^.]{0,12}:*",
    re.IGNORECASE,
)
# A block with such a line is a session, a directive, a table, a grammar, a
# parameter or code.
_NOT_PROSE = re.compile(
    r"^\s*(>>>|\.\.\.? |[+|$#@]|:\w|\[\d+\]|(def|class|import|from) \w"
    r"|\w+ = |\w+\(|\S+ : )|::=",
    re.MULTILINE,
)
_BULLET = r"(?:[*•-]|\d+[.)]) "
_ITEM = re.compile(rf"\n(?=\s*{_BULLET})")
# Markup, and what is kept of it.
_MARKUP = {
    # :class:`~keras.Model`
    r":[\w:+-]+:`[~!]?(?:[^`<]*\.)?([^`<]+?)(\s*<[^`]*>)?`": r"\1",
    r"\[([^\]]+)\]\([^)]*\)": r"\1",  # [text](address)
    r"\s*\[\w+\]_": "",  # [1]_
    r"`([^`<]+)\s+<[^>]*>`_*": r"\1",  # `text <address>`_
    r"`+": "",  # `name`, ``code``
    r"(?<!\w)\*\*?(\w(?:[^*]*\w)?)\*\*?(?!\w)": r"\1",  # *text*, **text**
    rf"^{_BULLET}\s*": "",
}
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": None, "”": None, '"': None})
_SENTENCE = re.compile(r"[A-Z].*[.!?:]")
_SENTENCE_END = re.compile(r"[.!?:]\s")
_PLAIN_MARKS = " ,.;'-"
_IDENTIFIER = re.compile(
    r"\w[_=/\\]\w|\w\w\.\w|[a-z][A-Z]|_\w|\w_|[A-Za-z]\d|\d[A-Za-z]"
)
# What may have a docstring.
_DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Document = list[str]


def train_and_held_out() -> tuple[list[Document], list[Document]]:
    """Returns documents of Python and of the installed ones of `PACKAGES`."""
    site_packages = pathlib.Path(sysconfig.get_path("purelib"))
    folders = [pathlib.Path(sysconfig.get_path("stdlib"))]
    folders += [site_packages / name for name in PACKAGES]
    train = list(documents_by_file(folders))
    held_out = train[HELD_OUT_OFFSET::HELD_OUT_EVERY]
    del train[HELD_OUT_OFFSET::HELD_OUT_EVERY]
    return sum(train, []), sum(held_out, [])


def documents_by_file(
    folders: Iterable[pathlib.Path],
) -> Iterator[list[Document]]:
    """Yields the documents of each source file that has any.

    A docstring or a sentence that has come before is left out.
    """
    seen_docstrings: set[str] = set()
    seen_sentences: set[str] = set()
    paths = [path for folder in folders for path in source_files(folder)]
    with futures.ProcessPoolExecutor() as pool:
        for found in pool.map(_read, paths, chunksize=32):
            documents = [
                [s for s in sentences if _is_new(s, seen_sentences)]
                for docstring, sentences in found
                if _is_new(docstring, seen_docstrings)
            ]
            if any(documents):
                yield list(filter(None, documents))


def source_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the Python files of a folder but tests and copies, sorted."""
    return sorted(
        path
        for path in folder.rglob("*.py")
        if not _SKIPPED_FILE.fullmatch(path.name)
        and not any(
            map(_SKIPPED_FOLDER.fullmatch, path.relative_to(folder).parts)
        )
    )


def docstrings(source: bytes) -> Iterator[str]:
    """Yields the docstrings of a module; none if it is not valid Python."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    # Only statements that may hold definitions: `ast.walk` looks at each
    # expression as well, which takes four times as long.
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, _DESCRIBED) and (text := ast.get_docstring(node)):
            yield text
        if isinstance(node, (*_DESCRIBED, ast.If, ast.Try)):
            nodes += reversed(node.body)


def prose_sentences(docstring: str) -> Iterator[str]:
    """Yields the English sentences of a docstring, without markup.

    >>> list(prose_sentences("Returns the `name` of a *file* [1]_."))
    ['Returns the name of a file.']
    """
    for block in _prose_blocks(docstring):
        for pattern, replacement in _MARKUP.items():
            block = re.sub(pattern, replacement, block)
        yield from filter(_is_prose, _split(block.translate(_QUOTES)))


def to_text(documents: Iterable[Sequence[str]]) -> str:
    """Returns one sentence a line, and an empty line between documents."""
    return "\n\n".join("\n".join(sentences) for sentences in documents) + "\n"


def describe(text: str) -> str:
    r"""Returns the size of a text in the form of `to_text`.

    >>> describe("This is one.\nThis is two.\n\nThis is three.\n")
    '2 docstrings, 3 sentences, 9 words'
    """
    num_documents = text.count("\n\n") + 1
    num_sentences = sum(map(bool, text.splitlines()))
    return (
        f"{num_documents:,} docstrings, {num_sentences:,} sentences, "
        f"{len(text.split()):,} words"
    )


def _read(path: pathlib.Path) -> list[tuple[str, Document]]:
    found = docstrings(path.read_bytes())
    return [(text, list(prose_sentences(text))) for text in found]


def _prose_blocks(docstring: str) -> Iterator[str]:
    """Yields paragraphs and items of lists, each as one line."""
    is_skipped = False
    for block in re.split(r"\n\s*\n", _FENCED.sub("", docstring)):
        first, _, rest = block.partition("\n")
        underline, _, below = rest.partition("\n")
        if _UNDERLINE.fullmatch(underline.strip()):
            is_skipped = bool(_SKIPPED_SECTION.fullmatch(first.strip()))
            block = below
        elif _SKIPPED_SECTION.fullmatch(first.strip()):
            # "Args:", with an indented list below.
            continue
        if is_skipped or _NOT_PROSE.search(block):
            continue
        for item in _ITEM.split(block):
            # Lines that are indented otherwise belong to something else.
            indents = {len(x) - len(x.lstrip()) for x in item.splitlines()}
            if indents == {0} or re.match(rf"\s*{_BULLET}", item):
                yield " ".join(item.split())


def _split(text: str) -> Iterable[str]:
    if not _SENTENCE_END.search(text):
        return [text]
    import sentencex  # takes a while, and `--help` need not wait for it

    return map(str.strip, sentencex.segment("en", text))


def _is_prose(sentence: str) -> bool:
    words = sentence.split()
    num_plain = sum(c.isalpha() or c in _PLAIN_MARKS for c in sentence)
    num_code = sum(bool(_IDENTIFIER.search(w.rstrip(".,;:"))) for w in words)
    return (
        _SENTENCE.fullmatch(sentence) is not None
        and " ." not in sentence  # something was taken out
        and len(words) >= MIN_SENTENCE_WORDS
        and len(sentence) <= MAX_SENTENCE_CHARACTERS
        and num_plain >= MIN_PLAIN_SHARE * len(sentence)
        and num_code <= MAX_CODE_SHARE * len(words)
    )


def _is_new(text: str, seen: set[str]) -> bool:
    """Adds a text's first letters to `seen`, unless they are there."""
    letters = re.sub(r"[^a-z]", "", text[: 4 * NUM_COMPARED_LETTERS].lower())
    start = letters[:NUM_COMPARED_LETTERS]
    is_new = start not in seen
    seen.add(start)
    return is_new
