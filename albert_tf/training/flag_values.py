"""Converts settings: keywords of Python to values, values to text.

Data flow: keywords of `albert_tf.finetune` -> [this file] -> settings of a run;
settings -> [this file] -> `flags.txt`.
"""

import csv
import difflib
import io
import os
import reprlib
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from albert_tf import settings
from albert_tf.settings import SettingValues


def checked(
    keywords: SettingValues,
    config_classes: Iterable[type],
    *,
    lists: Collection[str] = (),
) -> dict[str, Any]:
    """Converts keywords to the values that flags would have; drops None.

    Lists become tuples, paths become texts, and a text becomes the tuple of its
    parts between commas if its setting is a tuple. The settings in `lists` may
    have several values.

    Raises:
        ValueError: A keyword is no setting of the configs, or its value is of
            another type.
    """
    fields = settings.fields_of(*config_classes)
    kinds = {name: settings.type_of(field) for name, field in fields.items()}
    result = {}
    for name, value in keywords.items():
        if name not in kinds:
            close = difflib.get_close_matches(name, kinds, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"There is no setting {name!r}.{hint}")
        if name in lists and isinstance(value, list | tuple) and value:
            result[name] = tuple(
                _converted(name, item, kinds[name]) for item in value
            )
        elif value is not None:
            result[name] = _converted(name, value, kinds[name])
    return result


def _converted(name: str, value: object, kind: type) -> Any:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, np.generic):  # a number of NumPy
        value = value.item()
    # A dict or a set would have no order that the user has chosen.
    if kind is tuple and isinstance(value, str | list | tuple):
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(map(str, parts))
    accepted = int | float if kind is float else kind
    is_switch = isinstance(value, bool)
    if not isinstance(value, accepted) or (is_switch and kind is not bool):
        raise ValueError(
            f"`{name}` must be of type {kind.__name__}. Received: "
            f"{reprlib.repr(value)}."
        )
    return kind(value)


def as_text(setting_values: SettingValues) -> str:
    r"""Returns settings as flags, one `--name=value` a line, sorted.

    >>> as_text({"do_train": True, "ngram": 3, "labels": ("a", "b")})
    '--do_train\n--labels=a,b\n--ngram=3\n'

    Settings that are None or empty are left out.
    """
    lines = []
    for name, value in setting_values.items():
        if isinstance(value, bool):
            lines.append(f"--{name}" if value else f"--no{name}")
        elif isinstance(value, tuple | list):
            buffer = io.StringIO()
            csv.writer(buffer).writerow(value)
            lines += [f"--{name}={buffer.getvalue().strip()}"] * bool(value)
        elif value not in (None, ""):
            lines.append(f"--{name}={value}")
    text = "".join(f"{line}\n" for line in sorted(lines))
    text.encode()  # A path that is not UTF-8 could not be written.
    return text
