"""What the fine-tuning commands share, before and after the run itself."""

import dataclasses
import json
import types

import pytest

from albert_tf.cli import finetuning
from albert_tf.export import saved_model
from albert_tf.settings import setting
from albert_tf.tasks.task import ExampleSet, Sets, TrainedWeights
from albert_tf.training import finetune
from albert_tf.training.finetuning_run import Result

CONFIG = {
    "vocab_size": 300,
    "max_position_embeddings": 16,
    "hidden_size": 64,
    "hidden_dropout_prob": 0.3,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """Stands for the flags of a task."""

    dropout_prob: float = setting(0.2, "Dropout.", affects_training=True)
    count_windows_as_epochs: bool = setting(False, "Windows.")
    name = "rte"


class Questions(list):
    """Examples that are cut into windows."""

    num_windows = 960


@pytest.fixture
def run(parse, monkeypatch, tmp_path, tiny_spm_model):
    """Runs a task of 320 examples up to its training; later flags override.

    Returns what the run would have got: `config`, `weights`, `task_config`,
    `exported` (the config of each export), and `settings` of `read_sets`.
    """
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "model.index").touch()
    monkeypatch.chdir(tmp_path)

    def start(*arguments, scores=None, **defaults):
        found = types.SimpleNamespace(exported=[])
        some = ExampleSet(
            examples=Questions(range(320)),
            data=types.SimpleNamespace(primary_metric="f1"),
        )

        def read_sets(task_config, uses, **settings):
            found.task_config, found.settings = task_config, settings
            return Sets(
                train=some if "train" in uses else None, evaluation=(some,)
            )

        def train(config, sets, make_task, weights):
            found.config, found.weights = config, weights
            return scores and Result(scores, weights or "trained")

        def export(config, *, albert_config):
            assert albert_config is found.config.albert_config
            found.exported.append(config)
            return "exported"

        monkeypatch.setattr(finetune, "run", train)
        monkeypatch.setattr(saved_model, "check", lambda *_, **__: None)
        monkeypatch.setattr(saved_model, "export", export)
        task = types.SimpleNamespace(
            read_sets=read_sets,
            task_maker=lambda *_: print,
            export_settings=lambda _, __, scores: {
                "max_query_length": 8,
                "null_score_diff_threshold": scores.get("null_threshold"),
            },
        )
        defaults = {"max_seq_length": 16} | defaults
        values = parse(
            lambda: finetuning.define_flags(TaskConfig, **defaults),
            "--albert_config_file=config.json",
            "--output_dir=run",
            f"--spm_model_file={tiny_spm_model}",
            "--do_train",
            *arguments,
        )
        finetuning.run(
            values,
            task=task,
            task_config_class=TaskConfig,
            export_task="squad",
        )
        return found

    return start


USUAL = {"num_train_epochs": 3.0, "warmup_proportion": 0.1}


