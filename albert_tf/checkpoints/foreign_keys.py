"""The keys of the files of other programs: a closed table for each file.

A key of the tables in `foreign_keys.json` is used, has no effect here (for the
reason that is given), or is refused unless it has a value that changes nothing.
A key that is in no table is logged.

Source: the readers of transformers 5.24, of sentence-transformers 6.2 and of
tokenizers 0.23; and keys of older versions.
"""

import functools
import itertools
import logging
import os

from albert_tf import checks, files

_LOGGER = logging.getLogger(__name__)


@functools.cache
def tables() -> files.JsonObject:
    """Returns the tables by the names of the files."""
    return files.read_json_object(f"{os.path.splitext(__file__)[0]}.json")


def refused(path: str, content: files.JsonObject, kind: str = "") -> list[str]:
    """Returns the refused settings in a file, `name=value`; logs unknown keys.

    `kind` names the table; by default, the name of the file does.
    """
    table = tables()[kind or os.path.basename(path)]
    lists = table["used"], table["refused unless"], *table["no effect"].values()
    if unknown := content.keys() - {*itertools.chain(*lists)}:
        names = checks.listed(sorted(unknown))
        _LOGGER.warning("%s: unknown keys are not read: %s", path, names)
    return [
        f"{name}={content[name]!r}"
        for name, neutral in table["refused unless"].items()
        if text(content.get(name)) not in (None, *neutral)
    ]


def text(token: object) -> object:
    """Returns the text of a token, which may be stated with its options."""
    return token.get("content", token) if isinstance(token, dict) else token
