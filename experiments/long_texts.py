"""Longer texts, within a window, beside shorter ones with full attention.

A trained model is lengthened, and goes on with as many tokens of the same text,
cut into longer or shorter records. The paper has no such model. See
`albert_tf.modeling.windows`.
"""

import dataclasses

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Phase, Scale

# Of a record of 4,096 tokens, the window is 128.
_WINDOWS_OF_RECORD = 32
_NO_PAIRS = "none"


def variants(scale: Scale) -> list[Variant]:
    """Returns the model of both lengths."""
    short, long = scale.lengthened
    window = long.max_seq_length // _WINDOWS_OF_RECORD
    return [_lengthened(scale, short, 0), _lengthened(scale, long, window)]


def _lengthened(scale: Scale, phase: Phase, window: int) -> Variant:
    before = Variant.of(scale, "")
    own = Variant.of(
        scale,
        _label(phase),
        max_position_embeddings=phase.max_seq_length,
        attention_window=window,
    )
    return dataclasses.replace(
        own,
        starts_from=before,
        phase=phase,
        pair_objective=_NO_PAIRS,
        flags={"objectives": "mlm"},
    )


def _label(phase: Phase) -> str:
    return f"{phase.max_seq_length:,} tokens"


def claims(scale: Scale) -> list[Claim]:
    """Returns what longer records are expected to do."""
    below, above = (
        Score(_label(phase), pairs=_NO_PAIRS) for phase in scale.lengthened
    )
    return [Claim("the further context is used", above, below)]


EXPERIMENT = Experiment(
    title="Long texts",
    variants=variants,
    claims=claims,
    pairs=(_NO_PAIRS,),
)
