"""A run folder over its life, compared with a model of what must be in it.

A state machine trains, continues, evaluates, predicts, exports, converts,
moves, copies and damages a run in random orders, and stops, fails or kills
commands at any change of a file. Weights, scores and predictions of each step
must be those of a run that nothing has interrupted.
"""

import dataclasses
import functools
import json
import pathlib
import re
import shutil

import hypothesis
import numpy as np
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from albert_tf.checkpoints import run_checkpoints
from tests.cli import lives
from tests.cli.lives import ACTIONS, LAST, LEFT, NUM_ROWS, Run, World, tree

CHECKPOINT_FILES = (
    "model.ckpt.index",
    "model.ckpt.data-00000-of-00001",
    "state.json",
)
BOTH = st.tuples(st.booleans(), st.booleans())


def faults(last):
    """An action, and the number of a change; those that come late do none."""
    return st.tuples(st.sampled_from([*ACTIONS]), st.integers(1, last))


class Life(stateful.RuleBasedStateMachine):
    """The life of the run in the folder `name`; its `model` is beside it."""

    world: World
    ask = None

    def __init__(self):
        super().__init__()
        self.world.counts["lives"] += 1
        self.base = f"life-{self.world.counts['lives']}"
        self.number, self.name = 0, f"{self.base}/run"
        self.model, self.num_steps = Run({}), 0
        # The step of the weights that each result is of, and whether they had
        # a temperature.
        self.results = {}

    @property
    def folder(self):
        return self.world.folder / self.name

    def has_weights(self):
        return self.model.used is not None

    def new_name(self):
        self.number += 1
        return f"{self.base}/{self.number}"

    # Commands. `use` is whether they evaluate, and whether they predict.

    @stateful.rule(
        more=st.sampled_from([0, 0, 1, 2, 5]),
        every=st.integers(1, 4),
        log_steps=st.integers(1, 4),
        keep_max=st.integers(1, 4),
        use=BOTH,
        fault=faults(90),
    )
    def train(self, more, every, log_steps, keep_max, use, fault):
        until = min(LAST, max(1, self.num_steps + more))
        done = self.world.train(
            self.name, until, keep_max, every, log_steps, use=use, fault=fault
        )
        states = functools.partial(
            lives.course,
            self.model,
            self.world.goodness,
            until=until,
            every=every,
            keep_max=keep_max,
            evaluates=use[0],
        )
        seen = self.look()
        possible = [self.model, *states()]
        if done.returncode == 3 and seen[0]:
            possible += states(end=max(seen[0]))
        if done.returncode == 0:
            possible = possible[-1:]
        found = [run for run in possible if self.looks_of(run) == seen]
        assert found, (seen, possible, done.stderr)
        self.model = found[-1]
        before, self.num_steps = self.num_steps, self.read_num_steps()
        assert self.num_steps in {until, before if done.returncode else until}
        self.check_results(done, self.world.files_of(use))
        if done.returncode == 0:
            self.world.check_log(self.name, self.model)
            self.check_clean(done, "**/*")
            self.check_facts(is_evaluated=use[0])

    @stateful.rule(
        use=BOTH.filter(any), exports=st.booleans(), fault=faults(26)
    )
    def use(self, use, exports, fault):
        if not self.world.files_of(use):
            return
        served = self.new_name()
        export = [f"--export_dir={served}"] * bool(exports and self.ask)
        done = self.use_weights(use, *export, fault=fault)
        if export and self.has_weights():
            self.check_served(self.world.folder / served)
            assert (
                done.returncode or (self.world.folder / served / "1").exists()
            )

    def use_weights(self, use, *flags, fault=None):
        names, before = self.world.files_of(use), tree(self.folder)
        flags = ("--do_train=false", *flags)
        done = self.world.use(self.name, *flags, use=use, fault=fault)
        if not self.has_weights():
            assert done.returncode == 1
            assert tree(self.folder) == before
            return done
        assert done.returncode == 0 or done.is_broken, done.stderr
        assert self.looks_of(self.model) == self.look()
        self.check_results(done, names)
        for name in names if done.returncode == 0 else ():
            self.check_clean(done, f"{name}.*")
        if done.returncode == 0 and use[0]:
            self.check_facts(is_evaluated=True)
        return done

    def make(self, name, *command, fault):
        """Makes a file or folder, the second time without a fault."""
        path = self.world.folder / name
        done = self.world.run(*command, fault=fault)
        assert done.returncode == 0 or done.is_broken, done.stderr
        if done.returncode and not (path.exists() and "convert" in command[0]):
            done = self.world.run(*command)
            assert done.returncode == 0, done.stderr
        assert not [*path.glob("*.partial")]
        assert not [*path.parent.glob(f"{path.name}.*")]
        return path

    @stateful.rule(fault=faults(12))
    @stateful.precondition(has_weights)
    def convert(self, fault):
        name = self.new_name()
        converted = self.make(
            name,
            "convert_checkpoint.py",
            f"--input_path={self.name}",
            f"--output_path={name}",
            "--output_format=keras",
            fault=fault,
        )
        self.world.check_weights(converted, self.model.used)

    @stateful.rule(fault=faults(12))
    @stateful.precondition(lambda self: self.ask and self.has_weights())
    def export(self, fault):
        name = self.new_name()
        served = self.make(
            name,
            "export_saved_model.py",
            f"--init_checkpoint={self.name}",
            "--task=classifier",
            f"--export_dir={name}",
            "--spm_model_file=tiny.model",
            "--max_seq_length=16",
            fault=fault,
        )
        self.check_served(served)

    @stateful.rule(choice=st.integers(0, 9), evaluates=st.booleans())
    @stateful.precondition(lambda self: self.num_steps > 1)
    def refuse(self, choice, evaluates):
        """What makes another run is refused, and changes nothing."""
        refused = self.world.kind.refused
        flag, word = refused[choice % len(refused)]
        before, steps = tree(self.folder), (self.num_steps, 5, 5, 5)
        done = self.world.train(self.name, *steps, flag, use=(evaluates, False))
        assert word in done.error
        assert tree(self.folder) == before
        if "more.tsv" in flag and self.has_weights():
            self.evaluate_more_rows(flag)

    def evaluate_more_rows(self, flag):
        """The same rows are evaluated when others come."""
        flags = ("--do_train=false", flag)
        done = self.world.use(self.name, *flags, use=(True, False))
        assert done.returncode == 0, done.stderr
        name = "eval/predictions.tsv"
        found, old = (
            [int(row.split()[0]) for row in content.splitlines()[1:]]
            for content in (
                (self.folder / name).read_bytes(),
                self.world.answer(name, self.model.used),
            )
        )
        assert found == old
        self.use_weights((True, False))

    # What a user does with the folder.

    @stateful.rule(is_copy=st.booleans())
    @stateful.precondition(lambda self: self.folder.exists())
    def move(self, is_copy):
        old, self.name = self.folder, self.new_name()
        (shutil.copytree if is_copy else shutil.move)(old, self.folder)

    @stateful.rule(choose=st.sampled_from([min, max]))
    @stateful.precondition(lambda self: self.model.checkpoints)
    def copy_checkpoint(self, choose):
        """A single checkpoint is known by what was measured of it alone."""
        step = choose(self.model.checkpoints)
        path = self.world.folder / self.new_name()
        source = run_checkpoints.checkpoint_path(self.folder, step)
        shutil.copytree(source, path)
        self.check_measured(path, step)

    @stateful.rule(choose=st.sampled_from([min, max]))
    @stateful.precondition(lambda self: self.model.checkpoints)
    def delete_checkpoint(self, choose):
        step = choose(self.model.checkpoints)
        shutil.rmtree(run_checkpoints.checkpoint_path(self.folder, step))
        self.model = self.model.without(step)

    @stateful.rule(
        name=st.sampled_from(CHECKPOINT_FILES), share=st.floats(0, 0.999)
    )
    @stateful.precondition(lambda self: self.model.checkpoints)
    def truncate(self, name, share):
        """What is damaged is refused, until the named folder is removed."""
        path = run_checkpoints.checkpoint_path(self.name, self.model.newest)
        damaged = self.world.folder / path / name
        content = damaged.read_bytes()
        damaged.write_bytes(content[: int(share * len(content))])
        before, steps = tree(self.folder), (self.num_steps, 5, 5, 5)
        done = self.world.train(self.name, *steps, use=(False, False))
        assert path in done.error
        assert tree(self.folder) == before
        self.delete_checkpoint(choose=max)

    @stateful.rule(name=st.sampled_from(CHECKPOINT_FILES[:2]))
    @stateful.precondition(lambda self: (self.folder / "best").exists())
    def truncate_best(self, name):
        """What is damaged is not used; without it, the newest weights are."""
        path = self.folder / "best" / name
        path.write_bytes(path.read_bytes()[:-1])
        before = tree(self.folder)
        if self.model.uses_best:
            done = self.world.use(self.name, use=(True, True))
            assert f"{self.name}/best" in done.error
            assert tree(self.folder) == before
        for path in self.folder.glob("best*"):
            shutil.rmtree(path)
        self.model = dataclasses.replace(self.model, best=None)

    # Checks.

    def look(self):
        """Returns what is on the disk, after a comparison of all weights."""
        checkpoints, best = {}, None
        for step in run_checkpoints.steps(self.folder):
            path = run_checkpoints.checkpoint_path(self.name, step)
            state = self.read_state(path, step)
            checkpoints[step] = state["best_score"], state["needs_evaluation"]
        # `best`, or where it was moved while it is replaced.
        names = sorted(path.name for path in self.folder.glob("best*"))
        is_whole = re.compile(r"best(\.\w+\.replaced)?").fullmatch
        for name in [*filter(is_whole, names)][:1]:
            best = self.read_state(f"{self.name}/{name}")["step"]
        return checkpoints, best

    def looks_of(self, run):
        scores = self.world.scores
        checkpoints = {
            step: (scores.get(best), is_missing)
            for step, (best, is_missing) in run.checkpoints.items()
        }
        return checkpoints, run.best

    def read_state(self, path, step=None):
        folder = self.world.folder / path
        state = json.loads((folder / "state.json").read_text())
        self.world.check_weights(folder, state["step"])
        assert step in (None, state["step"])
        return state

    def check_results(self, done, names):
        """Checks that results are whole, and of the weights in use."""
        used, has_temperature = self.model.used, self.has_temperature()
        if done.returncode == 0 and names:
            assert f", of step {used}.\n" in done.stderr
            # Only classifiers are exported here, and have a temperature.
            is_chosen = self.ask and "eval_results.json" in names
            assert has_temperature or not is_chosen
        for name in {*names, *self.results}:
            weights = [(used, has_temperature)] * (name in names)
            if done.returncode or name not in names:
                # A kill may leave predictions with the temperature of an
                # evaluation that was not stored.
                weights += [(used, True)] * (name in names)
                weights.append(self.results.get(name, (None, False)))
            path = self.folder / name
            found = lives.read_result(path) if path.exists() else None
            same = [x for x in weights if found == self.answer(name, *x)]
            assert same, (name, weights, done.stderr)
            self.results[name] = same[0]

    def answer(self, name, step, has_temperature):
        is_evaluated = has_temperature or name in self.world.kind.evaluated
        return self.world.answer(name, step, is_evaluated=is_evaluated)

    def has_temperature(self):
        """Whether an evaluation has chosen a temperature for the weights."""
        path = run_checkpoints.trained_weights(self.folder)
        metadata = path and (pathlib.Path(path) / "metadata.json").read_text()
        return bool(path) and "temperature" in json.loads(metadata)

    def check_facts(self, *, is_evaluated):
        """Checks what is said of the weights that are used from now on.

        An evaluation that was stopped before its report has none until weights
        are evaluated again.
        """
        used = self.model.used
        for step in self.model.checkpoints:
            path = run_checkpoints.checkpoint_path(self.folder, step)
            self.check_measured(path, step)
        path = run_checkpoints.trained_weights(self.folder)
        evaluation = self.check_measured(path, used)
        card = (self.folder / "README.md").read_text()
        assert f"Step of these weights: {used}\n" in card or not used
        assert (f"by the weights of step {used}.\n" in card) == bool(evaluation)
        assert ("was not evaluated" in card) == (not evaluation)
        if is_evaluated or not evaluation:
            report = (self.folder / "report.html").read_text()
            text = "with the weights of step" + (f" {used}." * bool(evaluation))
            assert (text in report) == bool(evaluation)

    def check_measured(self, path, step):
        """Checks that an evaluation of weights is that of their step."""
        known = json.loads((pathlib.Path(path) / "metadata.json").read_text())
        if evaluation := known.get("evaluation"):
            wanted = json.loads(self.world.answer("eval_results.json", step))
            assert evaluation["step"] == step
            found = lives.without_simple_model(evaluation["scores"])
            assert wanted.items() >= found.items(), (wanted, found)
        return evaluation

    def check_served(self, folder):
        """Checks that all versions answer as the weights in use do."""
        texts = (self.world.folder / "new.tsv").read_text().splitlines()[1:]
        weights = self.model.used, self.has_temperature()
        wanted = self.answer("test_results.tsv", *weights).split()
        for version in folder.glob("[0-9]*"):
            found = self.ask(version, text_a=texts, text_b=[""] * len(texts))
            np.testing.assert_allclose(
                np.ravel(found["probabilities"]),
                np.array(wanted, float),
                atol=1e-5,
            )

    def check_clean(self, done, pattern):
        """Checks that a command without a fault leaves nothing incomplete."""
        paths = self.folder.glob(pattern)
        left = [path for path in paths if re.search(LEFT, path.name)]
        assert done.is_broken or not left

    def read_num_steps(self):
        path = self.folder / "run.json"
        if not path.exists():
            return 0
        return json.loads(path.read_text())["num_train_steps"]

    def teardown(self):
        shutil.rmtree(self.world.folder / self.base, ignore_errors=True)


