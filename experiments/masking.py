"""Dropout, the share of masked tokens, and the length of masked spans."""

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale

_LARGEST_SHARE = 0.25
_LONGEST = 3


def variants(scale: Scale) -> list[Variant]:
    """Returns models with and without dropout, then with other masks."""
    slots = int(_LARGEST_SHARE * scale.second.max_seq_length)
    changes: dict[str, dict[str, object]] = {
        "single words": {"ngram": 1},
        "up to three words": {"ngram": _LONGEST},
        "longer spans": {"ngram": _LONGEST, "favor_shorter_ngram": False},
        "10% masked": {"masked_lm_prob": 0.1},
        "25% masked": {
            "masked_lm_prob": _LARGEST_SHARE,
            "max_predictions_per_seq": slots,
        },
    }
    return [
        *(
            Variant.of(
                scale,
                f"dropout {rate:g}",
                hidden_dropout_prob=rate,
                attention_probs_dropout_prob=rate,
            )
            for rate in (0.0, 0.1)
        ),
        *(
            Variant(
                label=label,
                config=scale.config,
                flags=flags if flags != {"ngram": scale.ngram} else {},
            )
            for label, flags in changes.items()
        ),
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of dropout."""
    return [
        Claim(
            "without dropout, masked words are learnt better",
            Score("dropout 0"),
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
