"""What an experiment is: models to train, and what the paper found."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from albert_tf.config import AlbertConfig
from experiments.scales import Scale


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One model of an experiment, and how it is trained.

    Args:
        name: Its name within the experiment, and that of its folder.
        config: Its shape.
        flags: Flags of run_pretraining.py that are not those of the scale.
        pair_objective: Which pairs its records have: `sop` or `nsp`.
        starts_from: Name of the variant whose weights it starts from, with
            another number of layers; empty for random weights.
    """

    name: str
    config: AlbertConfig
    flags: Mapping[str, object] = dataclasses.field(default_factory=dict)
    pair_objective: str = "sop"
    starts_from: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or a figure of the paper.

    Args:
        title: Heading of its part of the report.
        claim: What the paper says, in a sentence.
        source: Where.
        variants: Returns the models of a scale; those that others start from
            come first.
        paper_header: Header of the paper's own table.
        paper_rows: Its rows.
        crosses_objectives: Whether every model is also evaluated on pairs of
            the other kind.
    """

    title: str
    claim: str
    source: str
    variants: Callable[[Scale], list[Variant]]
    paper_header: Sequence[str]
    paper_rows: Sequence[Sequence[str]]
    crosses_objectives: bool = False
