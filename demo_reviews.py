"""Short opinions on software, positive or negative, to fine-tune on.

Data flow: the sentence forms below -> [this file] -> rows of a TSV file.
Floor: scripts; for `demo.py`. Plain Python.

Counting good and bad words is not enough: in some forms a `not` turns the word
around, in some the second half of the sentence decides.
"""

import dataclasses
import random
from collections.abc import Iterable, Sequence

POSITIVE, NEGATIVE = "positive", "negative"
HEADER = ("sentence", "label")
NUM_TRAIN, NUM_DEV = 800, 200

# Words at the same place are opposites.
_GOOD = (
    "fast",
    "clear",
    "simple",
    "correct",
    "reliable",
    "complete",
    "useful",
    "careful",
    "quiet",
    "pleasant",
)
_BAD = (
    "slow",
    "confusing",
    "complicated",
    "wrong",
    "fragile",
    "unfinished",
    "useless",
    "careless",
    "noisy",
    "tiring",
)
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
    "parser",
    "manual",
    "editor",
    "installer",
    "compiler",
    "search",
    "menu",
    "tutorial",
    "debugger",
    "new release",
    "command line",
    "test suite",
    "error message",
    "file format",
    "default theme",
    "import system",
)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Review:
    """A sentence and what it says.

    Args:
        sentence: The text.
        label: `positive` or `negative`.
    """

    sentence: str
    label: str


def train_and_dev(seed: int = 0) -> tuple[list[Review], list[Review]]:
    """Returns the reviews to train on, and others to evaluate on.

    Labels are drawn with equal chance; no sentence comes twice.

    Args:
        seed: The same seed gives the same reviews.
    """
    rng = random.Random(seed)
    found: dict[str, Review] = {}
    while len(found) < NUM_TRAIN + NUM_DEV:
        review = _draw(rng)
        found.setdefault(review.sentence, review)
    reviews = list(found.values())
    return reviews[:NUM_TRAIN], reviews[NUM_TRAIN:]


def to_tsv(reviews: Iterable[Review]) -> str:
    r"""Returns a table with a header, a review a line.

    >>> to_tsv([Review(sentence="It is fast.", label="positive")])
    'sentence\tlabel\nIt is fast.\tpositive\n'
    """
    rows = [HEADER, *((review.sentence, review.label) for review in reviews)]
    return "".join("\t".join(row) + "\n" for row in rows)


def describe(reviews: Sequence[Review]) -> str:
    """Returns how many reviews there are of each kind.

    >>> describe([Review(sentence="It is fast.", label="positive")])
    '1 reviews, 1 positive and 0 negative'
    """
    num_positive = sum(review.label == POSITIVE for review in reviews)
    return (
        f"{len(reviews)} reviews, {num_positive} positive and "
        f"{len(reviews) - num_positive} negative"
    )


def _draw(rng: random.Random) -> Review:
    label = rng.choice((POSITIVE, NEGATIVE))
    is_positive = label == POSITIVE
    own, other = (_GOOD, _BAD) if is_positive else (_BAD, _GOOD)
    (form,) = rng.choices(list(_FORMS), list(_FORMS.values()))
    place, place2 = rng.sample(range(len(own)), 2)
    thing, thing2 = rng.sample(_THINGS, 2)
    sentence = form.format(
        thing=thing,
        thing2=thing2,
        own=own[place],
        own2=own[place2],
        # Both halves of a sentence speak of the same quality.
        other=other[place],
        deed=rng.choice(_PRAISE if is_positive else _BLAME),
    )
    return Review(sentence=sentence, label=label)
