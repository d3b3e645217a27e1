"""How a head answers texts and is served, and how a task is fine-tuned.

Whatever depends on the head of a model asks its `HeadSpec`: `load_predictor`,
the evaluation of a run, exports. A command that fine-tunes asks a
`FinetuningSpec`. Both are found by name in `registry`, or passed as they are.

Plain Python: a package imports its slow parts where they are used.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from albert_tf import checks, registry
from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.metrics.scores import Scores
from albert_tf.settings import Settings, SettingValues
from albert_tf.tasks import task
from albert_tf.tasks.example_files import RowsInMemory
from albert_tf.tasks.task_data import (
    AnswerData,
    Examples,
    ExampleSet,
    Outputs,
    Sets,
)
from albert_tf.text.base import Tokenizer

if TYPE_CHECKING:
    from albert_tf.serving.exported_encoder import ExportedWeights
    from albert_tf.serving.graph_tokenizer import GraphTokenizer
    from albert_tf.serving.signature import Signature

Signatures: TypeAlias = "Sequence[Signature]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServingSettings(Settings):
    """The settings of an export; `max_seq_length` limits raw text."""

    # Names of settings whose defaults are the settings of the fine-tuning.
    as_trained: ClassVar[tuple[str, ...]] = ()
    # Names of lengths of parts of the sequence, which must fit in it.
    parts: ClassVar[tuple[str, ...]] = ()
    # Names of settings that have no effect on the signature of ids.
    not_in_runtimes: ClassVar[tuple[str, ...]] = ()

    max_seq_length: int
    # The runtime of `HeadSpec.runtimes` that the export is for, if any.
    runtime: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.not_in_runtimes:
            if self.runtime and getattr(self, name):
                raise ValueError(
                    f"--format={self.runtime} is without `{name}`. Received: "
                    f"{name}={getattr(self, name)}."
                )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings that only some heads have."""
        common = {field.name for field in dataclasses.fields(ServingSettings)}
        names = (field.name for field in dataclasses.fields(cls))
        return tuple(name for name in names if name not in common)

    def answer_settings(self) -> SettingValues:
        """Returns settings of `load_predictor` that give the same answers."""
        return {"max_seq_length": self.max_seq_length}

    def applied_to(self, metadata: Metadata) -> Metadata:
        """Returns the metadata of an export, from the checkpoint's."""
        return metadata

    def notes(self, metadata: Metadata) -> list[Note]:
        """Returns notes on facts that are replaced, or assumed."""
        assumed = self.applied_to(metadata).assumed
        text = f"{assumed} (none was measured)"
        return [Note("assumed", text)] if assumed else []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exported:
    """A model, with all that its signatures need.

    `settings` are of the class `HeadSpec.serving_settings`; `metadata` belong
    to the checkpoint; `weights` are exported copies of the model's weights.
    """

    settings: Any
    metadata: Metadata
    model: Any
    weights: "ExportedWeights"
    tokenizer: "GraphTokenizer"


class HeadSpec(abc.ABC):
    """Base class: how a head answers texts, and how it is served."""

    head: ClassVar[Head]
    # The longest sequence of raw text, unless a fine-tuning determined it.
    max_seq_length: ClassVar[int] = 512

    # Names of the outputs of the model whose second axis is the sequence.
    sequence_outputs: ClassVar[frozenset[str]] = frozenset()
    # Whether answers are vectors, which `Predictor.similarity` compares.
    gives_vectors: ClassVar[bool] = False

    def trained_settings(self, checkpoint: Checkpoint) -> SettingValues:
        """Returns the settings of a checkpoint that apply to this head."""
        return checkpoint.settings

    @abc.abstractmethod
    def example(self, position: int, item: object) -> Any:
        """Returns an input of `Predictor.predict` as an example.

        `position` is the number of the input, from 0.
        """

    @abc.abstractmethod
    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> AnswerData:
        """Returns the data half that answers texts.

        `checkpoint` has the vocabulary, and `model` may be an export. Options
        of `load_predictor` replace `settings` of the fine-tuning.
        """

    def answer_task(self, data: Any, model: Any) -> task.AnswerTask:
        """Returns the model half, with a model that has its weights."""
        return task.AnswerTask(model, self.sequence_outputs)

    def example_set(self, data: Any, examples: Examples) -> ExampleSet:
        """Returns examples with the data half that makes their records."""
        return ExampleSet(examples=examples, data=data)

    # Whether `load_predictor` takes several models, which answer together.
    has_mean: ClassVar[bool] = False

    def mean_data(self, members: Sequence[Any]) -> Any:
        """Returns the data half of several models, from their data halves."""
        return members[0]

    def mean_outputs(
        self, members: Sequence[Any], outputs: Sequence[Outputs]
    ) -> Outputs:
        """Returns the outputs of several models together.

        `members` are their data halves. See `metrics.classification`.
        """
        from albert_tf.metrics.classification import mean_logits

        return {
            name: [*map(mean_logits, *(member[name] for member in outputs))]
            for name in outputs[0]
        }

    # The class of the settings of an export.
    serving_settings: ClassVar[type[ServingSettings]] = ServingSettings
    # Rows of one run of a served model.
    served_batch_size: ClassVar[int] = 32
    # Whether a server may join the outputs of several requests.
    joins_outputs: ClassVar[bool] = True
    # The runtimes whose exports `load_predictor` runs.
    runtimes: ClassVar[tuple[str, ...]] = (*registry.ENGINES,)

    # Head of exports for LiteRT, which take ids alone; "" for `head`.
    litert_head: ClassVar[str] = ""

    def model_arguments(self, settings: SettingValues) -> SettingValues:
        """Returns arguments of the model's class that the settings decide."""
        return {}

    def make_signatures(self, exported: Exported) -> Signatures:
        """Traces the signatures of an exported model."""
        make = registry.load(registry.SIGNATURES[self.head.name])
        signatures: Signatures = make(exported)
        return signatures

    @property
    def finetuning(self) -> "FinetuningSpec":
        """How the head is fine-tuned; an error for the head of a task."""
        raise ValueError(
            f"The head {self.head.name} is fine-tuned for a task. Pass the "
            "name of the task."
        )


