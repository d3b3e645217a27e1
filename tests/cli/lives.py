"""What test_run_folder_life compares a run folder with.

A `World` runs commands, some with a fault, and knows what the weights of each
step are and give. A `Run` is a model of what a run folder holds; `course` says
how a training changes it.
"""

import dataclasses
import functools
import json
import re
import signal

import numpy as np
import pytest

from albert_tf.checkpoints import run_checkpoints, tf1
from tests.cli.conftest import ANIMALS

LAST = 20
NUM_ROWS = 60
# What killed commands may leave.
LEFT = r"\.(partial|replaced|lock)(/|$)"
# The key of a score of a simple model, which is trained as the run is.
OF_SIMPLE_MODEL = re.compile(r"\w+_(tfidf|linear)(_p)?")
# What happens in a command before one of its changes of files.
ACTIONS = {
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "stop": "os.kill(os.getpid(), signal.SIGTERM)",
    "fail": "raise OSError(28, 'No space left on device')",
}
FAULT = """
import os, signal, sys
CHANGES = "os.rename", "os.mkdir", "os.remove", "os.rmdir"
left = {number}
def watch(event, arguments):
    global left
    if event not in CHANGES and not (event == "open" and arguments[2] & 3):
        return
    in_folder = event in CHANGES[2:] and arguments[-1] >= 0
    if in_folder or "life-" in str(arguments[0]):
        left -= 1
        if left == 0:
            os.write(2, b"00:00:00 fault\\n")
            {action}
sys.addaudithook(watch)
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of run: its command, its score and its files."""

    script: str
    metric: str
    evaluated: tuple = ("eval_results.json",)
    predicted: tuple = ()
    # Flags that make another run, and a word of the error.
    refused: tuple = (
        ("--learning_rate=0.02", "learning_rate"),
        ("--random_seed=7", "random_seed"),
        ("--num_train_steps=1", "num_train_steps"),
        ("--save_checkpoints_steps=0", "save_checkpoints_steps"),
    )


CLASSIFICATION = Kind(
    "run_classifier.py",
    "accuracy",
    ("eval_results.json", "eval/predictions.tsv", "eval/test_results.tsv"),
    ("predictions.tsv", "test_results.tsv"),
    (
        *Kind.refused,
        ("--train_file=more.tsv", "records"),
        ("--validation_seed=1", "validation"),
    ),
)
_TAGS = ("predictions.conll", "predictions.jsonl")
TAGGING = Kind(
    "run_ner.py",
    "f1",
    ("eval_results.json", *(f"eval/{name}" for name in _TAGS)),
    _TAGS,
    (*Kind.refused, ("--train_file=more.conll", "records")),
)
SIMILARITY = Kind(
    "run_similarity.py",
    "spearman",
    CLASSIFICATION.evaluated,
    CLASSIFICATION.predicted,
    (
        *Kind.refused,
        ("--temperature=0.1", "temperature"),
        ("--pooling=cls", "pooling"),
    ),
)
PRETRAINING = Kind("run_pretraining.py", "masked_lm_loss")


