"""The phases of a pretraining: depth, length and batch size by step.

A run has one phase, or several that follow one another, as the schedules of
its config say. `3@0,6@30000` is a schedule: the value 3 from step 0 on, and 6
from step 30000 on; `6@25%` begins when a quarter of the steps is done. The
phases of a run begin wherever one of its schedules changes.

Source: Gong et al. 2019, "Efficient training of BERT by progressively
stacking", for the depth, which sharing all layers makes free of copies; Devlin
et al. 2019, appendix A.2, for the length; Smith et al. 2018, "Don't decay the
learning rate, increase the batch size", for the batch size.
"""

import bisect
import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence

_ENTRIES = re.compile(r"\d+@\d+%?(,\d+@\d+%?)*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """What all updates of a phase have in common.

    Args:
        first_step: The step at which the phase begins.
        depth: Number of layers that are computed.
        max_seq_length: S of the training records.
        batch_size: Examples of an update over all replicas.
    """

    first_step: int
    depth: int
    max_seq_length: int
    batch_size: int


# The fields of a phase that a schedule may change, by the name of its flag;
# and the names of the settings that the last phase must have.
SCHEDULES = {
    "depth_schedule": ("depth", "num_hidden_layers"),
    "length_schedule": ("max_seq_length", "max_seq_length"),
    "batch_schedule": ("batch_size", "train_batch_size"),
}


def merge(
    schedules: Mapping[str, str], last: Phase, *, num_train_steps: int
) -> tuple[Phase, ...]:
    """Returns the phases of a run in their order.

    >>> last = Phase(
    ...     first_step=0, depth=12, max_seq_length=512, batch_size=32)
    >>> found = merge(
    ...     {"depth_schedule": "6@0,12@50"}, last, num_train_steps=100)
    >>> [(phase.first_step, phase.depth) for phase in found]
    [(0, 6), (50, 12)]

    Args:
        schedules: Some of `SCHEDULES`, by name; empty texts are left out.
        last: Values of the last phase, and of what has no schedule.
        num_train_steps: Number of updates of the run.

    Raises:
        ValueError: A schedule is not understood, or not possible in this run.
    """
    values = {
        SCHEDULES[name][0]: _parse(name, text, last, num_train_steps)
        for name, text in schedules.items()
        if text
    }
    starts = sorted({0}.union(*values.values()))
    return tuple(
        dataclasses.replace(
            last,
            first_step=start,
            **{
                field: by_step[max(step for step in by_step if step <= start)]
                for field, by_step in values.items()
            },
        )
        for start in starts
    )


def _parse(
    name: str, text: str, last: Phase, num_train_steps: int
) -> dict[int, int]:
    """Returns the values of a schedule by their first step."""
    field, setting = SCHEDULES[name]
    received = f"Received: {name}={text!r}."
    if not _ENTRIES.fullmatch(text):
        raise ValueError(
            f"`{name}` must be one or more of VALUE@STEP or VALUE@PERCENT%, "
            f"separated by commas, such as 3@0,12@50000. {received}"
        )
    in_numbers = in_steps(text, num_train_steps)
    pairs = [
        tuple(map(int, entry.split("@"))) for entry in in_numbers.split(",")
    ]
    values, starts = zip(*pairs, strict=True)
    neighbours = itertools.pairwise(pairs)
    if starts[0] or any(
        one[0] == other[0] or one[1] >= other[1] for one, other in neighbours
    ):
        raise ValueError(
            f"`{name}` must begin at step 0, and each entry must have a later "
            f"step and another value than the one before it. {received}"
        )
    wanted = getattr(last, field)
    if values[-1] != wanted:
        raise ValueError(
            f"`{name}` must end with {setting}={wanted}, which checkpoints "
            f"are evaluated with. {received}"
        )
    most = wanted if field == "depth" else None
    if min(values) < 1 or (most and max(values) > most):
        limit = f" and at most {most}" if most else ""
        raise ValueError(
            f"The values of `{name}` must be at least 1{limit}. {received}"
        )
    if starts[-1] >= num_train_steps:
        raise ValueError(
            f"The last phase of `{name}` must begin before the run ends. "
            f"Raise num_train_steps={num_train_steps}, or begin it earlier. "
            f"{received}"
        )
    return dict(zip(starts, values, strict=True))


def in_steps(text: str, num_train_steps: int) -> str:
    """Returns a schedule with steps in place of percents of a run.

    >>> in_steps("6@0,12@60%", 1000)
    '6@0,12@600'
    """
    return re.sub(
        r"(\d+)%", lambda m: str(int(m[1]) * num_train_steps // 100), text
    )


def index_at(phases: Sequence[Phase], step: int) -> int:
    """Returns the index of the phase that a step is in."""
    starts = [phase.first_step for phase in phases]
    return bisect.bisect_right(starts, step) - 1


def changing_fields(phases: Sequence[Phase], index: int) -> dict[str, int]:
    """Returns the values of a phase that not all phases share, by name."""
    return {
        field: getattr(phases[index], field)
        for field, _ in SCHEDULES.values()
        if len({getattr(phase, field) for phase in phases}) > 1
    }
