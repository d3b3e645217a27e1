"""Settings of an optimizer and of its learning rate: plain Python.

Source: google-research/albert, `optimization.create_optimizer`. The defaults
come from Lan et al. 2020, section 4.1; the warm-up, from the original's code.
"""

import dataclasses

from albert_tf import checks
from albert_tf.settings import Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Settings):
    """Settings of an optimizer; the defaults are the paper's for pretraining.

    Args:
        weight_decay: Share of a weight that is added to its update.
        beta_1: Decay of the running mean of the gradient.
        beta_2: Decay of the running mean of the squared gradient.
        epsilon: Added to the square root of the mean squared gradient.
        clip_norm: Largest global norm of the gradients.
    """

    optimizer: str = setting(
        "lamb",
        "Update rule: lamb or adamw, with the arithmetic of the original; or "
        "muon for the kernels of the blocks, with adamw for all other weights.",
        choices=("lamb", "adamw", "muon"),
    )
    learning_rate: float = setting(
        0.00176,
        "Highest learning rate: the warm-up rises to it, the decay falls from "
        "it to 0.",
        above=0,
    )
    adamw_rate_ratio: float | None = setting(
        None,
        "muon: learning rate of the weights that adamw updates, as a multiple "
        "of --learning_rate. Default: 0.4.",
        at_least=0,
    )
    bias_correction: bool = setting(
        False,
        "Correct the running means of the gradient for their start at 0, as "
        "torch.optim.AdamW does. Without it, as in the original, the first "
        "hundreds of updates are two to six times as long.",
    )
    poly_power: float = setting(
        1.0,
        "Power of the learning rate's decay: 1 for linear decay, 0 for none.",
        at_least=0,
    )
    num_train_steps: int = setting(
        125_000,
        "Number of updates of the run, over which the learning rate decays.",
        at_least=1,
    )
    num_warmup_steps: int = setting(
        3125, "Updates over which the learning rate rises from 0."
    )
    start_warmup_step: int = setting(
        0, "Update at which the warm-up starts; the learning rate is 0 before."
    )
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_numbers(self, "weight_decay", at_least=0)
        checks.check_numbers(self, "beta_1", "beta_2", above=0, below=1)
        checks.check_numbers(self, "epsilon", "clip_norm", above=0)
        if self.adamw_rate_ratio is not None and self.optimizer != "muon":
            raise ValueError(
                "`adamw_rate_ratio` needs --optimizer=muon. Received: "
                f"optimizer={self.optimizer}."
            )
