"""The experiments as they are planned; none of these tests trains."""

import contextlib
import dataclasses
import functools
import json
import os
import random
import re
import subprocess
import sys
import time
import types

import pytest

from albert_tf.checkpoints import run_checkpoints
from albert_tf.data.shards import BuildCounts
from albert_tf.training.pretrain_config import PretrainingConfig
from experiments import (
    commands,
    downstream,
    layer_similarity,
    program,
    report,
    runs,
    sizes,
)
from experiments.experiment import Claim, Score
from experiments.program import EXPERIMENTS, ExperimentConfig
from experiments.scales import SCALES
from tests.pages import PAGES

PLANS = [(name, scale) for name in EXPERIMENTS for scale in SCALES]


def _place(folder, scale):
    return runs.Place(SCALES[scale], folder / "data", folder, 1)


def _flags_of(command):
    found = {}
    for word in command.words[2:]:
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals and name.startswith("no"):
            name, value = name.removeprefix("no"), False
        found[name] = value if equals else value is not False
    return found


@pytest.mark.parametrize(("name", "scale"), PLANS)
def test_the_commands_of_all_models_can_be_given(name, scale, tmp_path):
    place = _place(tmp_path, scale)
    known = {f.name for f in dataclasses.fields(PretrainingConfig)}
    own = {"albert_config_file", "allow_new_heads"}
    variants = EXPERIMENTS[name].variants(place.scale)

    for variant in variants:
        for command in runs.training_commands(variant, place):
            given = _flags_of(command)
            if "convert_checkpoint" in command.words[1]:
                assert given["output_path"] == str(command.made)
                continue
            assert given["output_dir"] == str(command.made)
            assert set(given) <= known | own
            numbers = {
                name: int(given[name])
                for name in given
                if name.startswith(("num_", "max_", "train_batch"))
            }
            PretrainingConfig(
                albert_config=variant.config,
                output_dir=given["output_dir"],
                input_file=given["input_file"],
                **numbers,
            )
    assert len({one.label for one in variants}) == len(variants)


@pytest.mark.parametrize("scale", SCALES)
def test_models_share_a_folder_only_if_they_are_trained_alike(scale, tmp_path):
    place = _place(tmp_path, scale)
    found = {}
    for experiment in EXPERIMENTS.values():
        for variant in experiment.variants(place.scale):
            for command in runs.training_commands(variant, place):
                assert found.setdefault(command.made, command) == command


@pytest.mark.parametrize(("name", "scale"), PLANS)
def test_claims_are_of_models_and_scores_that_are_there(name, scale):
    experiment, scale = EXPERIMENTS[name], SCALES[scale]
    labels = {one.label for one in experiment.variants(scale)}

    for claim in experiment.claims(scale):
        for score in (claim.above, claim.below):
            assert score.label in labels
            assert score.pairs in experiment.pairs


def test_one_document_in_forty_is_held_out(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"Text {i}.\nMore." for i in range(80)) + "\n")

    train, held_out = program.split(str(path))

    assert re.findall(r"Text (\d+)", held_out) == ["20", "60"]
    assert len(train.split("\n\n")) == 78


def test_a_folder_has_results_of_one_scale_and_text(tmp_path):
    folder = tmp_path / "results"
    plain = ExperimentConfig(num_seeds=1)
    for _ in range(2):
        program.claim(folder, SCALES["tiny"], plain)

    other_text = ExperimentConfig(text_file="a.txt", num_seeds=1)
    for place, scale, config, words in (
        (folder, "small", plain, r"name='tiny' \(now 'small'\)"),
        (folder, "tiny", other_text, r"text_file=None \(now 'a.txt'\)"),
        (tmp_path, "tiny", plain, "contains files but no"),
    ):
        with pytest.raises(ValueError, match=words):
            program.claim(place, SCALES[scale], config)


