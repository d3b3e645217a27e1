"""What a run will do: from settings that were given to its config."""

import dataclasses
import json
import types

import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.settings import setting
from albert_tf.tasks.classification.spec import ClassifierSpec
from albert_tf.tasks.spec import FinetuningSpec, TaskConfig
from albert_tf.tasks.task_data import ExampleSet, Sets
from albert_tf.training import plan
from albert_tf.training.run_folder import RunFolder

CONFIG = {
    "vocab_size": 300,
    "max_position_embeddings": 16,
    "hidden_size": 64,
    "hidden_dropout_prob": 0.3,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(TaskConfig):
    """Stands for the settings of a task."""

    dropout_prob: float = setting(0.2, "Dropout.", affects_training=True)
    count_windows_as_epochs: bool = setting(False, "Windows.")
    train_file: str | None = setting(None, "Rows.")
    name = "rte"


class Table(Flags):
    """Stands for those of a table of one's own."""

    is_table = True


class Questions(list):
    """Examples that are cut into windows."""

    num_windows = 960


@pytest.fixture
def make_plan(monkeypatch, tmp_path, tiny_spm_model):
    """Plans a fine-tuning of 320 examples.

    `defaults` are those of the task; other keywords are given. Returns the
    plan, with the `request` that `read_sets` got.
    """
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "model.index").touch()
    monkeypatch.chdir(tmp_path)
    usual = {
        "albert_config_file": "config.json",
        "output_dir": "run",
        "spm_model_file": str(tiny_spm_model),
        "do_train": True,
    }

    def make(defaults=None, config_class=Flags, rows=(), **given):
        found = types.SimpleNamespace()
        some = ExampleSet(examples=Questions(range(320)), data=None)

        def read_sets(config, request):
            found.request = request
            train = some if "train" in request.uses else None
            return Sets(train=train, evaluation=(some,))

        spec = FinetuningSpec(
            task_names=(),
            config_class=config_class,
            defaults={"max_seq_length": 16} | (defaults or {}),
            read_sets=read_sets,
            make_task=None,
            head_spec=lambda _: ClassifierSpec(),
            predict_arguments=lambda _: "",
        )
        found.plan = plan.finetuning(spec, usual | given, dict(rows))
        found.config = found.plan.config
        return found

    return make


USUAL = {"num_train_epochs": 3.0, "warmup_proportion": 0.1}
EVALUATION = {"do_train": False, "do_eval": True, "init_checkpoint": "base"}
PAPER = {"preset": "paper", "max_seq_length": 16}


@pytest.mark.parametrize(
    ("given", "defaults", "expected"),
    [
        # 320 examples / 32 in a batch x 2.55.
        (
            {"num_train_epochs": 2.55, "warmup_proportion": 0.1},
            {},
            {"num_train_steps": 25, "num_warmup_steps": 2},
        ),
        ({}, USUAL, {"num_train_steps": 30, "num_warmup_steps": 3}),
        # 960 windows / 32 x 3.
        (
            {"count_windows_as_epochs": True},
            USUAL,
            {"num_train_steps": 90, "num_warmup_steps": 9},
        ),
        (
            {"num_train_steps": 50, "num_warmup_steps": 9},
            USUAL,
            {"num_train_steps": 50, "num_warmup_steps": 9},
        ),
        ({"num_train_epochs": 0.001}, {}, {"num_train_steps": 1}),
        # Without training, there is no warm-up to fit into the steps.
        (
            EVALUATION | {"num_warmup_steps": 500, "start_warmup_step": 9},
            {"num_train_steps": 5},
            {"num_warmup_steps": 0, "start_warmup_step": 0},
        ),
        (
            PAPER | {"learning_rate": 1e-4},
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
            PAPER | {"num_train_epochs": 2.0, "warmup_proportion": 0.2},
            {"train_batch_size": 16},
            {"num_train_steps": 20, "num_warmup_steps": 4},
        ),
        ({"use_tpu": True}, {}, {"strategy": "tpu"}),
        # Folds evaluate the file to train on.
        (
            {"train_file": "rows.tsv", "num_folds": 2},
            {},
            {"evaluated": "--train_file=rows.tsv"},
        ),
        ({"train_file": "rows.tsv"}, {}, {"evaluated": "rows in memory"}),
        # Five evaluations, and at least one each 1,000 steps.
        ({"num_train_steps": 42}, {}, {"save_checkpoints_steps": 9}),
        (
            {"num_train_steps": 9000},
            {"save_checkpoints_steps": 1000},
            {"save_checkpoints_steps": 1000},
        ),
    ],
)
def test_settings_become_the_config_of_the_run(
    given, defaults, expected, make_plan
):
    defaults = {"train_batch_size": 32, "num_warmup_steps": 0} | defaults

    config = make_plan(defaults, **given).config

    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # 320 rows, a model of width 64.
        ({}, (500, 50, 100, 6e-4)),
        ({"num_train_epochs": 2.0, "learning_rate": 1e-3}, (20, 2, 4, 1e-3)),
        (
            {
                "num_train_steps": 40,
                "num_warmup_steps": 7,
                "save_checkpoints_steps": 40,
            },
            (40, 7, 40, 6e-4),
        ),
    ],
)
def test_a_table_of_ones_own_has_settings_of_its_size(
    given, expected, make_plan
):
    usual = {"num_train_steps": 1000, "num_warmup_steps": 0}
    defaults = usual | {"train_batch_size": 32}

    config = make_plan(defaults, Table, **given).config

    assert expected == (
        config.num_train_steps,
        config.num_warmup_steps,
        config.save_checkpoints_steps,
        config.learning_rate,
    )


