"""Tiny runs: configs, batches, tasks that train in seconds, jobs, logs."""

import contextlib
import dataclasses
import json
import os
import random
import types

import keras
import numpy as np
import tensorflow as tf

from albert_tf import features, files
from albert_tf.checkpoints import discovery, run_checkpoints, tf1
from albert_tf.config import AlbertConfig
from albert_tf.data import (
    builder,
    pretraining_config,
    record_columns,
)
from albert_tf.data.record_columns import Padding
from albert_tf.devices import strategies
from albert_tf.devices.strategies import Workers
from albert_tf.inference.record_outputs import OutputComputer
from albert_tf.metrics.scores import Score, Scores
from albert_tf.modeling import losses
from albert_tf.modeling.layers import OutputLayer
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.observers import metric_log
from albert_tf.optimization import layerwise_decay
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.tasks.task_data import ExampleSet, Sets, TaskData
from albert_tf.text.vocabulary_file import SpecialIds, TokenizerSettings
from albert_tf.training import (
    finetune,
    run_folder,
    step,
)
from albert_tf.training.run_config import FinetuningConfig, RunConfig

V, S, P = 50, 16, 4
FIRST_WORD = 5  # after the special tokens
NUM_PRETRAINING_STEPS = 6


def config(dropout=0.0, **settings):
    values = {
        "vocab_size": V,
        "embedding_size": 6,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": S,
        "initializer_range": 0.3,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
    }
    return AlbertConfig(**values | settings)


