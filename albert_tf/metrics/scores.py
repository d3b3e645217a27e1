"""Scores: numbers about a model on examples, each with what it is."""

import dataclasses
import enum
import math
import statistics
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Role(enum.Enum):
    """What a number is."""

    SCORE = enum.auto()  # higher is better
    ERROR = enum.auto()  # lower is better
    LOSS = enum.auto()
    OF_LABEL = enum.auto()  # a score of a single class
    THRESHOLD = enum.auto()  # chosen on the examples, for predictions
    FITTED = enum.auto()  # likewise, such as a temperature
    INTERVAL = enum.auto()  # an end of the 95% interval of a score
    BASELINE = enum.auto()  # a score that takes no model


class Score(NamedTuple):
    """One number, under its key in `eval_results.json`.

    `of` is the label, or the key of the score that this says something of: a
    baseline, an interval, the deviation of seeds.
    """

    key: str
    value: float
    role: Role = Role.SCORE
    of: str = ""

    @classmethod
    def of_label(cls, name: str, label: str, value: float) -> "Score":
        """Returns a score of a single class, such as its recall."""
        return cls(f"{name}_of_{label}", value, Role.OF_LABEL, label)

    @classmethod
    def threshold(cls, label: str, value: float) -> "Score":
        """Returns the probability from which on a label is predicted."""
        return cls(f"threshold_of_{label}", value, Role.THRESHOLD, label)

    @classmethod
    def baseline(cls, key: str, value: float) -> "Score":
        """Returns what takes no model, of the score with a key."""
        return cls(f"{key}_baseline", value, Role.BASELINE, key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of a model, in the order in which they are shown.

    `seeds` are the number of seeds, that of failed ones, and the best one; the
    model `is_degenerate` if it is no better than chance.
    """

    entries: tuple[Score, ...] = ()
    is_degenerate: bool = False
    seeds: Mapping[str, int] = dataclasses.field(default_factory=dict)
    step: int | None = None

    def __iter__(self) -> Iterator[Score]:
        return iter(self.entries)

    def __contains__(self, key: str) -> bool:
        return any(score.key == key for score in self)

    def __getitem__(self, key: str) -> float:
        return {score.key: score.value for score in self}[key]

    def __add__(self, others: "Scores") -> "Scores":
        return dataclasses.replace(self, entries=(*self, *others))

    @property
    def baselines(self) -> dict[str, float]:
        """The scores that take no model, by the key of the model's score."""
        return {s.of: s.value for s in self if s.role is Role.BASELINE}

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds by label; that of SQuAD 2.0 has the label ""."""
        return {s.of: s.value for s in self if s.role is Role.THRESHOLD}

    def interval(self, key: str) -> tuple[float, ...]:
        """Returns both ends of the 95% interval of a score; empty if unknown.

        They are under the keys `<key>_interval_low` and `..._high`.
        """
        ends = (one for one in self if one.role is Role.INTERVAL)
        return tuple(one.value for one in ends if one.of == key)

    @property
    def loss(self) -> float:
        """The sum of the losses; infinite without a number."""
        losses = [s.value for s in self if s.role is Role.LOSS and not s.of]
        total = sum(losses) if losses else math.inf
        return math.inf if math.isnan(total) else total

    def rank(self, key: str, value: float | None = None) -> float:
        """Returns a number that is the higher the better a score is.

        That is the score with a key, or another value of it. One that is not a
        number, or not there, is the worst.
        """
        score = {score.key: score for score in self}.get(key)
        if score is None:
            return -math.inf
        number = score.value if value is None else value
        if score.role in (Role.LOSS, Role.ERROR):
            number = -number
        return -math.inf if math.isnan(number) else number

    def verdict(self) -> str | None:
        """Says that a score, or the loss, is no better than without a model."""
        for metric, baseline in self.baselines.items():
            if metric not in self:
                continue
            if self.rank(metric) <= self.rank(metric, baseline):
                return (
                    "No better than the baseline: "
                    f"{metric} {self[metric]:.4g}, against {baseline:.4g} "
                    "without a model. Try more steps, a lower --learning_rate, "
                    "another --random_seed, or more and other examples."
                )
        if self.is_degenerate:
            return (
                "The model is degenerate: its loss is no better than that of "
                "the label frequencies."
            )
        return None

    def check_known(self, key: str) -> None:
        """Checks that there is a score to select the best weights by."""
        if key not in self:
            raise ValueError(
                f"There is no score {key!r} to select the best weights by. "
                f"Pass as --best_metric one of {', '.join(self.flat())}."
            )

    def shown(self) -> dict[str, float]:
        """Returns the numbers that are not details, by key."""
        roles = (Role.SCORE, Role.ERROR, Role.LOSS)
        found = {s.key: s.value for s in self if s.role in roles}
        return found | self._degenerate

    def flat(self) -> dict[str, float]:
        """Returns all numbers by key, as `eval_results.json` has them."""
        found = {score.key: score.value for score in self}
        step = {} if self.step is None else {"global_step": self.step}
        return {**found, **self._degenerate, **self.seeds, **step}

    @property
    def _degenerate(self) -> dict[str, float]:
        return {"degenerate": 1.0} if self.is_degenerate else {}


def medians(
    by_seed: Mapping[int, Scores], best: int, *, num_failed: int = 0
) -> Scores:
    """Returns the median of each score, and how much the seeds differ.

    `<key>_std` is the sample standard deviation, `<key>_best` the score of the
    best seed, which also gives step, baselines and thresholds; of a label they
    are such as `f1_std_of_<label>`. A score that one of the seeds lacks is left
    out.
    """
    entries: list[Score] = []
    for score in by_seed[best]:
        if score.role in (Role.THRESHOLD, Role.FITTED, Role.BASELINE):
            entries.append(score)
            continue
        values = [s[score.key] for s in by_seed.values() if score.key in s]
        if len(values) < len(by_seed):
            continue
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        entries.append(score._replace(value=statistics.median(values)))
        if score.role is Role.INTERVAL:
            continue
        for name, value in (("std", spread), ("best", score.value)):
            # A label may be called `a`, and another one `a_std`.
            ending = f"_of_{score.of}" if score.of else ""
            key = f"{score.key.removesuffix(ending)}_{name}{ending}"
            own = score.of or score.key
            entries.append(score._replace(key=key, value=value, of=own))
    return Scores(
        entries=tuple(entries),
        seeds={
            "num_seeds": len(by_seed),
            "num_failed_seeds": num_failed,
            "best_seed": best,
        },
        step=by_seed[best].step,
    )