@pytest.mark.parametrize(
    "fewer",
    [
        {"num_seeds": 2},
        {"num_seeds": 1, "tasks": ("rte", "cola"), "data_dir": "glue"},
        {"num_seeds": 2, "tasks": ("rte",), "data_dir": "glue"},
        {"num_seeds": 2, "tasks": ("rte", "cola"), "data_dir": "other"},
    ],
)
def test_a_folder_loses_no_seed_and_no_task(fewer, tmp_path):
    folder, tiny = tmp_path / "results", SCALES["tiny"]
    program.claim(folder, tiny, ExperimentConfig(num_seeds=1))
    more = ExperimentConfig(num_seeds=2, tasks=("cola", "rte"), data_dir="glue")
    program.claim(folder, tiny, more)

    with pytest.raises(
        ValueError, match="--num_seeds=2 --tasks=cola,rte .*would be lost"
    ):
        program.claim(folder, tiny, ExperimentConfig(**fewer))
    program.claim(folder, tiny, more)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"tasks": ("rte",)}, "--tasks and --data_dir together"),
        ({"data_dir": "glue"}, "--tasks and --data_dir together"),
        (
            {"tasks": ("rte", "x"), "data_dir": "glue"},
            "`tasks` must be one of .*race.*'x'",
        ),
        ({"num_seeds": 0}, "`num_seeds` must be a whole number"),
        ({"name": "long_texts"}, "Pass long documents.*--text_file"),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags, message):
    with pytest.raises(ValueError, match=message):
        ExperimentConfig(**flags)


@pytest.mark.parametrize("task", ["sst-2", "squad", "race"])
def test_the_examples_of_a_task_are_looked_for_before_the_training(
    task, tmp_path
):
    with pytest.raises(FileNotFoundError, match=f"{task}.*Check --data_dir"):
        downstream.check(task, tmp_path)


def _result(seed, accuracy, label="all", pairs="sop"):
    scores = {"masked_lm_loss": 5 - seed / 2, "masked_lm_accuracy": accuracy}
    tasks = {"rte": {"command": "python run_classifier.py", "score": accuracy}}
    return {
        "label": label,
        "seed": seed,
        "commit": "abc",
        "parameters": 12345,
        "seconds": 60.0,
        "commands": "python run_pretraining.py",
        "scores": {pairs: scores},
        "tasks": tasks,
        "curve": [[0, 9.0], [10, 5.0]],
    }


def test_the_report_has_medians_and_the_paper_s_numbers():
    results = [_result(seed, 0.3 + seed / 100) for seed in (1, 2, 3)]
    experiment = EXPERIMENTS["sharing"]

    here, tasks, claims, paper, chart, commands = report.sections(
        experiment, experiment.claims(SCALES["tiny"]), results
    )

    row = ("all", "12,345", "4.000 (3.500 to 4.500)", "32.0% (31.0% to 33.0%)")
    assert here["rows"][0][:4] == row
    assert here["rows"][0][5:] == ("", "", "1.0", "3")
    assert tasks["header"] == ("model", "rte: accuracy")
    assert tasks["rows"] == [("all", "32.0% (31.0% to 33.0%)")]
    assert claims["rows"][0][0] == "sharing all parameters costs quality"
    assert ("all", "12M", "80.1") in paper["rows"]
    assert chart["curves"]["all"] == [[0, 9.0], [10, 5.0]]
    assert commands["rows"][-2:] == [
        ("all", "3", "abc", "python run_pretraining.py"),
        ("all", "3", "abc", "python run_classifier.py"),
    ]


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        ((0.4, 0.41), (0.3, 0.39), "seen: 40.5% (40.0% to 41.0%) and"),
        ((0.3, 0.31), (0.4, 0.41), "not seen, but the contrary"),
        ((0.3, 0.36), (0.35, 0.41), "cannot be told, within the spread"),
        ((0.4,), (0.3,), "cannot be told from one seed: 40.0% and 30.0%"),
        ((0.09, 0.1), (0.06, 0.07), "cannot be told from models that have"),
    ],
)
def test_a_claim_is_seen_where_all_seeds_agree(above, below, expected):
    results = [
        _result(seed, accuracy, label)
        for label, values in (("a", above), ("b", below))
        for seed, accuracy in enumerate(values)
    ]
    claim = Claim("a is better", Score("a"), Score("b"))

    assert report.verdict(claim, results).startswith(expected)


