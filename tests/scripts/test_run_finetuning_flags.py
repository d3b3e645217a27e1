"""The flags that all fine-tuning scripts share, and the job made of them."""

import json

import pytest
import run_finetuning_flags
from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training.run_config import (
    ExampleSet,
    FinetuningConfig,
    TrainingConfig,
)

CONFIG = {"vocab_size": 30, "max_position_embeddings": 16, "hidden_size": 64}


class Data:
    """Stands for a task."""

    name = "words"
    settings = {}
    vocab_size = CONFIG["vocab_size"]


SHAPE = AlbertConfig(vocab_size=9, hidden_dropout_prob=0.3)


@pytest.fixture
def parse(tmp_path, monkeypatch):
    """Returns the values of flags, defined anew."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))

    def parse_flags(*arguments, epochs=None, warmup_proportion=None):
        values = flags.FlagValues()
        monkeypatch.undo()  # what the flags before were defined in
        for name in ("DEFINE_integer", "DEFINE_string", "DEFINE_bool"):
            _redirect(monkeypatch, name, values)
        for name in ("DEFINE_float", "DEFINE_enum", "DEFINE_alias"):
            _redirect(monkeypatch, name, values)
        run_finetuning_flags.define_finetuning_flags(
            run_finetuning_flags.Defaults(
                training=TrainingConfig(train_batch_size=32),
                optimizer=OptimizerConfig(
                    optimizer="adamw", num_train_steps=1000, num_warmup_steps=0
                ),
                finetuning=FinetuningConfig(max_seq_length=16),
                num_train_epochs=epochs,
                warmup_proportion=warmup_proportion,
            )
        )
        # The scripts', each with a default of its own.
        flags.DEFINE_float("dropout_prob", 0.1, "")
        given = [
            f"--albert_config_file={path}",
            "--output_dir=run",
            "--spm_model_file=m",
            "--do_train",
            *arguments,
        ]
        values(["script", *given])
        return values

    return parse_flags


def _redirect(monkeypatch, name, values):
    original = getattr(flags, name)

    def define(*args, **options):
        return original(*args, flag_values=values, **options)

    monkeypatch.setattr(run_finetuning_flags.flags, name, define)


@pytest.fixture
def job(parse, monkeypatch):
    """Returns the job that flags ask for, with 320 examples."""

    def make(*arguments, trains=True, **defaults):
        values = parse(*arguments, **defaults)
        monkeypatch.setattr(
            run_finetuning_flags.run_flags,
            "flags_text",
            lambda _: "--do_train\n",
        )
        some = ExampleSet(examples=range(320))
        return run_finetuning_flags.finetuning_job(
            values,
            config=run_finetuning_flags.check_finetuning_flags(values),
            data=Data(),
            make_task=None,
            train_set=some if trains else None,
            eval_sets=[some],
        )

    return make


def test_the_original_s_spellings_are_the_same_flags(job):
    made = job(
        "--train_step=70",
        "--warmup_step=7",
        "--num_keep_checkpoint=2",
        "--predict_batch_size=3",
        "--layerwise_lr_decay=0.9",
        "--freeze_embeddings",
        "--num_seeds=4",
        "--cached_dir=there",
    )

    assert made.training.num_train_steps == 70
    assert made.training.keep_checkpoint_max == 2
    assert made.optimizer.num_train_steps == 70
    assert made.optimizer.num_warmup_steps == 7
    assert made.optimizer.optimizer == "adamw"
    assert made.finetuning == FinetuningConfig(
        max_seq_length=16,
        predict_batch_size=3,
        layerwise_lr_decay=0.9,
        freeze_embeddings=True,
        num_seeds=4,
        cached_dir="there",
    )
    assert made.flags_text == "--do_train\n"


def test_epochs_are_turned_into_steps_and_a_share_into_a_warm_up(job):
    made = job("--num_train_epochs=2.55", "--warmup_proportion=0.1")

    assert made.training.num_train_steps == 25  # 320 / 32 x 2.55
    assert made.optimizer.num_warmup_steps == 2


def test_what_is_given_comes_before_what_is_usual(job):
    usual = {"epochs": 3.0, "warmup_proportion": 0.1}

    assert job(**usual).training.num_train_steps == 30
    assert job(**usual).optimizer.num_warmup_steps == 3
    made = job("--num_train_steps=50", "--num_warmup_steps=9", **usual)
    assert made.training.num_train_steps == 50
    assert made.optimizer.num_warmup_steps == 9
    assert job("--num_train_epochs=1").training.num_train_steps == 10


def test_without_training_there_is_no_warm_up_to_fit(job):
    made = job("--warmup_step=5000", "--start_warmup_step=9", trains=False)

    assert made.optimizer.num_warmup_steps == 0
    assert made.optimizer.start_warmup_step == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output_dir="], "--output_dir must be given"),
        (["--spm_model_file="], "--spm_model_file or --vocab_file must be"),
        (["--nodo_train"], "There is nothing to do: pass --do_train"),
        (
            ["--train_step=5", "--num_train_epochs=1"],
            "--num_train_steps and --num_train_epochs say the same thing twice",
        ),
        (
            ["--warmup_step=5", "--warmup_proportion=0.2"],
            "--num_warmup_steps and --warmup_proportion say the same",
        ),
        (
            ["--albert_hub_module_handle=h"],
            "--albert_hub_module_handle cannot be used",
        ),
        (["--num_train_epochs=0"], "`num_train_epochs` must be above 0"),
        (["--num_train_epochs=nan"], "`num_train_epochs` must be above 0"),
        (["--num_train_epochs=inf"], "must be above 0 and finite"),
        (
            ["--num_train_epochs=1", "--train_batch_size=0"],
            "`train_batch_size` must be at least 1",
        ),
        (["--warmup_proportion=1"], "`warmup_proportion` must be at least 0"),
        (["--output_dir=gs://bucket"], "'gs://bucket' is a remote path"),
        (["--export_dir=gs://served"], "'gs://served' is a remote path"),
    ],
)
def test_what_contradicts_itself_is_named(arguments, message, job):
    with pytest.raises(ValueError, match=message):
        job(*arguments)


def test_the_vocabulary_is_the_one_that_is_named(parse, tiny_spm_model):
    values = parse(f"--spm_model_file={tiny_spm_model}", "--nodo_lower_case")

    tokenizer = run_finetuning_flags.load_tokenizer(values)

    assert (tokenizer.vocab_size, tokenizer.do_lower_case) == (300, False)


def test_a_preset_gives_way_to_what_the_user_gave(parse):
    values = parse(
        "--preset=paper",
        "--learning_rate=1e-4",
        epochs=3.0,
        warmup_proportion=0.1,
    )

    config = run_finetuning_flags.apply_preset(values, SHAPE, "rte")

    assert values.learning_rate == 1e-4
    assert (values.num_train_steps, values.num_train_epochs) == (800, None)
    assert (values.num_warmup_steps, values.warmup_proportion) == (200, None)
    assert config.hidden_dropout_prob == 0.1


def test_a_preset_of_steps_gives_way_to_epochs_that_the_user_gave(parse):
    values = parse("--preset=paper", "--num_train_epochs=2", epochs=3.0)

    run_finetuning_flags.apply_preset(values, SHAPE, "rte")

    assert values.num_train_epochs == 2


def test_without_a_preset_nothing_changes(parse):
    values = parse(epochs=3.0)

    assert run_finetuning_flags.apply_preset(values, SHAPE, "rte") is SHAPE
    assert values.num_train_epochs == 3
