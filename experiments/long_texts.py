"""Longer texts, within a window, beside shorter ones with full attention.

A trained model goes on with the same text, cut into longer or shorter records:
equally many tokens a step, padding included. The paper has no such model. See
`albert_tf.modeling.windows`.
"""

import dataclasses

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Phase, Scale

# Of a record of 4,096 tokens, the window is 128.
_WINDOWS_OF_RECORD = 32
_NO_PAIRS = "none"


def variants(scale: Scale) -> list[Variant]:
    """Returns a model of the shorter length, and how it goes on with both."""
    short, long = scale.lengthened
    before = _trained(scale, short, _label(short), Variant.of(scale, ""))
    return [
        before,
        _trained(scale, short, _longer(short), before),
        _trained(
            scale,
            long,
            _label(long),
            before,
            attention_window=long.max_seq_length // _WINDOWS_OF_RECORD,
        ),
    ]


def _trained(
    scale: Scale, phase: Phase, label: str, before: Variant, **fields: int
) -> Variant:
    positions = phase.max_seq_length
    shape = Variant.of(
        scale, label, max_position_embeddings=positions, **fields
    )
    return dataclasses.replace(
        shape,
        starts_from=before,
        phase=phase,
        pair_objective=_NO_PAIRS,
        flags={"objectives": "mlm"},
    )


def _label(phase: Phase) -> str:
    return f"{phase.max_seq_length:,} tokens"


def _longer(phase: Phase) -> str:
    return f"{_label(phase)}, longer"


def claims(scale: Scale) -> list[Claim]:
    """Returns what longer records are expected to do."""
    short, long = scale.lengthened
    above, below = (
        Score(label, pairs=_NO_PAIRS)
        for label in (_label(long), _longer(short))
    )
    return [Claim("longer records are better in equal updates", above, below)]


EXPERIMENT = Experiment(
    title="Long texts",
    variants=variants,
    claims=claims,
    pairs=(_NO_PAIRS,),
)