@pytest.mark.parametrize(
    ("arguments", "defaults", "expected"),
    [
        # 320 examples / 32 in a batch x 2.55.
        (
            "--num_train_epochs=2.55 --warmup_proportion=0.1",
            {},
            {"num_train_steps": 25, "num_warmup_steps": 2},
        ),
        ("", USUAL, {"num_train_steps": 30, "num_warmup_steps": 3}),
        # 960 windows / 32 x 3.
        (
            "--count_windows_as_epochs",
            USUAL,
            {"num_train_steps": 90, "num_warmup_steps": 9},
        ),
        (
            "--num_train_steps=50 --num_warmup_steps=9",
            USUAL,
            {"num_train_steps": 50, "num_warmup_steps": 9},
        ),
        (
            "--num_train_epochs=0.001 --warmup_step=0",
            {},
            {"num_train_steps": 1},
        ),
        (
            "--train_step=70 --warmup_step=7 --num_keep_checkpoint=2",
            {},
            {
                "num_train_steps": 70,
                "num_warmup_steps": 7,
                "keep_checkpoint_max": 2,
            },
        ),
        # Without training, there is no warm-up to fit into the steps.
        (
            "--nodo_train --do_eval --init_checkpoint=base --warmup_step=500 "
            "--start_warmup_step=9",
            {"num_train_steps": 5},
            {"num_warmup_steps": 0, "start_warmup_step": 0},
        ),
        (
            "--preset=paper --learning_rate=1e-4",
            USUAL,
            {
                "learning_rate": 1e-4,
                "num_train_steps": 800,
                "num_warmup_steps": 200,
                "optimizer": "adamw",
            },
        ),
        # 320 / 32 x 2, where the preset has batches of 32.
        (
            "--preset=paper --num_train_epochs=2 --warmup_proportion=0.2",
            {"train_batch_size": 16},
            {"num_train_steps": 20, "num_warmup_steps": 4},
        ),
        ("--use_tpu", {}, {"strategy": "tpu"}),
        # Five evaluations, and at least one each 1,000 steps.
        ("--train_step=42", {}, {"save_checkpoints_steps": 9}),
        (
            "--train_step=9000",
            {"save_checkpoints_steps": 1000},
            {"save_checkpoints_steps": 1000},
        ),
    ],
)
def test_flags_become_the_config_of_the_run(arguments, defaults, expected, run):
    defaults = {"train_batch_size": 32, "num_warmup_steps": 0} | defaults
    preset = ["--max_seq_length=16"] * ("--preset" in arguments)

    config = run(*preset, *arguments.split(), **defaults).config

    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # 320 rows, a model of width 64.
        ("", (500, 50, 100, 6e-4)),
        ("--num_train_epochs=2 --learning_rate=1e-3", (20, 2, 4, 1e-3)),
        (
            "--train_step=40 --warmup_step=7 --save_checkpoints_steps=40",
            (40, 7, 40, 6e-4),
        ),
    ],
)
def test_a_table_of_ones_own_has_settings_of_its_size(
    arguments, expected, run, monkeypatch
):
    monkeypatch.setattr(TaskConfig, "name", "custom")
    usual = {"num_train_steps": 1000, "num_warmup_steps": 0}

    config = run(*arguments.split(), train_batch_size=32, **usual).config

    names = (
        "num_train_steps",
        "num_warmup_steps",
        "save_checkpoints_steps",
        "learning_rate",
    )
    assert tuple(getattr(config, name) for name in names) == expected


@pytest.mark.parametrize("arguments", ["", "--num_train_epochs=2"])
def test_flags_txt_has_the_length_that_the_run_has(arguments, run, monkeypatch):
    def as_text(values):
        names = (
            "num_train_steps",
            "num_train_epochs",
            "save_checkpoints_steps",
        )
        warmup = ("num_warmup_steps", "warmup_proportion")
        return " ".join(str(values[name].value) for name in (*names, *warmup))

    monkeypatch.setattr(finetuning.cli_flags, "as_text", as_text)

    found = run(*arguments.split(), train_batch_size=32, **USUAL).config

    # 320 examples, 3 epochs by default; an evaluation each fifth of the run.
    expected = "20 None 4 None 0.1" if arguments else "30 None 6 None 0.1"
    assert found.flags_text == expected


@pytest.mark.parametrize(
    ("arguments", "num_steps"),
    [("", 500), ("--num_train_epochs=1", 10), ("--preset=paper", 800)],
)
def test_few_questions_of_ones_own_are_trained_on_longer(
    arguments, num_steps, run, monkeypatch
):
    monkeypatch.setattr(TaskConfig, "train_file", "mine.json", raising=False)

    sizes = "--max_seq_length=16", "--train_batch_size=32"
    found = run(*sizes, *arguments.split(), **USUAL)

    assert found.config.num_train_steps == num_steps


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        ("", {"max_seq_length": 9}, 9),
        ("--max_seq_length=12", {"max_seq_length": 9}, 12),
        # The model takes 16.
        ("", {}, 16),
    ],
)
def test_lengths_are_those_of_the_training(
    arguments, settings, expected, run, monkeypatch
):
    weights = TrainedWeights(path="run/best", settings=settings)
    monkeypatch.setattr(finetuning, "_find_weights", lambda _: weights)

    found = run(
        "--nodo_train",
        "--do_eval",
        "--init_checkpoint=base",
        *arguments.split(),
        max_seq_length=384,
    )

    assert found.settings["max_seq_length"] == expected