@pytest.mark.parametrize(
    ("use", "num_steps"), [("train", 500), ("eval", 1000), ("predict", 1000)]
)
def test_rows_decide_the_training_only_if_it_is_on_them(
    use, num_steps, make_plan
):
    usual = {"num_train_steps": 1000, "num_warmup_steps": 0}

    config = make_plan(usual, rows={use: ["row"]}).config

    assert config.num_train_steps == num_steps


@pytest.mark.parametrize("given", [{}, {"num_train_epochs": 2.0}])
def test_flags_txt_gives_the_same_run_again(given, make_plan):
    defaults = {"train_batch_size": 32, **USUAL}

    # A flag that is no setting is not in it.
    text = make_plan(defaults, verbosity=1, **given).config.flags_text

    # 320 examples, 3 epochs by default; an evaluation each fifth of the run.
    steps, interval = ("20", "4") if given else ("30", "6")
    lines = dict(line.partition("=")[::2] for line in text.splitlines())
    assert lines["--num_train_steps"] == steps
    assert lines["--save_checkpoints_steps"] == interval
    assert lines["--warmup_proportion"] == "0.1"
    others = {"--num_train_epochs", "--num_warmup_steps", "--verbosity"}
    assert not others & {*lines}
    assert {"--do_train", "--nodo_eval", "--max_seq_length"} <= {*lines}


@pytest.mark.parametrize(
    ("given", "num_steps"),
    [({}, 500), ({"num_train_epochs": 1.0}, 10), (PAPER, 800)],
)
def test_few_questions_of_ones_own_are_trained_on_longer(
    given, num_steps, make_plan
):
    defaults = {"train_batch_size": 32, **USUAL}

    config = make_plan(defaults, train_file="mine.json", **given).config

    assert config.num_train_steps == num_steps


@pytest.mark.parametrize(
    ("given", "settings", "expected"),
    [
        ({}, {"max_seq_length": 9}, 9),
        ({"max_seq_length": 12}, {"max_seq_length": 9}, 12),
        # The model takes 16.
        ({}, {}, 16),
    ],
)
def test_lengths_are_those_of_the_training(
    given, settings, expected, make_plan, monkeypatch
):
    known = Metadata(settings=settings)
    weights = Checkpoint(path="run/best", metadata=known)
    monkeypatch.setattr(plan, "_find_weights", lambda _: weights)

    found = make_plan({"max_seq_length": 384}, **EVALUATION, **given)

    assert found.request.max_seq_length == expected


def test_a_preset_sets_the_dropouts_of_encoder_and_head(make_plan):
    found, without = make_plan(**PAPER), make_plan(num_warmup_steps=0)

    assert found.config.albert_config.hidden_dropout_prob == 0.1
    assert found.plan.task_config.dropout_prob == 0.1
    assert found.config.task_settings == {"dropout_prob": 0.1}
    assert without.config.albert_config.hidden_dropout_prob == 0.3
    assert without.plan.task_config.dropout_prob == 0.2