def test_a_command_that_fails_is_one_line(tmp_path):
    command = commands.create(
        "run_pretraining.py", tmp_path / "run", num_train_steps="x"
    )

    with pytest.raises(
        ValueError, match=r"--num_train_steps=x.* See .*run\.log\."
    ):
        commands.call(command)


def _writing(path, text):
    code = f"open({str(path)!r}, 'a').write({text!r})"
    return commands.Command(words=[sys.executable, "-c", code], made=path)


def test_a_command_is_run_once(tmp_path):
    path = tmp_path / "made"

    first = commands.run(_writing(path, "a"))
    again = commands.run(_writing(path, "a"))

    assert path.read_text() == "a"
    assert first == again
    with pytest.raises(ValueError, match="was made by another command"):
        commands.run(_writing(path, "b"))


def test_what_a_killed_command_left_is_removed(tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.touch()
    command = dataclasses.replace(
        _writing(tmp_path / "made", "a"), refused=[folder, file]
    )

    commands.run(command)

    assert not folder.exists() and not file.exists()


def test_the_figure_of_the_layers_is_drawn_and_its_roughness_told():
    curves = {"l2_distance": [1.0, 3.0, 2.0], "degrees": [10.0, 10.0, 10.0]}
    flat = {"l2_distance": [2.0, 2.0, 2.0], "degrees": [5.0, 10.0, 15.0]}
    found = [{"all": flat, "none": curves}] * 2

    distance, angle, table = report.figure_sections(found)

    assert distance["curves"]["none"] == [(1, 1.0), (2, 3.0), (3, 2.0)]
    assert angle["curves"]["all"] == [(1, 5.0), (2, 10.0), (3, 15.0)]
    assert table["rows"] == [
        ("all", "L2 distance", "2", "0.00, 0.00"),
        ("none", "L2 distance", "2", "0.75, 0.75"),
        ("all", "angle in degrees", "2", "0.50, 0.50"),
        ("none", "angle in degrees", "2", "0.00, 0.00"),
    ]


def test_a_size_is_timed_once(tmp_path, monkeypatch):
    given = []

    def call(command):
        given.append(command)
        command.made.parent.mkdir(exist_ok=True)
        command.log.write_text('warning\n{"step_seconds": 2.5}\nwarning\n')

    monkeypatch.setattr(commands, "call", call)

    first, again = (sizes.run(tmp_path / "sizes") for _ in range(2))

    assert len(given) == len(sizes.PAPER)
    assert first == again
    assert first["base_v1"]["step_seconds"] == 2.5


def test_sizes_are_relative_to_bert_large():
    measured = {"command": "x", "parameters": 10, "flops": 4, "step_seconds": 2}
    found = dict.fromkeys(sizes.PAPER, measured)
    found["base_v1"] = measured | {"flops": 1, "step_seconds": 0.5}

    (table,) = report.sizes_sections(found)

    row = next(row for row in table["rows"] if row[0] == "base_v1")
    assert row == ("base_v1", "10", "12M", "4.00", "4.00", "5.6", "x")


def test_what_is_there_is_in_the_report(tmp_path):
    results = [_result(1, 0.3)]
    (tmp_path / "sharing.json").write_text(json.dumps(results))
    facts = {"Scale": "tiny"}

    report.write(tmp_path, EXPERIMENTS, scale=SCALES["tiny"], facts=facts)

    page = (tmp_path / "report.html").read_text("utf-8")
    assert "Parameter sharing: here, on held-out text" in page
    assert "Embedding size" not in page
    assert "python run_pretraining.py" in page


class Calls:
    """Stands for the commands of an experiment, of which one can fail."""

    def __init__(self):
        self.given = []
        self.fails_at = None

    def call(self, command):
        if len(self.given) == self.fails_at:
            self.fails_at = None
            raise ValueError("killed")
        self.given.append(command)
        command.made.mkdir()
        if "convert_checkpoint" in command.words[1]:
            return
        scores = {"masked_lm_accuracy": 0.3, "accuracy": 0.6, "f1": 60.0}
        (command.made / "eval_results.json").write_text(json.dumps(scores))
        (command.made / "run.json").write_text('{"train_batch_size": 32}')
        line = {"step": 100, "sequences_per_second": 320.0}
        (command.made / "metrics.jsonl").write_text(f"{json.dumps(line)}\n")


@pytest.fixture
def calls(monkeypatch):
    found = Calls()
    monkeypatch.setattr(commands, "call", found.call)
    counts = BuildCounts(records=10, label_1_records=2)
    monkeypatch.setattr(
        runs.shards, "read", lambda path: types.SimpleNamespace(counts=counts)
    )
    return found


INPUT_FLAGS = {
    *("albert_config_file", "eval_file", "init_checkpoint", "input_file"),
    *("input_path", "spm_model_file"),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_an_experiment_reads_was_made_before(
    name, tmp_path, calls, monkeypatch
):
    def call(command):
        given = _flags_of(command)
        inputs = {given[flag] for flag in INPUT_FLAGS & set(given)}
        assert [path for path in inputs if not os.path.exists(path)] == []
        calls.call(command)
        if "num_train_steps" in given:
            steps = int(given["num_train_steps"])
            path = run_checkpoints.checkpoint_path(str(command.made), steps)
            os.makedirs(path)

    def measure(weights, records):
        assert weights.exists() and records.exists()
        return layer_similarity.LayerSimilarity([1.0], [2.0])

    monkeypatch.setattr(commands, "call", call)
    monkeypatch.setattr(layer_similarity, "measure_checkpoint", measure)
    place = _place(tmp_path, "tiny")
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"Text {i}.\nMore." for i in range(80)))
    experiment = EXPERIMENTS[name]
    variants = experiment.variants(place.scale)

    program.make_data(place.scale, place.data, str(text), variants)
    program.run_seed(experiment, place, ExperimentConfig())
    if name == program.FIGURE:
        assert layer_similarity.measure(place)["none"]["degrees"] == [2.0]


