"""Dropout, the share of masked tokens, and the length of masked spans."""

import dataclasses

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale

_LARGEST_SHARE = 0.25


def variants(scale: Scale) -> list[Variant]:
    """Returns the plain model, then one change in each of the others."""
    config = scale.config
    dropout = dataclasses.replace(
        config, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    slots = int(_LARGEST_SHARE * scale.second.max_seq_length)
    changes: dict[str, dict[str, object]] = {
        "single words": {"ngram": 1},
        "longer spans": {"favor_shorter_ngram": False},
        "10% masked": {"masked_lm_prob": 0.1},
        "25% masked": {
            "masked_lm_prob": _LARGEST_SHARE,
            "max_predictions_per_seq": slots,
        },
    }
    return [
        Variant(label="plain", config=config),
        Variant(label="dropout 0.1", config=dropout),
        *(
            Variant(label=label, config=config, flags=flags)
            for label, flags in changes.items()
        ),
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of dropout."""
    return [
        Claim(
            "without dropout, masked words are learnt better",
            Score("plain"),
            Score("dropout 0.1"),
        )
    ]


EXPERIMENT = Experiment(
    title="Dropout and masks",
    source="Lan et al. 2020, table 8; of masks it compares nothing",
    variants=variants,
    claims=claims,
    paper_header=("ALBERT-xxlarge", "average of five tasks"),
    paper_rows=(("with dropout", "90.4"), ("without", "90.7")),
)
