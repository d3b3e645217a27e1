"""How far a run is in its schedules: by its updates, or by its time.

The schedules of a run, of the learning rate and of its phases, are written in
steps. Without a time budget, a step is an update. With one, the run is at step
`p * num_train_steps` after the share p of the time, however many updates that
were; it ends when the time is over, and the learning rate with it.
"""

import dataclasses
import math
import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(name: str, text: str) -> float:
    """Returns the seconds of a setting such as `24h`, `90m` or `30s`.

    >>> seconds_of("time_budget", "1.5h")
    5400.0

    Raises:
        ValueError: The text is no such duration, or 0.
    """
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"`{name}` must be a number above 0 and its unit, s, m or h, such "
            f"as 24h. Received: {name}={text!r}."
        )
    return seconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """The length of a run; its methods say how far a run is.

    Args:
        num_train_steps: Length of the schedules in steps.
        seconds: Time budget; None if each update is a step.
    """

    num_train_steps: int
    seconds: float | None

    def step(self, num_updates: int, seconds: float) -> int:
        """Returns the step after some updates, which took some time."""
        if self.seconds is None:
            return num_updates
        share = seconds / self.seconds
        return min(int(share * self.num_train_steps), self.num_train_steps)

    def updates_until(
        self,
        step: int,
        num_updates: int,
        seconds: float,
        seconds_per_update: float | None,
    ) -> int:
        """Returns how many updates to do at once to arrive at a step.

        With a time budget it is an estimate of at least 1, and 1 as long as
        `seconds_per_update` is not known.
        """
        if self.seconds is None:
            return step - num_updates
        if not seconds_per_update:
            return 1
        left = step / self.num_train_steps * self.seconds - seconds
        return max(1, int(left / seconds_per_update))