class World:
    """Commands in a folder with their inputs, and what they must give.

    Attributes:
        scores: Of each step, from a run that nothing has interrupted.
        goodness: The better evaluation has the larger one.
        counts: Of runs, commands, and faults by action.
    """

    def __init__(self, kind, folder, run_script, *flags):
        self.kind, self.folder = kind, folder
        self._run_script, self._flags = run_script, flags
        self.counts = dict.fromkeys(("lives", "commands", *ACTIONS), 0)
        self.train("reference", LAST, LAST + 1, 1, 1, use=(True, False))
        self.train("unevaluated", LAST, LAST + 1, 1, 1, use=(False, False))
        key = f"eval_{kind.metric}"
        lines = self.read_log("reference")
        self._losses = [line["loss"] for line in lines if "loss" in line]
        scored = {line["step"]: line for line in lines if key in line}
        self.scores = {step: line[key] for step, line in scored.items()}
        sign = -1 if kind.metric.endswith("loss") else 1
        self.goodness = {
            step: (sign * line[key], -line.get("eval_loss", 0))
            for step, line in scored.items()
        }
        self._arrays = functools.cache(self._read_arrays)
        self._answers = functools.cache(self._make_answers)

    def run(self, script, *flags, fault=None):
        """Runs a command, and checks that its exit code says how it ended."""
        before = ""
        if fault:
            before = FAULT.format(number=fault[1], action=ACTIONS[fault[0]])
        done = self._run_script(
            script, *flags, folder=self.folder, before=before
        )
        done.is_broken = "00:00:00 fault" in done.stderr
        self.counts["commands"] += 1
        if not done.is_broken:
            assert done.returncode == 0 or done.error
            return done
        self.counts[fault[0]] += 1
        stopped = 3 if script == self.kind.script else 130
        codes = {"kill": [-signal.SIGKILL], "stop": [stopped], "fail": [0, 1]}
        assert done.returncode in codes[fault[0]], done.stderr
        # The scores may have been printed before an export failed.
        last = done.stderr.splitlines()[-1]
        assert done.returncode != 1 or last.startswith("error: ")
        return done

    def use(self, name, *flags, use, fault=None):
        """Evaluates and predicts as `use` says; or trains, too."""
        predicts = [f"--do_predict={use[1]}"] * bool(self.kind.predicted)
        return self.run(
            self.kind.script,
            *self._flags,
            f"--output_dir={name}",
            f"--do_eval={use[0]}",
            *predicts,
            *(flags or ["--do_train=false"]),
            fault=fault,
        )

    def train(self, name, until, keep_max, every, log_steps, *flags, **options):
        return self.use(
            name,
            "--do_train",
            f"--num_train_steps={until}",
            f"--keep_checkpoint_max={keep_max}",
            f"--save_checkpoints_steps={every}",
            f"--log_steps={log_steps}",
            *flags,
            **options,
        )

    def files_of(self, use):
        return self.kind.evaluated * use[0] + self.kind.predicted * use[1]

    def answer(self, name, step, *, is_evaluated=True):
        """The content of a file that the weights of a step give.

        An evaluation chooses the temperature of a classifier's probabilities.
        """
        return None if step is None else self._answers(step, is_evaluated)[name]

    def _make_answers(self, step, is_evaluated):
        run = "reference" if is_evaluated else "unevaluated"
        path = run_checkpoints.checkpoint_path(run, step)
        folder, use = f"answers-of-{run}-{step}", (is_evaluated, True)
        flags = ("--do_train=false", f"--init_checkpoint={path}")
        done = self.use(folder, *flags, use=use)
        assert done.returncode == 0, done.stderr
        names = self.files_of(use)
        return {x: read_result(self.folder / folder / x) for x in names}

    def check_weights(self, path, step):
        """Checks that a checkpoint has the weights of a step."""
        wanted, found = self._arrays(step), tf1.read(path)
        assert found.keys() <= wanted.keys()
        for name, array in found.items():
            np.testing.assert_array_equal(array, wanted[name], name)

    def _read_arrays(self, step):
        path = run_checkpoints.checkpoint_path("reference", step)
        return tf1.read(self.folder / path)

    def read_log(self, name):
        text = (self.folder / name / "metrics.jsonl").read_text()
        return [*map(json.loads, text.splitlines())]

    def check_log(self, name, run):
        """Checks that each step, and each evaluation, is in it once."""
        lines, key = self.read_log(name), f"eval_{self.kind.metric}"
        found = {line["step"]: line[key] for line in lines if key in line}
        assert found == {step: self.scores[step] for step in run.evaluated}
        start = 0
        for line in (x for x in lines if "loss" in x):
            losses = self._losses[start : line["step"]]
            assert line["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
            start = line["step"]
        assert start == run.newest


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run has on its disk.

    `checkpoints` has for each step the step of the best evaluation so far, and
    whether its own evaluation is missing; `best` is the step in `best/`;
    `evaluated` are the steps whose scores stay in the log.
    """

    checkpoints: dict
    best: int | None = None
    evaluated: frozenset = frozenset()

    @property
    def newest(self):
        return max(self.checkpoints, default=None)

    @property
    def uses_best(self):
        best, _ = self.checkpoints.get(self.newest, (self.best, False))
        return None not in (best, self.best)

    @property
    def used(self):
        """The step of the weights that are evaluated, predicted, exported."""
        return self.best if self.uses_best else self.newest

    def without(self, *steps):
        kept = {s: c for s, c in self.checkpoints.items() if s not in steps}
        return dataclasses.replace(self, checkpoints=kept)

    def saved(self, step, best, is_missing, keep_max=LAST):
        checkpoints = self.checkpoints | {step: (best, is_missing)}
        run = dataclasses.replace(self, checkpoints=checkpoints)
        return run.without(*sorted(checkpoints)[:-keep_max])

    def scored(self, step, best):
        evaluated = self.evaluated | {step}
        return dataclasses.replace(self, best=best, evaluated=evaluated)


def _begin(run, is_evaluated):
    """Yields what is on the disk before the first step of a new run."""
    run = Run({}, run.best)
    if is_evaluated:
        yield (run := run.scored(0, 0))
    yield run.saved(0, 0 if is_evaluated else None, False)


def course(run, goodness, *, until, every, keep_max, evaluates, end=None):
    """Yields what is on the disk after each change of a training.

    It is stopped after the step `end`, if that is given.
    """
    if run.newest is None:
        begun = [*_begin(run, evaluates and 0 in goodness)]
        yield from begun
        run = begun[-1]
    first, (best, is_missing) = run.newest, run.checkpoints[run.newest]
    best = best if evaluates else None
    next_step = first if is_missing else first + 1
    kept = frozenset(s for s in run.evaluated if s < next_step)
    run = dataclasses.replace(run, evaluated=kept)
    for step in range(next_step, (until if end is None else end) + 1):
        if step > first and step != until and step % every:
            continue
        if step > first:
            # The old ones are removed afterwards, one by one.
            for number in range(LAST, keep_max - 1, -1):
                yield (run := run.saved(step, best, evaluates, number))
        if evaluates:
            if best is None or goodness[step] >= goodness[best]:
                best = step
                yield dataclasses.replace(run, best=step)
            run = run.scored(step, best if best == step else run.best)
        yield (run := run.saved(step, best, False))
    if end not in (None, until) and end % every:
        run = run.saved(end, best, False, keep_max)
    yield run


def read_result(path):
    """The content of a file of results, as far as the weights give it."""
    content = path.read_bytes()
    if path.suffix != ".json":
        return content
    return json.dumps(without_simple_model(json.loads(content))).encode()


def without_simple_model(scores):
    return {k: v for k, v in scores.items() if not OF_SIMPLE_MODEL.fullmatch(k)}


def tree(folder):
    """The content of the files in a folder that no kill has left."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not re.search(LEFT, str(path))
    }


