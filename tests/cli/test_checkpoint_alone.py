"""--init_checkpoint alone is enough: a checkpoint brings what it has."""

import dataclasses
import json

import pytest

from albert_tf.checkpoints import discovery, huggingface, keras_hub, tf1
from albert_tf.checkpoints.metadata import Metadata

WRITERS = {
    "tf1": tf1.write_released,
    "huggingface": huggingface.write,
    "keras_hub": keras_hub.write,
}
STEPS = ("--train_step=2", "--max_seq_length=16", "--train_batch_size=4")


@pytest.fixture(scope="module")
def pretrained(run_alone, pretraining_flags, tmp_path_factory):
    """The folder of a pretraining; read it only."""
    folder = tmp_path_factory.mktemp("pretrained")
    flags = (*pretraining_flags, "--output_dir=run", "--num_train_steps=5")
    run_alone("run_pretraining.py", *flags, folder=folder)
    return folder / "run"


@pytest.fixture
def fine_tune(run_script, table, tmp_path):
    def run(checkpoint, *flags):
        return run_script(
            "run_classifier.py",
            "--task_name=custom",
            "--text_columns=text",
            "--label_column=kind",
            f"--data_dir={table}",
            f"--init_checkpoint={checkpoint}",
            "--output_dir=tuned",
            "--do_train",
            "--do_eval",
            *STEPS,
            *flags,
            folder=tmp_path,
        )

    return run


def test_a_pretraining_is_fine_tuned(pretrained, fine_tune):
    done = fine_tune(pretrained)
    assert done.returncode == 0, done.stderr

    # The folder of the run alone is enough, too.
    done = fine_tune("", "--nodo_train")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "huggingface",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("tf1", "keras_hub")
        ),
    ],
)
def test_a_folder_of_any_format_is_fine_tuned(
    name, pretrained, tiny_spm_model, fine_tune, tmp_path
):
    source = dataclasses.replace(
        discovery.open(pretrained),
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(do_lower_case=False),
    )
    folder = tmp_path / name
    folder.mkdir()
    WRITERS[name](str(folder), source)

    done = fine_tune(folder)

    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "tuned" / "run.json").read_text())
    assert run["settings"]["tokenizer"] == source.load_tokenizer().fingerprint


@pytest.mark.slow
def test_a_run_that_is_continued_brings_its_config(
    pretrained, pretraining_flags, run_alone, tmp_path
):
    flags = [x for x in pretraining_flags if "config_file" not in x]

    run_alone(
        "run_pretraining.py",
        *flags,
        f"--continue_from={pretrained}",
        "--num_train_steps=7",
        "--output_dir=run",
        folder=tmp_path,
    )

    configs = (x / "albert_config.json" for x in (pretrained, tmp_path / "run"))
    assert len({config.read_text() for config in configs}) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--nodo_lower_case",), "trained with another tokenizer than"),
        (("--albert_config_file=base_v2",), "num_attention_heads=4 (now 12)"),
    ],
)
def test_flags_that_contradict_it_are_refused(
    flags, message, pretrained, fine_tune, tmp_path
):
    done = fine_tune(pretrained, *flags)

    assert done.returncode == 1
    assert message in done.error
    assert not (tmp_path / "tuned").exists()
