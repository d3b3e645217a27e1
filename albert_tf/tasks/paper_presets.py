"""The paper's settings for fine-tuning, by task.

Source: Lan et al. 2020, table 14; google-research/albert, `run_glue.sh` and
README (RACE: with the table's learning rate, the second version diverges).
"""

import dataclasses
from collections.abc import Mapping

from albert_tf.config import AlbertConfig
from albert_tf.settings import SettingValues
from albert_tf.tasks.planning import PlanRequest


@dataclasses.dataclass(frozen=True)
class PaperSettings:
    """One row of the paper's table 14, under the names of the flags.

    `albert_dropout`, the dropout rate of the encoder, has no flag.
    """

    learning_rate: float
    train_batch_size: int
    albert_dropout: float
    num_train_steps: int
    num_warmup_steps: int
    max_seq_length: int = 512
    # The same in every row: the dropout of the pooled output.
    dropout_prob: float = 0.1
    # The paper names no update rule; the original's scripts do.
    optimizer: str = "adamw"

    def flag_values(self) -> SettingValues:
        """Returns the values by name of their flag."""
        values = dataclasses.asdict(self)
        del values["albert_dropout"]
        return values

    def with_dropout(self, config: AlbertConfig) -> AlbertConfig:
        """Returns the config with the dropout rate of the encoder."""
        return dataclasses.replace(
            config,
            hidden_dropout_prob=self.albert_dropout,
            attention_probs_dropout_prob=self.albert_dropout,
        )


# Learning rate, batch size, encoder dropout, steps, warm-up steps, length.
PAPER_SETTINGS: Mapping[str, PaperSettings] = {
    "cola": PaperSettings(1e-5, 16, 0, 5336, 320),
    "sts-b": PaperSettings(2e-5, 16, 0, 3598, 214),
    "sst-2": PaperSettings(1e-5, 32, 0, 20935, 1256),
    "mnli": PaperSettings(3e-5, 128, 0, 10000, 1000),
    "qnli": PaperSettings(1e-5, 32, 0, 33112, 1986),
    "qqp": PaperSettings(5e-5, 128, 0.1, 14000, 1000),
    "rte": PaperSettings(3e-5, 32, 0.1, 800, 200),
    "mrpc": PaperSettings(2e-5, 32, 0, 800, 200),
    "wnli": PaperSettings(2e-5, 16, 0.1, 2000, 250),
    "squad_v1": PaperSettings(5e-5, 48, 0, 3649, 365, 384),
    "squad_v2": PaperSettings(3e-5, 48, 0, 8144, 814),
    "race": PaperSettings(2e-5, 32, 0.1, 12000, 1000),
}
# Tasks that use the settings of another one.
_SAME_AS = {"mismnli": "mnli", "ax": "mnli"}


def plan_step(request: PlanRequest) -> SettingValues:
    """Returns the settings of `preset`, and a config with its dropout."""
    if not (preset := request.settings["preset"]):
        return {}
    paper = paper_settings(request.task_config.name, preset)
    albert_config = paper.with_dropout(request.albert_config)
    settings = request.undecided(paper.flag_values())
    return {**settings, "albert_config": albert_config}


def paper_settings(task_name: str, preset: str = "paper") -> PaperSettings:
    """Returns the settings for a task, by `TaskData.name`.

    `paper_v2` has what the second version of the released checkpoints needs.

    >>> paper_settings("rte").num_warmup_steps
    200
    """
    settings = PAPER_SETTINGS.get(_SAME_AS.get(task_name, task_name))
    if settings is None:
        raise ValueError(
            f"The paper has no settings for the task {task_name!r}, only for "
            f"{', '.join(PAPER_SETTINGS)}. Leave --preset out."
        )
    if task_name == "race" and preset == "paper_v2":
        return dataclasses.replace(
            settings, learning_rate=1e-5, albert_dropout=0.0
        )
    return settings