def write_table(path, size, *, has_labels=True):
    rows = ["text\tkind" if has_labels else "text"]
    for i in range(size):
        # What differs comes first: texts are cut.
        text = f"{i}: one {ANIMALS[i * 5 % 8]} sat here{' here' * (i % 4)}."
        kind = "low" if i % 8 < 3 else "high"
        rows.append(f"{text}\t{kind}" if has_labels else text)
    path.write_text("".join(f"{row}\n" for row in rows))


def write_tags(path, size, *, has_labels=True):
    texts = []
    for i in range(size):
        rows = [("one", "O"), (ANIMALS[i * 5 % 8], f"B-{i * 5 % 8 % 2}")]
        rows += [("by", "O"), (str(i), "O")]
        kept = 2 if has_labels else 1
        texts.append("".join("\t".join(row[:kept]) + "\n" for row in rows))
    path.write_text("\n".join(texts))


def write_pairs(path, size, *, has_labels=True):
    rows = [("first", "second", "score")]
    for i in range(size):
        one, other = ANIMALS[i % 8], ANIMALS[(i * 5 + i // 8) % 8]
        rows.append((f"One {one} sat {i}.", f"It is a {other}.", str(i % 6)))
    kept = 3 if has_labels else 2
    path.write_text("".join("\t".join(row[:kept]) + "\n" for row in rows))
