"""What an experiment is: models to train, and what the paper found."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.config import AlbertConfig
from experiments.scales import Phase, Scale

_OF_MASKS = {
    "favor_shorter_ngram",
    "masked_lm_prob",
    "max_predictions_per_seq",
    "ngram",
}
# Score of a model that always gives the more frequent of two labels.
LARGER_CLASS = "larger_class"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One model of an experiment, and how it is trained.

    Args:
        flags: Flags of run_pretraining.py, for the second phase, that are not
            those of the scale.
        pair_objective: Which pairs its second phase has: `sop`, `nsp`, `none`.
        starts_from: The model, of another shape, whose weights its second
            phase starts from; None for its own first phase.
        phase: Its second phase, if that is not the one of the scale.
        share_of_steps: Share of the steps of the scale that it is trained.
    """

    label: str
    config: AlbertConfig
    flags: Mapping[str, object] = dataclasses.field(default_factory=dict)
    pair_objective: str = "sop"
    starts_from: "Variant | None" = None
    phase: Phase | None = None
    share_of_steps: float = 1.0

    @classmethod
    def of(cls, scale: Scale, label: str, **changes: Any) -> "Variant":
        """Returns the model of a scale with another shape."""
        return cls(
            label=label, config=dataclasses.replace(scale.config, **changes)
        )

    @property
    def num_before(self) -> int:
        """How many models were trained one after another before this one."""
        if self.starts_from is None:
            return 0
        return 1 + self.starts_from.num_before

    @property
    def has_own_masks(self) -> bool:
        """Whether masks are drawn otherwise than for the records."""
        return bool(_OF_MASKS & set(self.flags))


class Score(NamedTuple):
    """A score of a model, by the pairs that it is evaluated on."""

    label: str
    name: str = "masked_lm_accuracy"
    pairs: str = "sop"


class Claim(NamedTuple):
    """That one score is above another, as the paper says.

    With `basis`, a share of pairs that are told apart, it can be told only of
    models that do so more often than by chance.
    """

    text: str
    above: Score
    below: Score
    basis: Score | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or a figure of the paper, or what the paper left open.

    `variants` returns the models of a scale, `claims` what the paper's numbers
    would mean there; every model is evaluated on `pairs`.
    """

    title: str
    source: str = ""
    variants: Callable[[Scale], list[Variant]]
    claims: Callable[[Scale], list[Claim]]
    paper_header: Sequence[str] = ()
    paper_rows: Sequence[Sequence[str]] = ()
    pairs: Sequence[str] = ("sop",)
