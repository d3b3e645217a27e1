"""More passes over the shared block, each depth started from the one below."""

import dataclasses

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale

_DEPTHS = (1, 2, 4, 8)
_ONE, _TWO_STAGES, _ALL_STAGES = "1 layer", "1 layer, again", "1 layer, longer"


def _widths(scale: Scale) -> tuple[int, ...]:
    hidden = scale.config.hidden_size
    return hidden // 4, hidden // 2, hidden


def variants(scale: Scale) -> list[Variant]:
    """Returns models of growing depth, their controls, then other widths.

    A control has one layer, and as many updates as the second depth, or the
    deepest model, has had with all those it started from.
    """
    deeper: list[Variant] = []
    for depth in _DEPTHS:
        own = Variant.of(scale, _label(depth), num_hidden_layers=depth)
        before = deeper[-1] if deeper else None
        deeper.append(dataclasses.replace(own, starts_from=before))
    one, steps = deeper[0], scale.second.num_train_steps
    again = dataclasses.replace(one, label=_TWO_STAGES, starts_from=one)
    longer = {"num_train_steps": (len(_DEPTHS) - 1) * steps}
    return [
        *deeper,
        again,
        dataclasses.replace(again, label=_ALL_STAGES, flags=longer),
        *(
            Variant(label=f"H={width}", config=scale.with_width(width))
            for width in _widths(scale)
        ),
    ]


def _label(depth: int) -> str:
    return f"{depth} layers" if depth > 1 else _ONE


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of depth and width."""
    _, second, *_, last = _DEPTHS
    narrow, *_, wide = _widths(scale)
    return [
        Claim(
            "a second depth is better than one layer trained as long",
            Score(_label(second)),
            Score(_TWO_STAGES),
        ),
        Claim(
            "the deepest is better than one layer trained as long",
            Score(_label(last)),
            Score(_ALL_STAGES),
        ),
        Claim(
            "the deepest is better than the second depth",
            Score(_label(last)),
            Score(_label(second)),
        ),
        Claim(
            "a wider model is better",
            Score(f"H={wide}"),
            Score(f"H={narrow}"),
        ),
    ]


EXPERIMENT = Experiment(
    title="Depth and width",
    source="Lan et al. 2020, tables 11 and 12",
    variants=variants,
    claims=claims,
    paper_header=("model", "parameters", "average of five tasks"),
    paper_rows=(
        ("1 layer, H=1024", "18M", "52.9"),
        ("3 layers, H=1024", "18M", "71.2"),
        ("6 layers, H=1024", "18M", "77.2"),
        ("12 layers, H=1024", "18M", "81.5"),
        ("24 layers, H=1024", "18M", "82.1"),
        ("48 layers, H=1024", "18M", "81.8"),
        ("3 layers, H=2048", "60M", "74.6"),
        ("3 layers, H=4096", "225M", "76.3"),
        ("3 layers, H=6144", "499M", "74.0"),
    ),
)
