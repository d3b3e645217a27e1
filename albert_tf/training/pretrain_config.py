"""The configuration of a pretraining run, its flags and its phases.

`3@0,6@30000` is a schedule: the value 3 from step 0 on, and 6 from step 30000
on; `6@25%` begins when a quarter of the steps is done. The phases of a run
begin wherever one of its schedules changes.

Source: Gong et al. 2019, "Efficient training of BERT by progressively
stacking", for the depth, which sharing all layers makes free of copies; Devlin
et al. 2019, appendix A.2, for the length; Smith et al. 2018, "Don't decay the
learning rate, increase the batch size", for the batch size; Ankner et al. 2023,
"Dynamic masking rate schedules for MLM pretraining", for the share of masks.
"""

import dataclasses
import itertools
import re
from typing import Any

from albert_tf.settings import setting
from albert_tf.text.tokenizer import NewTokens
from albert_tf.training.run_config import Phase, RunConfig

_AS_BUILT = (
    " Default: as the records were built; only records of --masking=dynamic "
    "can be read with another value."
)
# The metric that selects the best weights by default. Differs: the reference
# takes accuracies, which may stand still while the loss gets worse.
PRIMARY_METRICS = {"mlm": "masked_lm_loss", "sop": "sentence_order_loss"}
# What a setting contradicts, and what it has no use without.
_EXCLUDED = {
    "continue_from": "init_checkpoint",
    "mask_schedule": "masked_lm_prob",
}
_NEEDED = {
    "best_metric": "do_eval",
    "init_from_group0": "init_checkpoint",
    "new_tokens": "init_checkpoint",
}
# The fields of a phase that a schedule may change, by the name of its flag;
# and the names of the settings that the last phase must have, if any.
SCHEDULES = {
    "depth_schedule": ("depth", "num_hidden_layers"),
    "length_schedule": ("max_seq_length", "max_seq_length"),
    "batch_schedule": ("batch_size", "train_batch_size"),
    "mask_schedule": ("masked_lm_prob", ""),
}
_NUM_EVAL_STEPS = 100
_ENTRIES = re.compile(r"{0}@\d+%?(,{0}@\d+%?)*".format(r"(\d+|0\.\d+)"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(NewTokens, RunConfig):
    """Settings of a pretraining run, with the defaults of the paper."""

    input_file: str = setting(
        "", "Comma-separated globs of the records to train on."
    )
    eval_file: str = setting(
        "",
        "Comma-separated globs of the records to evaluate on. Default: those "
        "of --input_file.",
    )
    do_train: bool = setting(True, "Whether to train.")
    do_eval: bool = setting(False, "Whether to evaluate.")
    depth_schedule: str = setting(
        "",
        "Number of layers that are computed, by step: 3@0,6@30000,12@60000 "
        "computes 3 layers of 12 until step 30000, then 6, and all from step "
        "60000 on; 6@0,12@60% computes 6 until 60% of the steps are done. Only "
        "for models whose layers share all their weights. Default: always all.",
    )
    length_schedule: str = setting(
        "",
        "Sequence length of the training records, by step, such as "
        "128@0,512@90000; --input_file must name records of each length, and "
        "the last must be --max_seq_length. Default: always that.",
    )
    batch_schedule: str = setting(
        "",
        "Global training batch size, by step, such as 256@0,1024@10000; the "
        "last must be --train_batch_size. Default: always that.",
    )
    mask_schedule: str = setting(
        "",
        "Share of tokens to mask, by step, such as 0.3@0,0.15@60000, in "
        "training on records of --masking=dynamic; the maximum number of "
        "masked tokens changes in proportion. Default: always as the "
        "records were built, or --masked_lm_prob.",
    )
    continue_from: str | None = setting(
        None,
        "Output directory of another pretraining, whose newest weights, "
        "optimizer slots and step this one goes on from, with other lengths, "
        "batches, records or schedules. --num_train_steps counts the steps of "
        "both.",
    )
    max_predictions_per_seq: int | None = setting(
        None,
        "Maximum number of masked tokens per sequence." + _AS_BUILT,
        at_least=1,
    )
    masked_lm_prob: float | None = setting(
        None, "Share of tokens to mask." + _AS_BUILT, above=0, at_most=1
    )
    ngram: int | None = setting(
        None,
        "Longest n-gram of words that is masked together." + _AS_BUILT,
        at_least=1,
    )
    favor_shorter_ngram: bool | None = setting(
        None,
        "Whether an n-gram of n words has a probability proportional to 1/n; "
        "otherwise the same probabilities in reverse." + _AS_BUILT,
    )
    do_whole_word_mask: bool | None = setting(
        None, "Whether whole words are masked, or single tokens." + _AS_BUILT
    )
    read_order: str = setting(
        "records",
        "Order of training: records shuffles all records, by random access to "
        "files that this machine reads; files shuffles the files, which each "
        "host reads from beginning to end, 16 at a time, and the records of "
        "windows of them, as a TPU with a name needs it.",
        choices=("records", "files"),
    )
    verify_records: bool = setting(
        False,
        "Read all record files before the first step and compare their "
        "checksums. A damaged record also stops a run when it is read.",
    )
    max_eval_steps: int | None = setting(
        None,
        "Maximum number of evaluation batches. Default: all of --eval_file, "
        "or 100 of --input_file.",
        at_least=1,
    )
    objectives: tuple[str, ...] = setting(
        ("mlm", "sop"),
        "Training losses: mlm (masked language modeling), sop (sentence "
        "order), or both, separated by a comma.",
    )
    pack: bool = setting(
        False,
        "Let the short sequences of a batch share rows while they are encoded, "
        "instead of padding them; the result is the same. Shapes change from "
        "step to step, so not for XLA and TPUs.",
    )
    init_from_group0: bool = setting(
        False,
        "Initialize every layer group from the first group of "
        "--init_checkpoint.",
    )
    allow_new_heads: bool = setting(
        False,
        "Initialize heads that --init_checkpoint lacks at random, instead of "
        "refusing the checkpoint.",
    )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the run in their order."""
        [last] = super().phases
        values = {
            field: self._schedule(name, getattr(last, field), last_name)
            for name, (field, last_name) in SCHEDULES.items()
            if getattr(self, name)
        }
        return tuple(
            dataclasses.replace(
                last,
                first_step=start,
                **{
                    field: by_step[max(s for s in by_step if s <= start)]
                    for field, by_step in values.items()
                },
            )
            for start in sorted({0}.union(*values.values()))
        )

    @property
    def evaluated_file(self) -> str:
        """Globs of the records to evaluate on."""
        return self.eval_file or self.input_file

    @property
    def num_eval_steps(self) -> int | None:
        """Maximum number of evaluation batches, None for no limit."""
        if self.max_eval_steps is None and not self.eval_file:
            return _NUM_EVAL_STEPS  # As the original.
        return self.max_eval_steps

    @property
    def primary_metric(self) -> str:
        """The score that selects the best weights by default."""
        return PRIMARY_METRICS[self.objectives[0]]

    def _schedule(
        self, name: str, last_value: Any, last_name: str
    ) -> dict[int, Any]:
        """Returns the values of a schedule by their first step."""
        text = getattr(self, name)
        received = f"Received: {name}={text!r}."
        is_share = name == "mask_schedule"
        example = "0.3@0,0.15@50000" if is_share else "3@0,12@50000"
        if not _ENTRIES.fullmatch(text) or ("." in text and not is_share):
            raise ValueError(
                f"`{name}` must be one or more of VALUE@STEP or VALUE@PERCENT% "
                f"with commas between them, such as {example}. {received}"
            )
        entries = in_steps(text, self.num_train_steps).split(",")
        pairs = [entry.split("@") for entry in entries]
        values = [(float if is_share else int)(value) for value, _ in pairs]
        starts = [int(start) for _, start in pairs]
        problem = ""
        if starts[0] or any(a >= b for a, b in itertools.pairwise(starts)):
            problem = "begin at step 0, and each entry at a later step"
        elif last_name and values[-1] != last_value:
            problem = f"end with {last_name}={last_value}, which is evaluated"
        elif is_share and not 0 < min(values) <= max(values) <= 1:
            problem = "have values above 0 and at most 1"
        elif not is_share and min(values) < 1:
            problem = "have values of at least 1"
        elif name == "depth_schedule" and max(values) > last_value:
            problem = "have no more layers than all"
        elif starts[-1] >= self.num_train_steps:
            problem = "begin its last phase before the run ends"
        if problem:
            raise ValueError(f"`{name}` must {problem}. {received}")
        return dict(zip(starts, values, strict=True))

    def _check_together(self) -> None:
        """Checks settings that depend on each other."""
        for phase in self.phases:
            self.check_sequence_length(phase.max_seq_length)
        if self.depth_schedule:
            self.albert_config.check_shared("depth_schedule")
        for name, other in _EXCLUDED.items():
            if getattr(self, name) and getattr(self, other):
                raise ValueError(
                    f"`{name}` and `{other}` exclude each other. Leave one out."
                )
        for name, other in _NEEDED.items():
            if getattr(self, name) and not getattr(self, other):
                raise ValueError(f"`{name}` needs --{other}.")

    def __post_init__(self) -> None:
        super().__post_init__()
        names = set(self.objectives)
        is_known = names and names <= set(PRIMARY_METRICS)
        if not is_known or len(names) < len(self.objectives):
            raise ValueError(
                "`objectives` must be one or more of "
                f"{', '.join(PRIMARY_METRICS)}, each once. Received: "
                f"objectives={','.join(self.objectives)}."
            )
        self._check_together()
        if not self.do_train and not self.do_eval:
            raise ValueError(
                "There is nothing to do. Pass --do_train or --do_eval."
            )
        for name in ("input_file", "eval_file"):
            value = getattr(self, name)
            if "://" in value and self.read_order != "files":
                raise ValueError(
                    "Remote records are read file by file. Pass "
                    "--read_order=files, or copy them to a local folder. "
                    f"Received: {name}={value!r}."
                )


def in_steps(schedule: str, num_train_steps: int) -> str:
    """Returns a schedule with steps in place of percents of a run.

    >>> in_steps("6@0,12@60%", 1000)
    '6@0,12@600'
    """
    return re.sub(
        r"(\d+)%", lambda m: str(int(m[1]) * num_train_steps // 100), schedule
    )
