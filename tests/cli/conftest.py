"""What the tests of the commands share: servers, and what a run needs."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.cli import processes, workers
from tests.cli.processes import ROOT
from tests.test_layout import SLOW_IMPORTS

CONFIG = {
    "vocab_size": 300,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
BASE = ROOT / "tests" / "parity" / "model_base"
ANIMALS = ("cat", "dog", "fox", "hen", "owl", "pig", "cow", "ram")
TIMING_KEYS = {"time", "sequences_per_second", "tokens_per_second"}
# What the commands import once the flags are known to be good.
_MODULES = (
    "albert_tf.training.finetune",
    "albert_tf.training.pretrain",
    "albert_tf.export.saved_model",
    "matplotlib.figure",
)


def results_of(folder):
    """The scores in a run's folder."""
    return json.loads((folder / "eval_results.json").read_text())


def table_of(path):
    """The rows of a table, its header included."""
    lines = path.read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines]


def numbers_of(path):
    """The numbers of a table without a header."""
    return np.array(table_of(path), np.float32)


@pytest.fixture(scope="session")
def start_script(tmp_path_factory):
    """Starts a command: script, flags, `folder`, code to run `before`."""
    with processes.serve(
        _MODULES,
        str(ROOT),
        tmp_path_factory.mktemp("output"),
        TF_CPP_MIN_LOG_LEVEL="3",
    ) as start:
        yield start


@pytest.fixture(scope="session")
def run_script(start_script):
    """As `start_script`, and waits for its end."""
    return lambda *command, **options: start_script(*command, **options).wait()


@pytest.fixture(scope="session")
def run_alone(run_script):
    """As `run_script`, for what must end well."""

    def run(*command, **options):
        done = run_script(*command, **options)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def run_workers(start_script):
    """Runs a command in several workers; see `workers.run`."""
    return functools.partial(workers.run, start_script)


@pytest.fixture(scope="session")
def run_before_imports(tmp_path_factory):
    """As `run_script`, where slow libraries cannot be imported."""
    folder = tmp_path_factory.mktemp("without_slow_libraries")
    for name in SLOW_IMPORTS:
        text = f"raise RuntimeError('{name} is imported too early')\n"
        (folder / f"{name}.py").write_text(text)
    modules = [
        f"albert_tf.cli.{path.stem}"
        for path in (ROOT / "albert_tf" / "cli").glob("*.py")
    ]
    path = f"{folder}:{ROOT}"
    output = tmp_path_factory.mktemp("output")
    with processes.serve(modules, path, output) as start:
        yield lambda *command, **options: start(*command, **options).wait()


@pytest.fixture(scope="session")
def ask():
    """Asks the SavedModel in a folder in raw text; returns lists by output."""

    def run(folder, **texts):
        # The operations of the tokenizers.
        import tensorflow_text  # noqa: F401

        model = tf.saved_model.load(str(folder))
        inputs = {name: tf.constant(list(t)) for name, t in texts.items()}
        outputs = model.signatures["serving_default"](**inputs)
        return {name: _plain(values) for name, values in outputs.items()}

    return run


def _plain(values):
    if values.dtype == tf.string:
        return np.char.decode(values.numpy().astype(bytes), "utf-8").tolist()
    return values.numpy().tolist()


@pytest.fixture(scope="session")
def workshop(tmp_path_factory, run_before_imports, tiny_corpus, tiny_spm_model):
    """A folder with what a pretraining needs.

    `config.json` has 300 tokens, 32 positions and dropout, `plain.json` no
    dropout; `train.tf_record` and `eval.tf_record` have dynamic masks. Read it;
    write elsewhere.
    """
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    dropout = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    plain = CONFIG | dict.fromkeys(dropout, 0.0)
    (folder / "plain.json").write_text(json.dumps(plain))
    for name, seed in {"train": 1, "eval": 2}.items():
        done = run_before_imports(
            "create_pretraining_data.py",
            f"--input_file={tiny_corpus}",
            f"--output_file={name}.tf_record",
            f"--spm_model_file={tiny_spm_model}",
            "--masking=dynamic",
            "--dupe_factor=10",
            "--max_seq_length=32",
            "--max_predictions_per_seq=5",
            f"--random_seed={seed}",
            folder=folder,
        )
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def pretraining_flags(workshop):
    """Flags of a run of 10 steps, without `--output_dir`."""
    return (
        f"--albert_config_file={workshop / 'config.json'}",
        f"--input_file={workshop / 'train.tf_record'}",
        f"--eval_file={workshop / 'eval.tf_record'}",
        "--do_eval",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--train_batch_size=8",
        "--eval_batch_size=32",
        "--num_train_steps=10",
        "--num_warmup_steps=2",
        "--learning_rate=0.01",
        "--save_checkpoints_steps=5",
        "--log_steps=2",
        "--deterministic",
    )


@pytest.fixture(scope="session")
def model_flags(workshop, tiny_spm_model):
    """Flags of a fine-tuning of 4 steps, without task and `--output_dir`."""
    return (
        f"--albert_config_file={workshop / 'config.json'}",
        f"--spm_model_file={tiny_spm_model}",
        "--max_seq_length=32",
        "--train_batch_size=4",
        "--train_step=4",
        "--warmup_step=1",
        "--save_checkpoints_steps=2",
    )


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Rows whose label one word decides: 48, 26, and 8 without labels."""
    folder = tmp_path_factory.mktemp("table")
    for name, size in {"train": 48, "dev": 26, "test": 8}.items():
        rows = ["text\tkind" if name != "test" else "text"]
        for i in range(size):
            text = f"One {ANIMALS[i % 8]} sat {'here ' * (i % 5)}."
            kind = "low" if i % 8 < 3 else "high"
            rows.append(f"{text}\t{kind}" if name != "test" else text)
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="session")
def table_flags(table, tiny_spm_model):
    """Flags of a task with these rows, without a config."""
    return (
        "--task_name=custom",
        "--text_columns=text",
        "--label_column=kind",
        f"--data_dir={table}",
        f"--spm_model_file={tiny_spm_model}",
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--deterministic",
    )


@pytest.fixture(scope="session")
def logged():
    """Reads metrics.jsonl, without what depends on the clock."""

    def read(path):
        lines = map(json.loads, path.read_text().splitlines())
        return [
            {k: v for k, v in line.items() if k not in TIMING_KEYS}
            for line in lines
        ]

    return read
