"""Short opinions on software, positive or negative, to fine-tune on.

Data flow: the sentence forms below -> [this file] -> rows of a TSV file.
Plain Python.

Counting good and bad words is not enough: in some forms a `not` turns the word
around, in some the second half of the sentence decides.
"""

import random
from collections.abc import Iterable

POSITIVE, NEGATIVE = "positive", "negative"
HEADER = ("sentence", "label")
NUM_TRAIN, NUM_DEV = 800, 200

# Good words and their opposites.
_OPPOSITES = {
    "fast": "slow",
    "clear": "confusing",
    "simple": "complicated",
    "correct": "wrong",
    "reliable": "fragile",
    "complete": "unfinished",
    "useful": "useless",
    "careful": "careless",
    "quiet": "noisy",
    "pleasant": "tiring",
}
_PRAISE = (
    "saved me a whole day",
    "made my work easier",
    "did what I asked at once",
    "never let me down",
)
_BLAME = (
    "cost me a whole day",
    "made my work harder",
    "lost what I typed",
    "let me down again",
)
_THINGS = (
    "parser, manual, editor, installer, compiler, search, menu, tutorial, "
    "debugger, new release, command line, test suite, error message, "
    "file format, default theme, import system"
).split(", ")
# {own} is a word of the label, {other} one of the other label; {deed} what the
# thing did. The number is how often a form is drawn, relative to the others.
_FORMS = {
    "The {thing} is {own}.": 4,
    "I find the {thing} {own} and {own2}.": 3,
    "That is one {own} {thing}: it {deed}!": 2,
    "The {thing} {deed}.": 3,
    "The {thing} is not {other}.": 3,
    "Nobody can say that the {thing} is {other}.": 1,
    "The {thing} looked {other}, but in use it is {own}.": 2,
    "The {thing} used to be {other} and has become {own}.": 2,
    "The {thing} is {own}, although the {thing2} is {other}.": 2,
}

# A sentence and its label.
Review = tuple[str, str]


def train_and_dev(seed: int = 0) -> tuple[list[Review], list[Review]]:
    """Returns the reviews to train on, and others to evaluate on.

    Labels are drawn with equal chance; no sentence comes twice.
    """
    rng = random.Random(seed)
    labels: dict[str, str] = {}
    while len(labels) < NUM_TRAIN + NUM_DEV:
        sentence, label = _draw(rng)
        labels.setdefault(sentence, label)
    reviews = list(labels.items())
    return reviews[:NUM_TRAIN], reviews[NUM_TRAIN:]


def to_tsv(reviews: Iterable[Review]) -> str:
    r"""Returns a table with a header, a review a line.

    >>> to_tsv([("It is fast.", "positive")])
    'sentence\tlabel\nIt is fast.\tpositive\n'
    """
    return "".join("\t".join(row) + "\n" for row in (HEADER, *reviews))


def _draw(rng: random.Random) -> Review:
    label = rng.choice((POSITIVE, NEGATIVE))
    is_positive = label == POSITIVE
    (form,) = rng.choices(list(_FORMS), list(_FORMS.values()))
    pairs = [pair if is_positive else pair[::-1] for pair in _OPPOSITES.items()]
    # Both halves of a sentence speak of the same quality.
    (own, other), (own2, _) = rng.sample(pairs, 2)
    thing, thing2 = rng.sample(_THINGS, 2)
    sentence = form.format(
        thing=thing,
        thing2=thing2,
        own=own,
        own2=own2,
        other=other,
        deed=rng.choice(_PRAISE if is_positive else _BLAME),
    )
    return sentence, label
