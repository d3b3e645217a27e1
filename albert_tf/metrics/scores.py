"""Scores of a model on a set of examples; each knows its role."""

import dataclasses
import enum
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple


class Role(enum.Enum):
    """How a number of `eval_results.json` is to be read."""

    SCORE = enum.auto()  # higher is better
    ERROR = enum.auto()  # lower is better
    LOSS = enum.auto()
    OF_LABEL = enum.auto()  # a score of a single class
    THRESHOLD = enum.auto()  # of predictions, chosen on these examples
    FITTED = enum.auto()  # fitted on these examples, such as a temperature
    INTERVAL = enum.auto()  # a bound of the 95% interval of a score
    BASELINE = enum.auto()  # the score of a prediction without a model
    SIMPLE = enum.auto()  # the score of a simple model of the same rows
    P_VALUE = enum.auto()  # of McNemar's test against the simple model


class Score(NamedTuple):
    """One number, under its key in `eval_results.json`.

    `of` is the label that a score belongs to. For a baseline, an interval or
    the deviation of seeds, it is the key of the score that they describe.
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
        """Returns the lowest probability at which a label is predicted."""
        return cls(f"threshold_of_{label}", value, Role.THRESHOLD, label)

    @classmethod
    def baseline(cls, key: str, value: float) -> "Score":
        """Returns the baseline of the score with this key."""
        return cls(f"{key}_baseline", value, Role.BASELINE, key)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Scores(Mapping[str, float]):
    """The scores of a model by key, in the order in which they are shown.

    `entries` are the same numbers with their roles; each key occurs once.

    `seeds` has the number of seeds, the number of failed seeds and the best
    seed. `is_degenerate` says that the loss is at chance level.
    """

    entries: tuple[Score, ...] = ()
    is_degenerate: bool = False
    seeds: Mapping[str, int] = dataclasses.field(default_factory=dict)
    step: int | None = None

    def __post_init__(self) -> None:
        # JSON has no numbers of NumPy.
        entries = (s._replace(value=float(s.value)) for s in self.entries)
        object.__setattr__(self, "entries", tuple(entries))
        keys = [score.key for score in self.entries]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(
                f"Scores must have different keys. Received twice: "
                f"{', '.join(twice)}."
            )

    def __iter__(self) -> Iterator[str]:
        return (score.key for score in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, key: str) -> float:
        return {score.key: score.value for score in self.entries}[key]

    def __repr__(self) -> str:
        shown = (f"{key}={value:.4g}" for key, value in self.shown().items())
        return f"Scores({', '.join(shown)})"

    def with_entries(self, entries: Iterable[Score]) -> "Scores":
        """Returns these scores and more of them."""
        return dataclasses.replace(self, entries=(*self.entries, *entries))

    @property
    def baselines(self) -> dict[str, float]:
        """The baselines, by the key of the model's score."""
        return {s.of: s.value for s in self.entries if s.role is Role.BASELINE}

    @property
    def simple(self) -> dict[str, float]:
        """The scores of a simple model, by the key of the model's score."""
        return {s.of: s.value for s in self.entries if s.role is Role.SIMPLE}

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds by label; SQuAD 2.0 has one, under the label ""."""
        return {s.of: s.value for s in self.entries if s.role is Role.THRESHOLD}

    def interval(self, key: str) -> tuple[float, ...]:
        """Returns the bounds of the 95% interval of a score; or an empty tuple.

        Their keys are `<key>_interval_low` and `<key>_interval_high`.
        """
        bounds = (
            score for score in self.entries if score.role is Role.INTERVAL
        )
        return tuple(bound.value for bound in bounds if bound.of == key)

    @property
    def loss(self) -> float:
        """The sum of the losses; infinite if there is none, or it is NaN."""
        losses = [
            s.value for s in self.entries if s.role is Role.LOSS and not s.of
        ]
        total = sum(losses) if losses else math.inf
        return math.inf if math.isnan(total) else total

    def rank(self, key: str, value: float | None = None) -> float:
        """Returns a number to compare scores by: higher is always better.

        It ranks the score with this key, or another `value` of the same
        metric. A missing score and NaN rank lowest.
        """
        score = {score.key: score for score in self.entries}.get(key)
        if score is None:
            return -math.inf
        number = score.value if value is None else value
        if score.role in (Role.LOSS, Role.ERROR):
            number = -number
        return -math.inf if math.isnan(number) else number

    def verdict(self) -> str | None:
        """Returns a warning if a score or the loss is at chance level."""
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
                "The model is degenerate: predicting the label frequencies "
                "has the same loss, or a lower one."
            )
        return None

    def check_known(self, key: str) -> None:
        """Checks that the primary metric is one of the scores."""
        if key not in self:
            raise ValueError(
                f"There is no score {key!r} to select the best weights by. "
                f"Pass as --best_metric one of {', '.join(self.flat())}."
            )

    def shown(self) -> dict[str, float]:
        """Returns the main scores by key, without details."""
        roles = (Role.SCORE, Role.ERROR, Role.LOSS)
        scores = {s.key: s.value for s in self.entries if s.role in roles}
        return scores | self._degenerate

    def flat(self) -> dict[str, float]:
        """Returns all numbers by key, as `eval_results.json` has them."""
        step = {} if self.step is None else {"global_step": self.step}
        return {**self, **self._degenerate, **self.seeds, **step}

    @property
    def _degenerate(self) -> dict[str, float]:
        return {"degenerate": 1.0} if self.is_degenerate else {}


def medians(
    by_seed: Mapping[int, Scores], best: int, *, num_failed: int = 0
) -> Scores:
    """Returns the median of each score over seeds, and its deviation.

    `<key>_std` is the sample standard deviation, and `<key>_best` the score of
    the best seed, which also gives step, baselines and thresholds. Scores of a
    label have keys such as `f1_std_of_<label>`. A score that one of the seeds
    lacks is left out.
    """
    entries: list[Score] = []
    of_best = Role.THRESHOLD, Role.FITTED, Role.BASELINE, Role.SIMPLE
    for score in by_seed[best].entries:
        if score.role in of_best:
            entries.append(score)
            continue
        numbers = [s[score.key] for s in by_seed.values() if score.key in s]
        if len(numbers) < len(by_seed):
            continue
        deviation = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
        entries.append(score._replace(value=statistics.median(numbers)))
        if score.role in (Role.INTERVAL, Role.P_VALUE):
            continue
        for name, number in (("std", deviation), ("best", score.value)):
            # A label may be called `a`, and another one `a_std`.
            ending = f"_of_{score.of}" if score.of else ""
            key = f"{score.key.removesuffix(ending)}_{name}{ending}"
            of = score.of or score.key
            entries.append(score._replace(key=key, value=number, of=of))
    return Scores(
        entries=tuple(entries),
        seeds={
            "num_seeds": len(by_seed),
            "num_failed_seeds": num_failed,
            "best_seed": best,
        },
        step=by_seed[best].step,
    )
