"""What is learnt beside masked words: nothing, next sentence, or order."""

from experiments.experiment import (
    LARGER_CLASS,
    Claim,
    Experiment,
    Score,
    Variant,
)
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns the three objectives."""
    config = scale.config
    return [
        Variant(label="none", config=config, flags={"objectives": "mlm"}),
        Variant(label="NSP", config=config, pair_objective="nsp"),
        Variant(label="SOP", config=config),
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of the two objectives."""
    accuracy = "sentence_order_accuracy"
    order, next_sentence = Score("SOP", accuracy), Score("NSP", accuracy, "nsp")
    return [
        Claim(
            "the next-sentence model learns less of the order of sentences",
            order,
            Score("NSP", accuracy),
            basis=order,
        ),
        Claim(
            "the sentence-order model is above chance on the next sentence",
            Score("SOP", accuracy, "nsp"),
            Score("SOP", LARGER_CLASS, "nsp"),
            basis=order,
        ),
        Claim(
            "the next-sentence model is the better one on its own pairs",
            next_sentence,
            Score("SOP", accuracy, "nsp"),
            basis=next_sentence,
        ),
    ]


EXPERIMENT = Experiment(
    title="Sentence objective",
    source="Lan et al. 2020, table 5",
    variants=variants,
    claims=claims,
    paper_header=("objective", "masked words", "NSP", "SOP", "average"),
    paper_rows=(
        ("none", "54.9", "52.4", "53.3", "79.0"),
        ("NSP", "54.5", "90.5", "52.0", "79.2"),
        ("SOP", "54.0", "78.9", "86.5", "80.1"),
    ),
    pairs=("sop", "nsp"),
)
