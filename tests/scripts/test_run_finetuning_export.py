"""When a run exports, what, and what is refused before it begins."""

import os
import types

import pytest
import run_finetuning_export

from albert_tf.config import AlbertConfig
from albert_tf.export.export_config import ExportJob

CONFIG = AlbertConfig(vocab_size=30)


def flag_values(export_dir, **changes):
    """Stands for the flags of a script."""
    values = {
        "export_dir": export_dir and str(export_dir),
        "output_dir": "run",
        "spm_model_file": "m",
        "vocab_file": None,
        "do_lower_case": False,
        "max_seq_length": 16,
        "strategy": "auto",
    }
    return types.SimpleNamespace(**values | changes)


@pytest.mark.parametrize("name", ["", ".", "new", "new/er/served"])
def test_a_folder_that_can_be_made_is_accepted_and_not_made(name, tmp_path):
    values = flag_values(tmp_path / name if name else None)

    run_finetuning_export.check_export_flag(values)

    assert os.listdir(tmp_path) == []


def test_a_relative_folder_is_below_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    run_finetuning_export.check_export_flag(flag_values("served"))

    (tmp_path / "served").write_text("")
    with pytest.raises(ValueError, match="'served' is not a folder"):
        run_finetuning_export.check_export_flag(flag_values("served/1"))


def test_a_remote_folder_is_refused():
    values = flag_values("gs://bucket")

    with pytest.raises(ValueError, match="'gs://bucket' is a remote path"):
        run_finetuning_export.check_export_flag(values)


def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)

    with pytest.raises(
        ValueError,
        match="--export_dir=.*new cannot be written: .* not a folder that this",
    ):
        run_finetuning_export.check_export_flag(flag_values(tmp_path / "new"))


@pytest.mark.parametrize("strategy", ["auto", "multi_worker", "one"])
def test_several_machines_do_not_export(strategy, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    values = flag_values(tmp_path, strategy=strategy)

    if strategy == "one":
        run_finetuning_export.check_export_flag(values)
    else:
        with pytest.raises(ValueError, match="for runs on one machine"):
            run_finetuning_export.check_export_flag(values)


def test_without_the_flag_there_is_no_export():
    assert (
        run_finetuning_export.export_job(
            flag_values(None), task="race", config=CONFIG
        )
        is None
    )


def test_the_export_has_the_settings_of_the_run():
    found = run_finetuning_export.export_job(
        flag_values("served"), task="race", config=CONFIG, num_choices=3
    )

    assert found == ExportJob(
        init_checkpoint="run",
        export_dir="served",
        task="race",
        config=CONFIG,
        spm_model_file="m",
        do_lower_case=False,
        max_seq_length=16,
        num_choices=3,
    )


@pytest.fixture
def exported(monkeypatch):
    """What is exported, instead of it."""
    jobs = []
    monkeypatch.setattr(
        run_finetuning_export.export_saved_model, "export", jobs.append
    )
    return jobs


def finetuning_job(folder, **changes):
    """Stands for what was run."""
    values = {
        "output_dir": str(folder),
        "init_checkpoint": "base",
        "train_set": None,
    }
    return types.SimpleNamespace(**values | changes)


EXPORT = ExportJob(init_checkpoint="run", export_dir="served", task="race")


def test_the_weights_that_were_trained_are_exported(exported, tmp_path, capsys):
    (tmp_path / "best").mkdir()
    job = finetuning_job(tmp_path, train_set="some")

    run_finetuning_export.finish(job, {"accuracy": 0.25}, EXPORT)

    (found,) = exported
    assert found.init_checkpoint == str(tmp_path / "best")
    assert found.export_dir == "served"
    assert capsys.readouterr().out == "accuracy = 0.25\n"


def test_the_weights_that_were_given_are_exported(exported, tmp_path):
    run_finetuning_export.finish(finetuning_job(tmp_path), {}, EXPORT)

    (found,) = exported
    assert found.init_checkpoint == "base"


def test_a_run_that_is_stopped_exports_nothing(exported, tmp_path, capsys):
    job = finetuning_job(tmp_path, train_set="some")

    run_finetuning_export.finish(job, None, EXPORT)

    assert exported == []
    assert capsys.readouterr().out == ""


def test_without_an_export_the_scores_are_all(exported, tmp_path, capsys):
    run_finetuning_export.finish(finetuning_job(tmp_path), {"f1": 50.0}, None)

    assert exported == []
    assert capsys.readouterr().out == "f1 = 50\n"