# So that a step does not depend on how many there will be: no decay.
TRAINING = (
    "--train_batch_size=8",
    "--num_warmup_steps=2",
    "--learning_rate=0.005",
    "--poly_power=0",
    "--deterministic",
)


TABLE_FLAGS = ("--train_file=rows.tsv", "--predict_file=new.tsv")
TAG_FLAGS = ("--train_file=rows.conll", "--predict_file=new.conll")
TEXT_FLAGS = (
    "--task_name=custom",
    "--text_columns=text",
    "--label_column=kind",
)
PAIR_FLAGS = ("--text_columns=first,second", "--label_column=score")
# By name: the kind of run, its files with their writers, and its flags.
FINETUNING = {
    "classification": (
        lives.CLASSIFICATION,
        (lives.write_table, "rows.tsv", "more.tsv", "new.tsv"),
        (*TABLE_FLAGS, *TEXT_FLAGS),
    ),
    "tagging": (
        lives.TAGGING,
        (lives.write_tags, "rows.conll", "more.conll", "new.conll"),
        TAG_FLAGS,
    ),
    "similarity": (
        lives.SIMILARITY,
        (lives.write_pairs, "rows.tsv", "more.tsv", "new.tsv"),
        (*TABLE_FLAGS, *PAIR_FLAGS),
    ),
}


