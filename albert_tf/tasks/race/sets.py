"""RACE's flags, and the questions that they name.

Data flow: flags -> [this file] -> sets -> run. Slow imports come after them.
Source: google-research/albert, `run_race.py`.
"""

import dataclasses
import functools
import logging
from typing import Any

from albert_tf.settings import setting
from albert_tf.tasks import example_files, held_out, task_data
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import ChoiceLengths
from albert_tf.tasks.race.spec import MultipleChoiceSpec
from albert_tf.tasks.spec import DataRequest, FinetuningSpec, TaskConfig
from albert_tf.tasks.task import MakeTask
from albert_tf.tasks.task_data import ExampleSet, Sets

_LOGGER = logging.getLogger(__name__)

_FORMATS = (
    "a line of JSON for each question (article, question, options, answer, "
    "id), or for each passage, as in RACE's all.txt"
)
# TF1: where the original keeps its records, under the names of files to read.
_RECORD_ENDINGS = (".tf_record", ".tfrecord")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaceConfig(HeadFlags, TaskConfig):
    """RACE's flags; `read_sets` checks the length."""

    name = "race"

    task_name: str = setting("race", "The task.", choices=("race",))
    data_dir: str | None = setting(
        None, "Directory that holds RACE/{train,dev,test}/."
    )
    train_file: str | None = setting(
        None, f"Questions to train on, instead of RACE/train/: {_FORMATS}."
    )
    eval_file: str | None = setting(
        None, f"Questions to evaluate, instead of RACE/dev/: {_FORMATS}."
    )
    predict_file: str | None = setting(
        None, f"Questions to answer, instead of RACE/test/: {_FORMATS}."
    )
    max_qa_length: int = setting(
        ChoiceLengths.max_qa_length,
        "Maximum number of tokens of question and option together; longer "
        "ones lose their beginning.",
    )
    high_only: bool = setting(False, "Leave out RACE's middle level.")
    middle_only: bool = setting(False, "Leave out RACE's high level.")

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels to read."""
        left_out = {"middle": self.high_only, "high": self.middle_only}
        return tuple(name for name, out in left_out.items() if not out)


def read_sets(config: RaceConfig, request: DataRequest) -> Sets[ExampleSet]:
    """Reads the questions of a run, and checks that they can be used."""
    from albert_tf.tasks.race.data import MultipleChoiceData

    lengths = ChoiceLengths.within(vars(config) | vars(request))
    sets = {}
    for use in request.uses:
        path: Any = held_out.given_file(config, request, use)
        if path and str(path).endswith(_RECORD_ENDINGS):
            text = "--%s_file=%s is ignored: TFRecords are not read."
            _LOGGER.warning(text, use, path)
            path = None
        if path:
            is_all = config.levels == examples_lib.LEVELS
            examples = [
                example
                for example in examples_lib.read_questions(path)
                if is_all or example.level in config.levels
            ]
        else:
            path = config.data_dir or ""
            examples = examples_lib.read_split(
                path, task_data.SPLITS[use], levels=config.levels
            )
        where = str(path)
        example_files.check_ids([example.guid for example in examples], where)
        if use != "predict":
            # Now, not after hours of training.
            examples_lib.known_labels(examples)
        data = MultipleChoiceData(
            tokenizer=request.tokenizer,
            lengths=lengths,
            num_choices=examples_lib.num_options(examples, where),
        )
        sets[use] = [ExampleSet(examples=examples, data=data)]
    return task_data.sets_by_use(sets)


def make_task(config: RaceConfig, sets: Sets[ExampleSet]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.race.model import MultipleChoiceTask

    return functools.partial(MultipleChoiceTask, head=config)


FINETUNING = FinetuningSpec(
    task_names=("race",),
    config_class=RaceConfig,
    defaults={
        "learning_rate": 1e-5,
        "num_train_steps": 12_000,
        "num_warmup_steps": 1000,
        "train_batch_size": 32,
        "save_checkpoints_steps": 100,
        "do_train": True,
        "do_eval": True,
    },
    read_sets=read_sets,
    make_task=make_task,
    head_spec=lambda _: MultipleChoiceSpec(),
    predict_arguments=lambda _: "< questions.jsonl",
)
