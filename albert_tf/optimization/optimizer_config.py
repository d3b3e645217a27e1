"""The settings of an optimizer and of its learning rate, checked once.

Plain Python, so that a script can read and check its flags before it pays for
importing Keras. `factory.create_optimizer` turns a config into an optimizer.

Source: google-research/albert, `optimization.create_optimizer`; the defaults
are those of Lan et al. 2020, section 4.1, with the warm-up of the code.
"""

import dataclasses
import math
from typing import Any

OPTIMIZERS = ("lamb", "adamw")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Settings of an optimizer; the defaults pretrain as in the paper.

    Args:
        name: `lamb` or `adamw`.
        learning_rate: Rate at the end of the warm-up, and the one from which
            the decay starts.
        num_train_steps: Steps over which the rate decays to 0.
        num_warmup_steps: Steps over which the rate rises from 0; 0 for none.
        start_warmup_step: Step at which the warm-up starts; the rate is 0
            before it.
        poly_power: Power of the decay; 1 is a straight line, 0 no decay.
        weight_decay: Share of a weight added to its update.
        beta_1: Decay of the running mean of the gradient.
        beta_2: Decay of the running mean of its square.
        epsilon: Added to the root of that mean.
        clip_norm: Largest global norm of the gradients.
        corrected_lamb: LAMB as published, that is with bias correction; the
            reference has none.

    Raises:
        ValueError: A value is impossible; the message names the field.
    """

    name: str = "lamb"
    learning_rate: float = 0.00176
    num_train_steps: int = 125_000
    num_warmup_steps: int = 3125
    start_warmup_step: int = 0
    poly_power: float = 1.0
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0
    corrected_lamb: bool = False

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise ValueError(
                f"`name` must be one of {', '.join(OPTIMIZERS)}. "
                f"Received: name={self.name!r}."
            )
        if self.corrected_lamb and self.name != "lamb":
            raise ValueError(
                "`corrected_lamb` needs name='lamb', because no other "
                f"optimizer has that option. Received: name={self.name!r}."
            )
        for name in ("learning_rate", "epsilon", "clip_norm"):
            _check_number(name, getattr(self, name), positive=True)
        for name in ("poly_power", "weight_decay"):
            _check_number(name, getattr(self, name))
        for name in ("beta_1", "beta_2"):
            _check_number(name, getattr(self, name), positive=True, below=1.0)
        self._check_steps()

    def _check_steps(self) -> None:
        _check_steps("num_train_steps", self.num_train_steps, least=1)
        _check_steps("num_warmup_steps", self.num_warmup_steps, least=0)
        _check_steps("start_warmup_step", self.start_warmup_step, least=0)
        last = self.start_warmup_step + self.num_warmup_steps
        if self.num_warmup_steps and last > self.num_train_steps:
            raise ValueError(
                "`num_warmup_steps` (counted from `start_warmup_step`) must "
                "not exceed `num_train_steps`, because the run would end "
                "inside its warm-up. Lower the first or raise the last. "
                f"Received: num_warmup_steps={self.num_warmup_steps}, "
                f"start_warmup_step={self.start_warmup_step}, "
                f"num_train_steps={self.num_train_steps}."
            )


def _check_number(
    name: str, value: Any, *, positive: bool = False, below: float = math.inf
) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    in_range = is_number and 0 <= value < below
    if not in_range or (positive and not value):
        wanted = "above 0" if positive else "of at least 0"
        limit = "" if below == math.inf else f" and below {below:g}"
        raise ValueError(
            f"`{name}` must be a finite number {wanted}{limit}. "
            f"Received: {name}={value!r}."
        )


def _check_steps(name: str, value: Any, *, least: int) -> None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or value < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}. "
            f"Received: {name}={value!r}."
        )