def test_the_vocabulary_and_the_length_reach_the_sets(make_plan):
    found = make_plan(do_lower_case=False, max_seq_length=9)

    tokenizer = found.request.tokenizer
    assert (tokenizer.vocab_size, tokenizer.settings.do_lower_case) == (
        300,
        False,
    )
    assert found.request.max_seq_length == 9


def test_new_tokens_reach_the_sets_and_the_model(make_plan):
    found = make_plan(new_tokens="[E1], [/E1]", keep_accents=True)

    tokenizer = found.request.tokenizer
    assert tokenizer.encode("[E1]the[/E1]")[::2] == [300, 301]
    assert found.config.albert_config.vocab_size == 302
    # What the run keeps, and reads its vocabulary with.
    kept = tokenizer.identity()
    assert kept["tokenizer"] == tokenizer.fingerprint
    folder = RunFolder(path="run", fingerprint={"settings": kept})
    again = dataclasses.replace(
        found.config.vocabulary, metadata=folder.metadata
    )
    assert again.tokenizer.fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output_dir": ""}, "--output_dir must be given"),
        (
            {"new_tokens": "[E1]", "do_train": False},
            "--new_tokens needs --do_train",
        ),
        ({"albert_config_file": ""}, "--albert_config_file or"),
        (
            {"spm_model_file": ""},
            "vocabulary of the training: --spm_model_file or --vocab_file",
        ),
        ({"do_train": False}, "There are no trained weights in 'run'"),
        (
            {"do_train": False, "init_checkpoint": "base"},
            "There is nothing to do. Pass",
        ),
        (
            PAPER | {"count_windows_as_epochs": True},
            "--count_windows_as_epochs needs --num_train_epochs alone",
        ),
        (
            {"num_train_steps": 5, "count_windows_as_epochs": True},
            "--count_windows_as_epochs needs --num_train_epochs alone",
        ),
        (
            {"num_train_steps": 5, "num_train_epochs": 1.0},
            "--num_train_steps and --num_train_epochs contradict each other",
        ),
        (
            {"num_warmup_steps": 5, "warmup_proportion": 0.2},
            "--num_warmup_steps and --warmup_proportion contradict each other",
        ),
        ({"num_train_epochs": 0.0}, "`num_train_epochs` must be .*above 0"),
        ({"warmup_proportion": 1.0}, "`warmup_proportion` must be .*below 1"),
        ({"output_dir": "gs://bucket"}, "'gs://bucket' is a remote path"),
        (
            {"export_dir": "served", "cluster": "slurm"},
            "for runs on one machine",
        ),
        (
            {"num_train_epochs": 1.0, "train_batch_size": 0},
            "`train_batch_size` must be",
        ),
    ],
)
def test_settings_that_cannot_be_are_named(given, message, make_plan):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make_plan(**given)


@pytest.mark.parametrize("strategy", ["auto", "multi_worker", "one"])
def test_only_runs_on_one_machine_export(strategy, make_plan, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    given = {"export_dir": "served", "strategy": strategy}

    if strategy == "one":
        assert make_plan(**given).config.strategy == "one"
    else:
        with pytest.raises(ValueError, match="for runs on one machine"):
            make_plan(**given)


def test_without_training_the_given_weights_are_used(make_plan, tmp_path):
    path = tmp_path / "base" / "metadata.json"
    path.write_text('{"labels": ["a", "b"]}')

    found = make_plan(**EVALUATION)

    weights = found.request.weights
    assert (weights.path, weights.settings) == ("base", {})
    assert weights.metadata.labels == ("a", "b")
    assert found.plan.init_checkpoint is weights


def test_a_training_that_resumes_knows_its_weights(make_plan, tmp_path):
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "model.ckpt.index").touch()
    known = tmp_path / "run" / "best" / "metadata.json"
    known.write_text('{"settings": {"stride": 8}}')

    found = make_plan(init_checkpoint="base")

    assert found.plan.weights.path == "run/best"
    assert found.plan.weights.settings == {"stride": 8}
    # New weights are no longer those that its labels were measured on.
    assert not found.request.weights.path


def test_a_plan_of_a_pretraining_has_the_values_that_are_given():
    given = {"albert_config_file": "base_v2", "output_dir": "run"}

    config = plan.pretraining(given | {"use_tpu": True, "pack": True})

    assert (config.strategy, config.pack) == ("tpu", True)
    assert config.albert_config.hidden_size == 768
    assert "--use_tpu" in config.flags_text