def test_a_preset_sets_the_dropouts_of_encoder_and_head(run):
    flags = ("--preset=paper", "--max_seq_length=16")

    found, without = run(*flags), run("--num_warmup_steps=0")

    assert found.config.albert_config.hidden_dropout_prob == 0.1
    assert found.task_config.dropout_prob == 0.1
    assert found.config.task_settings == {"dropout_prob": 0.1}
    assert without.config.albert_config.hidden_dropout_prob == 0.3
    assert without.task_config.dropout_prob == 0.2


def test_the_vocabulary_and_the_length_reach_the_sets(run):
    found = run("--nodo_lower_case", "--max_seq_length=9")

    tokenizer = found.settings["tokenizer"]
    assert (tokenizer.vocab_size, tokenizer.do_lower_case) == (300, False)
    assert found.settings["max_seq_length"] == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--output_dir=", "--output_dir must be given"),
        ("--albert_config_file=", "--albert_config_file or"),
        ("--albert_config_file=base_v3", "base_v3.*base_v2"),
        (
            "--spm_model_file=",
            "commands have --spm_model_file and --vocab_file",
        ),
        ("--nodo_train", "There are no trained weights in 'run'"),
        ("--nodo_train --init_checkpoint=base", "There is nothing to do. Pass"),
        (
            "--preset=paper --count_windows_as_epochs",
            "--preset determines the number of steps. Pass --num_train_epochs",
        ),
        (
            "--train_step=5 --count_windows_as_epochs",
            "--count_windows_as_epochs is for --num_train_epochs, but",
        ),
        (
            "--train_step=5 --num_train_epochs=1",
            "--num_train_steps and --num_train_epochs contradict each other",
        ),
        (
            "--warmup_step=5 --warmup_proportion=0.2",
            "--num_warmup_steps and --warmup_proportion contradict each other",
        ),
        ("--num_train_epochs=0", "`num_train_epochs` must be .*above 0"),
        (
            "--num_train_epochs=1 --train_batch_size=0",
            "`train_batch_size` must be .*at least 1",
        ),
        ("--warmup_proportion=1", "`warmup_proportion` must be .*below 1"),
        ("--output_dir=gs://bucket", "'gs://bucket' is a remote path"),
        ("--export_dir=served --cluster=slurm", "for runs on one machine"),
        (
            "--preset=paper --max_seq_length=17",
            "`max_seq_length` must not exceed the 16",
        ),
    ],
)
def test_flags_that_cannot_be_are_named(arguments, message, run):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(*arguments.split())


@pytest.mark.parametrize("strategy", ["auto", "multi_worker", "one"])
def test_only_runs_on_one_machine_export(strategy, run, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    flags = ("--export_dir=served", f"--strategy={strategy}")

    if strategy == "one":
        assert run(*flags).config.strategy == "one"
    else:
        with pytest.raises(ValueError, match="for runs on one machine"):
            run(*flags)


def test_an_export_has_the_settings_and_the_weights_of_the_run(run, capsys):
    found = run(
        "--export_dir=served",
        "--nodo_lower_case",
        scores={"f1": 50.0, "null_threshold": -1.5},
    )

    (config,) = found.exported
    assert config.init_checkpoint == "trained"
    assert (config.export_dir, config.task) == ("served", "squad")
    assert (config.do_lower_case, config.max_seq_length) == (False, 16)
    assert config.null_score_diff_threshold == -1.5
    printed = "f1 = 50\nnull_threshold = -1.5\nexported\n"
    assert capsys.readouterr().out == printed


def test_without_training_the_given_weights_are_used(run, tmp_path):
    path = tmp_path / "base" / "metadata.json"
    path.write_text('{"labels": ["a", "b"]}')

    found = run("--nodo_train", "--do_eval", "--init_checkpoint=base")

    weights = found.settings["weights"]
    assert (weights.path, weights.settings) == ("base", {})
    assert weights.metadata.labels == ("a", "b")
    assert found.weights == "base"


def test_a_training_that_resumes_knows_its_weights(run, tmp_path):
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "model.ckpt.index").touch()
    (tmp_path / "run" / "run.json").write_text('{"settings": {"stride": 8}}')

    weights = run("--init_checkpoint=base").settings["weights"]

    assert weights.path == "run/best"
    assert weights.settings == {"stride": 8}


def test_a_run_that_was_stopped_exports_nothing(run, capsys):
    assert run("--export_dir=served", scores=None).exported == []
    assert capsys.readouterr().out == ""
