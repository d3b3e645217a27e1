"""What is learnt beside masked words: nothing, next sentence, or order."""

from experiments.experiment import Experiment, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns the three objectives."""
    config = scale.config
    return [
        Variant(name="none", config=config, flags={"objectives": "mlm"}),
        Variant(name="nsp", config=config, pair_objective="nsp"),
        Variant(name="sop", config=config),
    ]


EXPERIMENT = Experiment(
    title="Sentence objective",
    claim=(
        "A model that learnt to tell the next sentence is near chance on the "
        "order of sentences; one that learnt their order is well above chance "
        "on the next sentence."
    ),
    source="Lan et al. 2020, table 5",
    variants=variants,
    paper_header=("objective", "masked words", "NSP", "SOP", "average"),
    paper_rows=(
        ("none", "54.9", "52.4", "53.3", "79.0"),
        ("NSP", "54.5", "90.5", "52.0", "79.2"),
        ("SOP", "54.0", "78.9", "86.5", "80.1"),
    ),
    crosses_objectives=True,
)