def head_spec_of(head: str | HeadSpec | type[HeadSpec]) -> HeadSpec:
    """Returns the `HeadSpec` of a name, a class or an instance.

    A name is one of `registry.HEADS`, or see `heads.in_package`.
    """
    loaded: Any = head
    if isinstance(head, str):
        name = heads.named(head).name
        if head in registry.HEADS:
            loaded = registry.load(registry.HEADS[name])
        else:
            loaded = heads.in_package(head)
    head_spec: HeadSpec = loaded() if isinstance(loaded, type) else loaded
    return head_spec


def serving_settings() -> list[type[ServingSettings]]:
    """Returns the classes of the settings of exports, each once."""
    head_specs = map(registry.load, registry.HEADS.values())
    return [*dict.fromkeys(each.serving_settings for each in head_specs)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskConfig(Settings, abc.ABC):
    """Base class of the settings of a task, made by `settings.setting`."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the task, which may have presets."""

    @property
    def is_table(self) -> bool:
        """Whether the examples are rows of the user's own table.

        Other settings of the run then suit their number.
        """
        return False

    @property
    def count_windows_as_epochs(self) -> bool:
        """Whether epochs count the windows of long texts, not examples."""
        return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataRequest:
    """The examples that a run asks a task for.

    `uses` are some of `train`, `eval` and `predict`; `given_examples` are rows
    in place of files, by use. A training has a `start`, the checkpoint that it
    begins with; a run without training has `weights`, which it uses.
    """

    uses: Sequence[str]
    tokenizer: Tokenizer
    max_seq_length: int
    weights: Checkpoint = Checkpoint()
    start: Checkpoint = Checkpoint()
    given_examples: Mapping[str, RowsInMemory] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningSpec:
    """The fine-tuning of one command, or of one function call.

    Args:
        task_names: Names that users know the task by.
        config_class: Class of its settings.
        defaults: Defaults of run settings, by name, where the task's differ.
        read_sets: Function of a config and of a request that returns the
            `Sets` of examples.
        make_task: Function of config and sets that returns a `MakeTask`.
        head_spec: Returns the `HeadSpec` of the head that a config selects.
        predict_arguments: Function of the sets that returns arguments of
            `python -m albert_tf.predict`, for its next call.
        chosen: Function of the data half and scores that returns the settings
            of an export that an evaluation chooses.
        settings_of_weights: Function of a `Checkpoint` that returns settings
            which its weights determine, unless they are trained.
        settings_of_start: Function of the `Checkpoint` that a training starts
            from; returns settings which it determines.
    """

    task_names: tuple[str, ...]
    config_class: type[TaskConfig]
    defaults: SettingValues
    read_sets: Callable[[Any, DataRequest], Sets[ExampleSet]]
    make_task: Callable[[Any, Sets[ExampleSet]], task.MakeTask]
    head_spec: Callable[[Any], HeadSpec]
    predict_arguments: Callable[[Sets[ExampleSet]], str]
    chosen: Callable[[Any, Scores], SettingValues] = lambda *_: {}
    settings_of_weights: Callable[[Checkpoint], SettingValues] = lambda _: {}
    settings_of_start: Callable[[Checkpoint], SettingValues] = lambda _: {}


def finetuning_spec_of(
    task: str | FinetuningSpec | HeadSpec | type[HeadSpec],
) -> FinetuningSpec:
    """Returns the `FinetuningSpec` of a task, by name, whatever its case."""
    if isinstance(task, FinetuningSpec):
        return task
    if isinstance(task, HeadSpec | type):
        return head_spec_of(task).finetuning
    checks.check_choice("task_name", task.lower(), tuple(registry.TASKS))
    task_spec: FinetuningSpec = registry.load(registry.TASKS[task.lower()])
    return task_spec