def test_a_killed_experiment_goes_on_where_it_was(tmp_path, calls):
    experiment = EXPERIMENTS["objective"]
    config = ExperimentConfig(tasks=("rte",), data_dir="glue")

    whole = program.run_seed(
        experiment, _place(tmp_path / "whole", "tiny"), config
    )
    wanted = [*calls.given]
    killed = _place(tmp_path / "killed", "tiny")
    for number in range(len(wanted)):
        calls.given, calls.fails_at = [], 1
        with contextlib.suppress(ValueError):
            again = program.run_seed(experiment, killed, config)
        assert len(calls.given) == 1, number
    again = program.run_seed(experiment, killed, config)

    assert [one["label"] for one in again] == [one["label"] for one in whole]
    assert again[0]["scores"] == whole[0]["scores"]
    assert again[0]["tasks"]["rte"]["score"] == 0.6


@pytest.mark.parametrize(
    ("name", "tasks", "keys", "expected"),
    [
        # The next sentence is told by the larger class in 8 of 10.
        ("objective", (), ("scores", "nsp", "larger_class"), [0.8] * 4),
        ("objective", (), ("scores", "sop", "larger_class"), [0.5] * 4),
        # Shares, like all other scores.
        ("sharing", ("squad",), ("tasks", "squad", "score"), [0.6] * 4),
        # Ten seconds each: the first phase, and one of every depth.
        ("depth", (), ("seconds",), [20, 30, 40, 50]),
    ],
)
def test_the_results_of_a_seed(name, tasks, keys, expected, tmp_path, calls):
    config = ExperimentConfig(tasks=tasks, data_dir="data" if tasks else None)

    results = program.run_seed(
        EXPERIMENTS[name], _place(tmp_path, "tiny"), config
    )

    found = [functools.reduce(dict.__getitem__, keys, x) for x in results]
    assert found[:4] == expected[: len(found)]