def batches(num_batches, size=8, seed=0):
    """Global batches, stacked; the rows of one half have fewer targets."""
    rng = np.random.default_rng(seed)
    shape = (num_batches, size)
    lengths = rng.integers(S // 2, S + 1, (*shape, 1))
    input_mask = (np.arange(S) < lengths).astype(np.int32)
    ids = rng.integers(FIRST_WORD, V, (*shape, S)).astype(np.int32)
    is_sparse = np.arange(size)[:, None] < size // 2
    num_targets = np.where(is_sparse, 1, P)
    targets = np.arange(P) < num_targets
    slots = (*shape, P)
    return {
        "input_ids": ids * input_mask,
        "input_mask": input_mask,
        "segment_ids": (np.arange(S) > S // 3).astype(np.int32) * input_mask,
        "masked_lm_positions": rng.integers(1, S // 2, slots, dtype=np.int32),
        "masked_lm_ids": rng.integers(FIRST_WORD, V, slots, dtype=np.int32),
        "masked_lm_weights": np.broadcast_to(targets, slots).astype("float32"),
        "sentence_order_labels": rng.integers(0, 2, shape, dtype=np.int32),
    }


class Trainer:
    """A task and its step, and the results of the updates it has done."""

    def __init__(self, config, *, strategy=None, task=None, **multipliers):
        self.strategy = strategy or tf.distribute.get_strategy()
        self.config = config
        with self.strategy.scope():
            self.task = task or PretrainingTask(
                config.albert_config, dtype=config.dtype_policy, seed=3
            )
        of_weights = layerwise_decay.learning_rate_multipliers(
            [v.path for v in self.task.model.trainable_variables],
            **multipliers,
        )
        self.step = step.TrainStep(config, self.task, self.strategy, of_weights)
        self.optimizer = self.step.optimizer

    def dataset(self, batches):
        replicas = self.strategy.num_replicas_in_sync

        def make(_):
            parts = {
                name: values.reshape(
                    (-1, values.shape[1] // replicas, *values.shape[2:])
                )
                for name, values in batches.items()
            }
            return tf.data.Dataset.from_tensor_slices(parts)

        return strategies.distribute(self.strategy, make)

    def run(self, batches, *, per_call=None, loss_scale=None, depth=None):
        """Returns one dict a step, and the loss scale after the last."""
        iterator = iter(self.dataset(batches))
        num_steps = len(batches["input_ids"])
        state = tf.constant(loss_scale or [step.INITIAL_LOSS_SCALE, 0.0])
        rows = []
        for start in range(0, num_steps, per_call or num_steps):
            values, state = self.step.run(
                iterator,
                tf.constant(start, tf.int64),
                tf.constant(per_call or num_steps),
                state,
                tf.constant(self.config.random_seed, tf.int64),
                depth,
            )
            rows.extend(values.numpy().tolist())
        names = self.step.result_names
        steps = [dict(zip(names, row, strict=True)) for row in rows]
        return steps, state.numpy().tolist()

    def weights(self):
        return {
            variable.path: keras.ops.convert_to_numpy(variable)
            for variable in self.task.model.trainable_variables
        }


class LabelTask:
    """The loss and the metric totals of a task with two labels."""

    total_names = ("examples", "tokens", "loss_sum", "weight")
    min_length = 1
    compares_start = False

    def loss_denominators(self, batch):
        return {"labels": tf.reduce_sum(self.weights(batch))}

    def loss(self, batch, loss_denominators, *, seed, **computation):
        weights = self.weights(batch)
        sums = losses.cross_entropy_sums(
            self.logits(batch, seed), batch["label_ids"], weights
        )
        return sums.loss / loss_denominators["labels"], {
            "examples": tf.reduce_sum(tf.sign(weights)),
            "tokens": self.num_tokens(batch),
            "loss_sum": sums.loss,
            "weight": sums.weight,
        }

    def training_scores(self, totals):
        return {"loss": totals["loss_sum"] / totals["weight"]}


class OrderTask(LabelTask):
    """A linear classifier of 8 numbers: what the loop can train quickly."""

    def __init__(self):
        head = OutputLayer(
            2, hidden_size=8, stddev=0.3, seed=0, name="sentence_order_head"
        )
        inputs = keras.Input((8,))
        self.model = keras.Model(inputs, head(inputs))

    def logits(self, batch, seed):
        return self.model(batch["inputs"], training=seed is not None)

    def weights(self, batch):
        return batch["weights"]

    def num_tokens(self, batch):
        return 3.0 * tf.cast(tf.shape(batch["weights"])[0], tf.float32)


def run_config(kind=RunConfig, **values):
    """LAMB with a constant rate, so that runs of any length are alike."""
    defaults = {
        "albert_config": config(),
        "output_dir": "unused",
        "learning_rate": 0.01,
        "num_train_steps": 100,
        "num_warmup_steps": 0,
        "poly_power": 0.0,
        "random_seed": 0,
    }
    return kind(**defaults | values)


@dataclasses.dataclass(frozen=True)
class Sentence:
    """An example of `WordTask`."""

    guid: str
    tokens: tuple[int, ...]
    label: int


class WordData(TaskData):
    """Whether a sequence has high ids or low ones: records, scores."""

    name = "words"
    tokenizer = types.SimpleNamespace(
        vocab_size=V,
        settings=TokenizerSettings(),
        special_ids=SpecialIds(pad=0, unk=-1, cls=-1, sep=-1, mask=-1),
    )
    primary_metric = "accuracy"
    settings = None  # each instance has its own
    array_specs = (
        features.ArraySpec(name="input_ids", dtype="int32", is_sequence=True),
        features.ArraySpec(name="input_mask", dtype="int32", is_sequence=True),
        features.ArraySpec(name="segment_ids", dtype="int32", is_sequence=True),
        features.ArraySpec(name="label_ids", dtype="int32"),
    )

    def __init__(self, **settings):
        self.settings = {"max_seq_length": S} | settings

    def records(self, examples, *, is_training):
        for example in examples:
            ids = np.array(example.tokens, np.int32)
            yield {
                "input_ids": ids,
                "input_mask": np.ones_like(ids),
                "segment_ids": np.zeros_like(ids),
                "label_ids": np.array(example.label, np.int32),
            }

    def answers(self, examples, outputs):
        raise NotImplementedError

    def score_of_rows(self, examples, outputs, scores):
        return None  # without an interval

    def scores(self, examples, outputs):
        labels = [example.label for example in examples]
        predictions = np.argmax(outputs["logits"], axis=-1)
        accuracy = float(np.mean(predictions == labels))
        return Scores(entries=(Score("accuracy", accuracy),))

    def baselines(self, examples, start_outputs=None):
        return {}

    @contextlib.contextmanager
    def open_predictions(self, output_dir, scores):
        answers = {}

        def write(examples, outputs):
            labels = np.argmax(outputs["logits"], axis=-1).tolist()
            guids = (example.guid for example in examples)
            answers.update(zip(guids, labels, strict=True))

        yield write
        path = os.path.join(output_dir, "predictions.json")
        files.write_text(path, json.dumps(answers))


class WordTask(LabelTask):
    """A tiny ALBERT whose sentence-order head says which label it is."""

    sequence_outputs = frozenset({"token_sums"})

    def __init__(self, config, *, seed, dtype):
        self.model = PretrainingModel(
            config, objectives=("sop",), seed=seed, dtype=dtype
        )

    def logits(self, batch, seed):
        outputs = self.model(
            self.model.inputs_of(batch), training=seed is not None, seed=seed
        )
        return outputs["sentence_order_logits"]

    def weights(self, batch):
        return batch["example_weights"]

    def num_tokens(self, batch):
        return tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))

    def final_outputs(self, batch):
        return self.outputs(batch)

    def outputs(self, batch):
        return {
            "logits": self.logits(batch, seed=None),
            "token_sums": tf.cast(batch["input_ids"] * 2, tf.float32),
        }


def sentences(number, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for index in range(number):
        length = int(rng.integers(3, S + 1))
        label = int(rng.integers(0, 2))
        low = V // 2 if label else FIRST_WORD
        tokens = (2, *rng.integers(low, low + 4, length - 1).tolist())
        found.append(
            Sentence(guid=f"{seed}-{index}", tokens=tokens, label=label)
        )
    return found


def lines_of(output_dir):
    """Returns a run's log, without what depends on the clock."""
    lines = metric_log.read_lines(str(output_dir))
    json.dumps(lines, allow_nan=False)  # JSON has no NaN
    return [
        {
            k: v
            for k, v in line.items()
            if k != "time" and not k.endswith("_per_second")
        }
        for line in lines
    ]


def arrays_of(output_dir, step):
    """Returns the arrays of a run's checkpoint of a step."""
    name = f"step-{step:08d}"
    folder = os.path.join(output_dir, "checkpoints", name)
    return tf1.read(os.path.join(folder, run_checkpoints.MODEL_PREFIX))


def example_set(number, seed=0, name="", data=None):
    """Returns a set of examples that are easily learnt."""
    examples = sentences(number, seed)
    return ExampleSet(examples=examples, data=data or WordData(), name=name)


@dataclasses.dataclass(frozen=True)
class Job:
    """What a fine-tuning run is called with."""

    config: FinetuningConfig
    sets: Sets
    make_task: type

    @property
    def output_dir(self):
        return self.config.output_dir

    def run(self, callbacks=()):
        """Returns the scores; None if the training was stopped."""
        start = self.config.init_checkpoint
        if not self.sets.train:
            start = run_folder.weights_to_use(self.output_dir, start)
        opened = discovery.open(start) if start else None
        result = finetune.run(
            self.config, self.sets, self.make_task, opened, callbacks
        )
        return result and result.scores.flat()

    def replace(self, **changes):
        """Returns a job in which settings, sets or the task differ."""
        make_task = changes.pop("make_task", self.make_task)
        data = changes.pop("data", None)
        names = {"train", "evaluation", "prediction"} & set(changes)
        sets = dataclasses.replace(
            self.sets, **{name: changes.pop(name) for name in names}
        )
        if data:
            of_data = {
                id(one): dataclasses.replace(one, data=data) for one in sets.all
            }
            sets = Sets(
                train=of_data.get(id(sets.train)),
                evaluation=tuple(of_data[id(s)] for s in sets.evaluation),
                prediction=tuple(of_data[id(s)] for s in sets.prediction),
            )
        config = dataclasses.replace(self.config, **changes)
        return Job(config, sets, make_task)


def make_job(folder, output="run", **changes):
    """Returns a run of 60 steps in a directory; changes as in `Job.replace`."""
    num_steps = changes.get("num_train_steps", 60)
    settings = FinetuningConfig(
        albert_config=config(),
        output_dir=os.path.join(folder, output),
        optimizer="adamw",
        learning_rate=0.01,
        poly_power=0.0,
        num_train_steps=num_steps,
        num_warmup_steps=min(5, num_steps // 2),
        train_batch_size=8,
        eval_batch_size=4,
        predict_batch_size=4,
        save_checkpoints_steps=20,
        log_steps=10,
        strategy="one",
        max_seq_length=S,
        do_train=True,
        flags_text="--do_train\n",
    )
    sets = Sets(
        train=example_set(40, seed=1), evaluation=(example_set(30, seed=2),)
    )
    return Job(settings, sets, WordTask).replace(**changes)


def build_records(folder, *, num_documents, seed, **changes):
    """Returns the path of records of random words, two for each document."""
    special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"w{10 + n}" for n in range(V - len(special_tokens))]
    (folder / "vocab.txt").write_text("\n".join([*special_tokens, *words]))
    rng = random.Random(seed)
    documents = [
        [" ".join(rng.choices(words, k=rng.randint(3, 6))) for _ in range(6)]
        for _ in range(num_documents)
    ]
    text = "\n\n".join("\n".join(document) for document in documents)
    (folder / "text.txt").write_text(text)
    number = len(list(folder.iterdir()))
    path = str(folder / f"{number}-{num_documents}-{seed}.tfrecord")
    settings = {
        "vocab_file": str(folder / "vocab.txt"),
        "input_file": str(folder / "text.txt"),
        "output_file": path,
        "max_seq_length": S,
        "max_predictions_per_seq": P,
        "dupe_factor": 1,
        "short_seq_prob": 0.0,
    }
    builder.build(
        pretraining_config.PretrainingDataConfig(**settings | changes)
    )
    return path


def columns(number):
    """The records of some sentences."""
    data = WordData()
    return record_columns.collect(
        data.records(sentences(number), is_training=False),
        data.array_specs,
        max_seq_length=S,
    )


def computer(strategy=None, bucket_width=4, make_task=WordTask):
    """A task with random weights, always the same, and an `OutputComputer`."""
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        task = make_task(config(), seed=3, dtype="float32")
    padding = Padding(max_seq_length=S, bucket_width=bucket_width)
    return task, OutputComputer(
        task, padding, compute=task.outputs, workers=Workers(strategy)
    )
