"""Dropout, the share of masked tokens, and the length of masked spans."""

import dataclasses

from experiments.experiment import Experiment, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns the plain model, then one change in each of the others."""
    config = scale.config
    dropout = dataclasses.replace(
        config, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    slots = int(0.25 * scale.max_seq_length)
    changes: dict[str, dict[str, object]] = {
        "single_words": {"ngram": 1},
        "masked_10": {"masked_lm_prob": 0.1},
        "masked_25": {"masked_lm_prob": 0.25, "max_predictions_per_seq": slots},
        "longer_spans": {"favor_shorter_ngram": False},
    }
    return [
        Variant(name="plain", config=config),
        Variant(name="dropout_10", config=dropout),
        *(
            Variant(name=name, config=config, flags=flags)
            for name, flags in changes.items()
        ),
    ]


EXPERIMENT = Experiment(
    title="Dropout and masks",
    claim=(
        "Removing dropout helps the largest model after a million steps. Of "
        "masks, the paper compares nothing; it masks n-grams of up to 3 words."
    ),
    source="Lan et al. 2020, table 8 and section 4.1",
    variants=variants,
    paper_header=("ALBERT-xxlarge", "average of five tasks"),
    paper_rows=(("with dropout", "90.4"), ("without", "90.7")),
)