# The program, with trainings of four updates.
SHORT = """
import dataclasses
from experiments import program, scales
def short(phase):
    return dataclasses.replace(phase, num_train_steps=4, num_warmup_steps=1)
tiny = scales.SCALES["tiny"]
scales.SCALES["tiny"] = dataclasses.replace(
    tiny, first=short(tiny.first), second=short(tiny.second))
program.main()
"""


@pytest.mark.slow
def test_the_program_is_killed_and_goes_on(tmp_path):
    (tmp_path / "short.py").write_text(SHORT)
    command = [
        *(sys.executable, str(tmp_path / "short.py")),
        *("--name=layer_similarity", f"--output_dir={tmp_path / 'results'}"),
    ]
    environment = os.environ | {"PYTHONPATH": str(commands.ROOT)}
    killed = subprocess.Popen(command, env=environment)
    finished = tmp_path / "results" / "seed-12345" / "base.done.json"
    while not finished.exists():
        assert killed.poll() is None
        time.sleep(0.1)
    killed.terminate()
    assert killed.wait(timeout=60)
    first = finished.stat().st_mtime_ns

    subprocess.run(command, env=environment, check=True)

    assert finished.stat().st_mtime_ns == first
    page = (tmp_path / "results" / "report.html").read_text("utf-8")
    assert "Input and output of layers: here, on held-out text" in page
    assert "angle in degrees by layer" in page


@pytest.fixture(scope="module")
def long_documents(tmp_path_factory):
    """A folder with 80 documents, made of the lines of the pages."""
    folder = tmp_path_factory.mktemp("experiments")
    text = "".join(page.read_text() for page in PAGES)
    lines = [line for line in text.splitlines() if line.strip()]
    rng = random.Random(0)
    documents = ["\n".join(rng.sample(lines, 400)) for _ in range(80)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    (folder / "short.py").write_text(SHORT)
    return folder


# All of them together train some fifty models; they share some.
@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_runs(name, long_documents):
    subprocess.run(
        [sys.executable, "short.py", f"--name={name}"]
        + ["--text_file=text.txt", "--output_dir=results"],
        cwd=long_documents,
        env=os.environ | {"PYTHONPATH": str(commands.ROOT)},
        check=True,
    )

    folder = long_documents / "results"
    results = json.loads((folder / f"{name}.json").read_text())
    variants = EXPERIMENTS[name].variants(SCALES["tiny"])
    assert [one["label"] for one in results] == [x.label for x in variants]
    assert EXPERIMENTS[name].title in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("told_apart", "expected"),
    [
        ((0.52, 0.7), "cannot be told: 61.0% (52.0% to 70.0%) of the pairs"),
        ((0.6, 0.7), "seen: 61.0%"),
    ],
)
def test_models_that_guess_their_own_pairs_tell_nothing(told_apart, expected):
    name = "sentence_order_accuracy"
    results = [
        {"label": label, "scores": {"sop": {"masked_lm_accuracy": 0.3} | own}}
        for label, seeds in (("a", (0.6, 0.62)), ("b", (0.5, 0.51)))
        for own in ({name: value} for value in seeds)
    ]
    basis = [{"label": "c", "scores": {"sop": {name: v}}} for v in told_apart]
    claim = Claim("a", Score("a", name), Score("b", name), Score("c", name))

    found = report.verdict(claim, [*results, *basis])

    assert found.startswith(expected)
