"""Commands run as a user runs them, without imports for each.

One process imports TensorFlow and then forks a child for each command; the
child runs the script from its first line, in the given folder and with the
given flags. Two commands share nothing but the imports. Another process, in
which slow libraries cannot be imported, does so for commands that must end
before they are needed.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from tests.test_layout import SLOW_IMPORTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
ANIMALS = ("cat", "dog", "fox", "hen", "owl", "pig", "cow", "ram")
TIMING_KEYS = {"sequences_per_second", "tokens_per_second", "waiting_share"}
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d ")
_DEFINITIONS = (
    "DEFINE_alias",
    "DEFINE_bool",
    "DEFINE_enum",
    "DEFINE_float",
    "DEFINE_integer",
    "DEFINE_list",
    "DEFINE_string",
)

# TensorFlow starts its threads at the first operation, so before it a process
# may fork. The server answers each command with two lines: the process id of
# the child, and how the child ended.
_SERVER = """
import importlib, json, os, runpy, signal, sys
for name in sys.argv[1:]:
    importlib.import_module(name)

# A shell may have started the tests with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def run(job):
    null = os.open(os.devnull, os.O_RDONLY)
    files = [os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
             for name in ("stdout", "stderr")]
    for target, file in enumerate([null, *files]):
        os.dup2(file, target)
    sys.stdin = open(0)
    os.chdir(job["folder"])
    sys.argv = job["command"]
    try:
        exec(job["before"], {})
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0

print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if not child:
        code = run(json.loads(line))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Done(subprocess.CompletedProcess):
    """A command that has ended."""

    @property
    def error(self):
        """The line of error of a failed command; only log lines precede it."""
        assert (self.returncode, self.stdout) == (1, ""), self
        *log, message = self.stderr.splitlines()
        assert all(_LOG_LINE.match(line) for line in log), log
        assert message.startswith("error: ")
        return message


class Command:
    """A command that is running.

    Args:
        server: The process that forks.
        output: Folder for what the command prints.
        job: What the server receives.
    """

    def __init__(self, server, output, job):
        self._server = server
        self._files = output / "stdout", output / "stderr"
        job |= {"stdout": str(self._files[0]), "stderr": str(self._files[1])}
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        self._process_id = int(server.stdout.readline())

    def kill(self, number=signal.SIGKILL):
        """Sends a signal."""
        os.kill(self._process_id, number)

    def wait(self):
        """Waits for the end; returns the exit code and what was printed."""
        code = int(self._server.stdout.readline())
        texts = (file.read_text("utf-8") for file in self._files)
        return Done((), code, *texts)


@contextlib.contextmanager
def _starter(modules, path, tmp_path_factory, **environment):
    """A function that starts commands where the modules are imported."""
    # As a user's shell has it, whatever other tests have set.
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, *modules],
        env=clean | {"PYTHONPATH": path} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout.readline() == "ready\n"

        def start(script, *flags, folder, before=""):
            job = {
                "command": [str(ROOT / script), *map(str, flags)],
                "folder": str(folder),
                "before": before,
            }
            return Command(server, tmp_path_factory.mktemp("output"), job)

        yield start
        server.stdin.close()


@pytest.fixture(scope="session")
def start_script(tmp_path_factory):
    """Starts a command: script, flags, `folder`, code to run `before`."""
    with _starter(
        ["albert_tf.training.pretrain"],
        str(ROOT),
        tmp_path_factory,
        TF_CPP_MIN_LOG_LEVEL="3",
    ) as start:
        yield start


@pytest.fixture(scope="session")
def run_script(start_script):
    """As `start_script`, and waits for its end."""
    return lambda *command, **options: start_script(*command, **options).wait()


@pytest.fixture(scope="session")
def run_before_imports(tmp_path_factory):
    """As `run_script`, for commands that need no slow library."""
    folder = tmp_path_factory.mktemp("without_slow_libraries")
    for name in SLOW_IMPORTS:
        text = f"raise RuntimeError('{name} is imported too early')\n"
        (folder / f"{name}.py").write_text(text)
    modules = [
        f"albert_tf.cli.{path.stem}"
        for path in (ROOT / "albert_tf" / "cli").glob("*.py")
    ]
    path = f"{folder}:{ROOT}"
    with _starter(modules, path, tmp_path_factory) as start:
        yield lambda *command, **options: start(*command, **options).wait()


@pytest.fixture
def parse():
    """Parses flags in this process, apart from absl's own FLAGS."""

    def parse_flags(define_flags, *arguments):
        values = flags.FlagValues()
        with pytest.MonkeyPatch.context() as patch:
            for name in _DEFINITIONS:
                define = functools.partial(
                    getattr(flags, name), flag_values=values
                )
                patch.setattr(flags, name, define)
            define_flags()
        values(["command", *arguments])
        return values

    return parse_flags


@pytest.fixture
def refuse(run_before_imports, tmp_path):
    """Runs a command that must fail before any slow import; returns its error.

    Nothing may be left in the folder, `tmp_path`.
    """

    def run(script, *flags, before=""):
        done = run_before_imports(
            script, *flags, folder=tmp_path, before=before
        )
        assert list(tmp_path.iterdir()) == []
        return done.error

    return run


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

    `config.json` has 300 tokens, 32 positions and dropout; `train.tf_record`
    and `eval.tf_record` have dynamic masks. Read it; write elsewhere.
    """
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "config.json").write_text(json.dumps(CONFIG))
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


@pytest.fixture
def small_disk(tmp_path):
    """Mounts an empty disk: a function of its size in bytes."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size):
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs"]
        done = subprocess.run(
            [*command, folder], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no small disk can be mounted: {done.stderr}")
        return folder

    yield mount
    subprocess.run(["umount", folder], stderr=subprocess.DEVNULL)
