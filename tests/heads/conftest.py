"""Fine-tunings of every head: planned, trained, and exported.

Each is made once for all files of this folder.
"""

import functools
import os
import shutil

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import heads
from albert_tf.data import builder
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig
from albert_tf.tasks import spec as specs
from tests.checkpoints.weights import convert
from tests.exported_models import write_checkpoint
from tests.heads.rows import CONFIG, ROWS

STEPS = {
    "num_train_steps": 3,
    "save_checkpoints_steps": 3,
    "train_batch_size": 4,
    "max_seq_length": 24,
}


@pytest.fixture(scope="session")
def base(tmp_path_factory, tiny_spm_model):
    """An encoder with its vocabulary, where all fine-tunings begin."""
    folder = tmp_path_factory.mktemp("base")
    write_checkpoint(folder, albert_tf.AlbertModel(CONFIG))
    shutil.copy(tiny_spm_model, folder)
    return folder


@pytest.fixture(scope="session")
def pretrain(tiny_corpus, tiny_spm_model, tmp_path_factory):
    """Pretrains three steps, in a folder."""

    def run(folder):
        records = tmp_path_factory.mktemp("records")
        builder.build(
            PretrainingDataConfig(
                input_file=str(tiny_corpus),
                output_file=str(records / "train"),
                spm_model_file=str(tiny_spm_model),
                max_seq_length=24,
                max_predictions_per_seq=4,
            )
        )
        CONFIG.to_json_file(records / "config.json")
        return albert_tf.pretrain(
            input_file=str(records / "train"),
            albert_config_file=records / "config.json",
            output_dir=folder,
            max_predictions_per_seq=4,
            **STEPS,
        )

    return run


class Trained:
    """A head after three steps, its folder and its answers in Python."""

    def __init__(self, name, result):
        self.name, self.row, self.result = name, ROWS[name], result
        self.path = result.output_dir
        self.is_known = name in heads.HEADS
        # A head of no table is passed; the checkpoint names others.
        self.head = None if self.is_known else self.row.task
        self.spec = specs.head_spec_of(self.head or name)
        self.predictor = albert_tf.load_predictor(self.path, head=self.head)
        self.answers = self.predictor.predict(self.row.inputs)

    def export(self, folder, **values):
        defaults = {"init_checkpoint": self.path, "head": self.head}
        config = ExportConfig(export_dir=str(folder), **defaults | values)
        return saved_model.export(config)


@pytest.fixture(scope="session", params=ROWS)
def trained(request, base, pretrain, tmp_path_factory):
    name, row = request.param, ROWS[request.param]
    folder = tmp_path_factory.mktemp(name) / "run"
    if row.task is None:
        return Trained(name, pretrain(folder))
    result = albert_tf.finetune(
        row.task,
        train_examples=row.examples,
        init_checkpoint=base,
        output_dir=folder,
        learning_rate=0.05,
        **STEPS | row.settings,
    )
    return Trained(name, result)


class Served:
    """A SavedModel of two layers, the first of which is `trained`.

    The names of the signatures of one layer end in `_1`.
    """

    def __init__(self, trained, folder, **values):
        self.trained, self._folder = trained, folder
        self.checkpoint = str(folder / "checkpoint")
        if not os.path.exists(self.checkpoint):
            convert(trained.path, self.checkpoint, "keras", num_hidden_layers=2)
        self.summary = trained.export(
            folder / "served",
            init_checkpoint=self.checkpoint,
            depth=("1", "2"),
            model_name=trained.name,
            **values,
        )
        # Kept, because its signatures do not keep it.
        self.loaded = tf.saved_model.load(self.summary.path)

    @functools.cached_property
    def predictors(self):
        """The predictors of both depths, by the ending of their signatures."""
        load = functools.partial(
            albert_tf.load_predictor, self.checkpoint, head=self.trained.head
        )
        return {"": load(), "_1": load(depth=1)}

    def again(self, **values):
        """Returns the next version, exported with other settings."""
        return Served(self.trained, self._folder, **values)

    def ask(self, signature, inputs):
        """Returns the outputs of a signature as arrays."""
        found = self.loaded.signatures[signature](
            **{name: tf.constant(values) for name, values in inputs.items()}
        )
        return {name: values.numpy() for name, values in found.items()}


@pytest.fixture(scope="session")
def served(trained, tmp_path_factory):
    return Served(trained, tmp_path_factory.mktemp("served"))
