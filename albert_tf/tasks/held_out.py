"""Rows held out: a share of those to train on, which are evaluated instead."""

import collections
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from albert_tf import checks
from albert_tf.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class HoldOutFlags:
    """Which rows are held out."""

    validation_share: float | None = setting(
        None,
        "Share of the training rows to evaluate instead of training on them, "
        "where there is no file to evaluate: of each label the same, chosen by "
        "the texts.",
    )
    validation_seed: int = setting(
        0, "Seed that chooses the rows of --validation_share."
    )

    def __post_init__(self) -> None:
        if self.validation_share is not None:
            checks.check_number(
                "validation_share", self.validation_share, above=0, below=1
            )

    def check_unseen(self, task_name: str, trained: Mapping[str, Any]) -> None:
        """Checks that weights have not been trained on what is evaluated.

        `trained` are the settings of their training.
        """
        held_out = [self.validation_share, self.validation_seed]
        *before, _ = trained.get("validation") or [None]
        is_known = trained.get("task") == task_name
        if self.validation_share and is_known and before != held_out:
            raise ValueError(
                "The weights in use have seen rows to evaluate: they were "
                f"trained with {before or None}, not {held_out}, as "
                "--validation_share and --validation_seed. Pass the same, or "
                "an --eval_file."
            )

    def divide(
        self,
        examples: Sequence[Any],
        uses: Collection[str],
        trained: Mapping[str, Any],
        *,
        texts: Callable[[Any], list[Any]],
        label: Callable[[Any], str] = lambda _: "",
    ) -> tuple[dict[str, list[Any]], list[Any]]:
        """Returns examples by use, and what a run keeps of the division.

        That is share, seed and digests, the setting `validation`. Without
        training, the digests are those of the weights in use, which were
        `trained` with these settings. `texts` returns JSON values; of each
        `label`, the same share is held out.
        """
        share, seed = self.validation_share or 0.0, self.validation_seed
        kept = trained.get("validation")
        held_out = kept[2] if kept and "train" not in uses else None
        *parts, held_out = hold_out(
            examples,
            share=share,
            seed=seed,
            texts=texts,
            label=label,
            held_out=held_out,
        )
        found = {use: parts[use == "eval"] for use in uses}
        return found, [share, seed, held_out]


def hold_out(
    examples: Sequence[Any],
    *,
    share: float,
    seed: int,
    texts: Callable[[Any], list[Any]],
    label: Callable[[Any], str],
    held_out: Collection[str] | None = None,
) -> tuple[list[Any], list[Any], Collection[str]]:
    """Divides examples; about a `share` of each label is in the second part.

    A row's texts and the seed give it a digest. Those with the lowest of each
    label are held out, unless their digests are given; they are returned, too.
    Then a row's part depends on its texts alone, whatever rows are added,
    removed or sorted, and whatever labels are corrected.
    """
    digests, by_label = [], collections.defaultdict(set)
    for each in examples:
        content = json.dumps([seed, *texts(each)])
        digests.append(hashlib.sha256(content.encode()).hexdigest()[:16])
        by_label[label(each)].add(digests[-1])
    is_first = held_out is None
    if held_out is None:
        chosen: list[str] = []
        num_seen = 0
        for _, own in sorted(by_label.items()):
            num_seen += len(own)
            # The remainders of many rare labels add up.
            num_own = math.floor(num_seen * share + 0.5) - len(chosen)
            chosen += sorted(own)[:num_own]
        held_out = sorted({*chosen})
    known = {*held_out}
    parts: tuple[list[Any], list[Any]] = ([], [])
    for example, digest in zip(examples, digests, strict=True):
        parts[digest in known].append(example)
    if not parts[1] or (is_first and not parts[0]):
        raise ValueError(
            f"--validation_share={share} of {len(examples)} rows holds "
            f"{len(parts[1])} out. Pass another share, or an --eval_file."
        )
    return *parts, held_out