@pytest.fixture
def world(request, run_script, workshop, tiny_spm_model, tmp_path):
    """The world of the runs of a name."""
    config = f"--albert_config_file={workshop / 'config.json'}"
    if request.param == "pretraining":
        return World(
            lives.PRETRAINING,
            tmp_path,
            run_script,
            config,
            f"--input_file={workshop / 'train.tf_record'}",
            f"--eval_file={workshop / 'eval.tf_record'}",
            "--max_seq_length=32",
            "--max_predictions_per_seq=5",
            "--eval_batch_size=32",
            *TRAINING,
        )
    kind, (write, rows, more, new), flags = FINETUNING[request.param]
    write(tmp_path / rows, NUM_ROWS)
    write(tmp_path / more, NUM_ROWS + 30)
    write(tmp_path / new, 6, has_labels=False)
    shutil.copy(tiny_spm_model, tmp_path / "tiny.model")
    return World(
        kind,
        tmp_path,
        run_script,
        *flags,
        config,
        "--validation_share=0.4",
        "--spm_model_file=tiny.model",
        "--max_seq_length=16",
        *TRAINING,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "seed", "num_lives", "num_commands"),
    [
        ("classification", 10, 3, 50),
        ("tagging", 30, 1, 15),
        ("pretraining", 20, 3, 50),
        ("similarity", 30, 2, 50),
    ],
    indirect=["world"],
)
def test_a_folder_holds_what_was_made(
    world, seed, num_lives, num_commands, ask
):
    """Lives are random; the first one is the simplest."""
    asks = staticmethod(ask) if world.kind is lives.CLASSIFICATION else None
    machine = type("Here", (Life,), {"world": world, "ask": asks})
    settings = hypothesis.settings(
        max_examples=num_lives,
        stateful_step_count=num_commands,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[*hypothesis.HealthCheck],
    )
    stateful.run_state_machine_as_test(
        hypothesis.seed(seed)(machine), settings=settings
    )
