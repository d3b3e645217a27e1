"""Which words an answer depends on: each is left out once (occlusion).

Data flow: a text -> texts without one word -> [predictor] -> changes.

It says how the answer changes without a word. It does not say why: words that
say the same twice both seem to have no effect, and a text without a word may
be unlike all texts of the training.
"""

import dataclasses
import html
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import checks, console
from albert_tf.scripts import UNSPACED
from albert_tf.tasks.task_data import TextAnswer

if TYPE_CHECKING:
    from albert_tf.inference.predictor import Predictor

# Letters and digits with their accents, also joined by a mark; a character of
# scripts without blanks. Other marks are never left out.
_LETTERS = rf"(?:[^\W{UNSPACED}]\u0300*)+"
_WORD = re.compile(rf"[{UNSPACED}]\u0300*|{_LETTERS}(?:['’.-]{_LETTERS})*")
# Names of the texts of a tuple, and those of a dict.
_TUPLE = ("text_a", "text_b", "text_c")
_NAMES = (*_TUPLE, "text", "article", "question", "context")
# With more words, neighbours are left out together.
_MOST_PARTS = 200
# A change this large has the full colour, if none is larger.
_LARGE_CHANGE = 0.1
# Backgrounds of a terminal, the weakest first: the answer needs the word, or
# is likelier without it.
_GREENS, _REDS = (22, 28, 34), (52, 88, 124)
_NOTE = (
    "Each word was left out once. Green: the answer needs it; red: the answer "
    "is likelier without it. It says what the answer depends on, not why."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """An answer, and how it changes without a word; notebooks show it.

    Args:
        answer: The answer to the whole input.
        of: What `value` is: the probability of a label, of an option, of an
            answer; the mean one of the entities; or the predicted number.
        value: Its value for the whole input.
        texts: The texts of the input by name.
        words: For each word, or run of words of a long text: its `text`, the
            name of its `field`, `start` and `end` in it, and `change`, by how
            much the value is higher with the word than without it.
    """

    answer: TextAnswer
    of: str
    value: float
    texts: Mapping[str, str]
    words: list[dict[str, Any]]

    def _pieces(self) -> list[tuple[str, float]]:
        """Returns the texts in pieces, with -1 to 1 for the words' changes."""
        changes = [abs(word["change"]) for word in self.words]
        largest = max([_LARGE_CHANGE, *changes])
        pieces = []
        for name, text in self.texts.items():
            position = 0
            for word in self.words:
                if word["field"] == name:
                    pieces.append((text[position : word["start"]], 0.0))
                    pieces.append((word["text"], word["change"] / largest))
                    position = word["end"]
            pieces.append((text[position:] + "\n", 0.0))
        return pieces

    def as_text(self, *, has_colors: bool = False) -> str:
        """Returns lines for a terminal; without colors, a word each."""
        lines = [f"{self.of}: {self.value:.4g}"]
        if has_colors:
            painted = "".join(_painted(*piece) for piece in self._pieces())
            return "\n".join([*lines, painted + _NOTE, ""])
        for word in self.words:
            lines.append(f"{word['change']:+.4f}  {word['text']}")
        return "\n".join([*map(console.printable, lines), ""])

    def _repr_html_(self) -> str:
        marked = "".join(itertools.starmap(_marked, self._pieces()))
        head = html.escape(f"{self.of}: {self.value:.4g}")
        text = f'<p style="white-space: pre-wrap">{marked}</p>'
        return f"<p>{head}</p>{text}<p>{_NOTE}</p>"


def _painted(text: str, strength: float) -> str:
    text = console.printable(text)
    level = round(abs(strength) * len(_GREENS))
    if not level:
        return text
    color = (_GREENS if strength > 0 else _REDS)[level - 1]
    return f"\x1b[97;48;5;{color}m{text}\x1b[0m"


def _marked(text: str, strength: float) -> str:
    text = html.escape(text)
    if not strength:
        return text
    color = "40, 160, 70" if strength > 0 else "220, 60, 50"
    style = f"background: rgba({color}, {abs(strength):.2f})"
    return f'<span style="{style}">{text}</span>'


def explain(
    predictor: "Predictor",
    item: Any,
    *,
    label: str | None = None,
    batch_size: int = 32,
) -> Explanation:
    """Explains one answer; see `Predictor.explain`."""
    [answer] = predictor.predict([item], batch_size=batch_size)
    of, value_of = _value(answer, label)
    value, texts = value_of(answer), _texts(item, predictor.text_columns)
    parts = _parts(texts, answer)
    if not parts:
        raise ValueError(
            "There is no word to leave out. Pass a text, or several as a tuple "
            f"or dict. Received: {item!r:.100}."
        )
    without = [
        _replaced(item, name, texts[name][:start] + texts[name][end:])
        for name, start, end in parts
    ]
    others = predictor.predict(without, batch_size=batch_size)
    words = [
        {
            "field": name,
            "text": texts[name][start:end],
            "start": start,
            "end": end,
            "change": value - value_of(other),
        }
        for (name, start, end), other in zip(parts, others, strict=True)
    ]
    return Explanation(
        answer=answer, of=of, value=value, texts=texts, words=words
    )


def _value(
    answer: TextAnswer, label: str | None
) -> tuple[str, Callable[[TextAnswer], float]]:
    """Returns the name of a value, and the function that takes it of answers.

    It is a value of the given answer: of its label, its text, its entities.
    """
    shares, prediction = answer.get("probabilities"), answer.get("prediction")
    if isinstance(shares, Mapping):
        # Of several labels, or where none is sure enough, the likeliest.
        if prediction is None or isinstance(prediction, list):
            prediction = max(shares, key=shares.__getitem__)
        name = prediction if label is None else label
        checks.check_choice("label", name, tuple(shares))
        return f"probability of {name}", lambda x: x["probabilities"][name]
    if label is not None:
        raise ValueError("Only an answer with labels is explained by `label`.")
    if shares:
        choice = answer["choice"]
        return f"probability of {answer['option']}", (
            lambda x: x["probabilities"][choice]
        )
    if isinstance(prediction, int | float):
        return "prediction", lambda x: x["prediction"]
    if (text := answer.get("answer")) is not None:
        return f"score of {text or 'no answer'}", (
            lambda x: x["score"] if x["answer"] == text else 0.0
        )
    if found := answer.get("entities"):
        keys = [(each["label"], each["text"]) for each in found]
        return "mean score of the entities", lambda x: _mean_score(x, keys)
    raise ValueError(
        "Only a label, a number, an option, an answer and entities can be "
        f"explained. Received: {answer!r:.100}."
    )


def _mean_score(answer: TextAnswer, keys: list[tuple[str, str]]) -> float:
    """Returns the mean score of some entities; 0 for an entity not found."""
    scores = {(x["label"], x["text"]): x["score"] for x in answer["entities"]}
    return float(sum(scores.get(key, 0.0) for key in keys) / len(keys))


def _texts(item: Any, columns: Sequence[str]) -> dict[str, str]:
    """Returns the texts of an input by name."""
    if isinstance(item, str):
        item = (item,)
    if isinstance(item, tuple):
        item = dict(zip(_TUPLE, item, strict=False))
    if not isinstance(item, Mapping):
        return {}
    names = columns if columns and {*columns} <= {*item} else _NAMES
    return {n: item[n] for n in names if isinstance(item.get(n), str)}


def _replaced(item: Any, name: str, text: str) -> Any:
    """Returns an input with another text of this name."""
    if isinstance(item, str):
        return text
    if isinstance(item, tuple):
        place = _TUPLE.index(name)
        return (*item[:place], text, *item[place + 1 :])
    return {**item, name: text}


def _with_one_accent(text: str) -> str:
    """Returns a text of the same length, each combining character U+0300."""
    category = unicodedata.category
    return "".join("\u0300" if category(c)[0] == "M" else c for c in text)


def _parts(
    texts: Mapping[str, str], answer: TextAnswer
) -> list[tuple[str, int, int]]:
    """Returns name, start and end of each part of the texts to leave out.

    No part is in an entity, or in an answer, which would be gone with it.
    """
    spans = [*answer.get("entities", ())]
    spans += [answer] if "answer" in answer else []
    last = [*texts][-1:]  # the text that entities and answers are in
    words = {
        name: [
            word.span()
            for word in _WORD.finditer(_with_one_accent(text))
            if [name] != last
            or not any(
                word.start() < span["end"] and span["start"] < word.end()
                for span in spans
            )
        ]
        for name, text in texts.items()
    }
    num_words = sum(map(len, words.values()))
    size = max(1, math.ceil(num_words / _MOST_PARTS))
    return [
        (name, run[0][0], run[-1][1])
        for name, of_text in words.items()
        for i in range(0, len(of_text), size)
        if (run := of_text[i : i + size])
    ]
