"""What only a whole command meets, between two runs and in their folders."""

import json

import pytest

EXIT_INTERRUPTED = 130
CLASSIFIER = "run_classifier.py"
# A run that gets Ctrl-C when its log comes to a step.
INTERRUPT = """
import os, signal
from albert_tf.training import metric_log
write = metric_log.MetricLog.write
def write_and_stop(log, step, values):
    write(log, step, values)
    if step == 3:
        os.kill(os.getpid(), signal.SIGINT)
metric_log.MetricLog.write = write_and_stop
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Tables of two labels, the same of three, a question, and a config."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, labels in {"two": "ab", "three": "abc"}.items():
        rows = [f"{'cat' * (i % 3)} sat\t{labels[i % 2]}" for i in range(8)]
        rows.append(f"a dog\t{labels[-1]}")
        text = "text\tkind\n" + "\n".join(rows) + "\n"
        (folder / f"{name}.tsv").write_text(text)
    context = "One day the cat sat here."
    row = {
        "id": "q0",
        "question": "Who sat?",
        "answers": [{"text": "cat", "answer_start": context.index("cat")}],
    }
    paragraph = {"context": context, "qas": [row]}
    questions = {"version": "1", "data": [{"paragraphs": [paragraph]}]}
    (folder / "squad.json").write_text(json.dumps(questions))
    return folder


@pytest.fixture(scope="module")
def model(workshop, tiny_spm_model):
    """Flags of a model and of a run of 4 steps."""
    return (
        f"--albert_config_file={workshop / 'config.json'}",
        f"--spm_model_file={tiny_spm_model}",
        "--max_seq_length=16",
        "--train_batch_size=4",
        "--num_train_steps=4",
        "--num_warmup_steps=1",
        "--log_steps=1",
    )


@pytest.fixture(scope="module")
def table_flags(inputs, model):
    """Flags of a task of two labels."""
    return (
        *model,
        "--task_name=custom",
        "--text_columns=text",
        "--label_column=kind",
        f"--train_file={inputs / 'two.tsv'}",
        f"--eval_file={inputs / 'two.tsv'}",
        f"--predict_file={inputs / 'two.tsv'}",
    )


@pytest.fixture(scope="module")
def trained(run_script, table_flags, tmp_path_factory):
    """The folder of a run of two labels; read only."""
    folder = tmp_path_factory.mktemp("trained")
    done = run_script(
        CLASSIFIER,
        *table_flags,
        "--do_train",
        "--do_eval",
        "--output_dir=run",
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder / "run"


def fails(done, words):
    """Whether a command has ended with one line of error, which it ends in."""
    *before, last = done.stderr.splitlines()
    assert done.returncode == 1
    assert last.startswith("error: ")
    assert not any(line.startswith("error: ") for line in before)
    assert "Traceback" not in done.stderr
    assert words in last, last
    return True


@pytest.mark.parametrize(
    ("script", "extra"),
    [
        (CLASSIFIER, ()),
        ("run_squad.py", ("--max_query_length=4", "--train_file={}")),
    ],
)
def test_a_vocabulary_of_another_size_is_refused(
    script, extra, run_script, workshop, table_flags, model, inputs, tmp_path
):
    config = json.loads((workshop / "config.json").read_text())
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"vocab_size": 299}))
    flags = table_flags if script == CLASSIFIER else model
    squad = inputs / "squad.json"

    done = run_script(
        script,
        *flags,
        *(flag.format(squad) for flag in extra),
        f"--albert_config_file={path}",
        "--do_train",
        "--output_dir=run",
        folder=tmp_path,
    )

    assert fails(done, "vocabulary has 300 tokens, the config has vocab_size=2")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("labels", ["b,a", "a,b,c", "x,y"])
def test_weights_of_a_run_are_not_used_with_other_labels(
    labels, run_script, table_flags, trained, tmp_path
):
    done = run_script(
        CLASSIFIER,
        *table_flags,
        f"--labels={labels}",
        f"--init_checkpoint={trained / 'best'}",
        "--do_predict",
        "--output_dir=new",
        folder=tmp_path,
    )

    assert fails(done, "were trained with labels=['a', 'b'], and are to be")
    assert not (tmp_path / "new").exists()


def test_the_folder_of_another_run_is_left_as_it_is(
    run_script, table_flags, model, inputs, trained
):
    before = sorted(trained.rglob("*"))
    squad = (*model, "--max_query_length=4")
    questions = f"--train_file={inputs / 'squad.json'}"
    other_rows = f"--train_file={inputs / 'three.tsv'}"
    for script, flags, words in (
        ("run_squad.py", (*squad, questions), "(now 'squad_v1')"),
        (CLASSIFIER, (*table_flags, other_rows), "was trained with 'a', 'b'"),
        (CLASSIFIER, (*table_flags, "--num_seeds=2", "--do_eval"), "seeds_fro"),
        (CLASSIFIER, (*table_flags, "--learning_rate=1"), "learning_rate=5e-0"),
    ):
        done = run_script(
            script, *flags, "--do_train", f"--output_dir={trained}", folder="."
        )
        assert fails(done, words)

    assert sorted(trained.rglob("*")) == before


def test_a_checkpoint_that_is_not_there_is_told_before_records_are_made(
    run_script, table_flags, tmp_path
):
    done = run_script(
        CLASSIFIER,
        *table_flags,
        "--init_checkpoint=nowhere",
        "--do_train",
        "--output_dir=run",
        folder=tmp_path,
    )

    assert fails(done, "no checkpoint 'nowhere'")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_is_one_line_and_the_run_can_go_on(
    run_script, table_flags, tmp_path
):
    flags = (
        *table_flags,
        "--save_checkpoints_steps=2",
        "--do_train",
        "--output_dir=run",
    )

    done = run_script(CLASSIFIER, *flags, folder=tmp_path, before=INTERRUPT)
    assert done.returncode == EXIT_INTERRUPTED
    assert done.stderr.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in done.stderr
    again = run_script(CLASSIFIER, *flags, folder=tmp_path)

    assert again.returncode == 0, again.stderr
    assert "Going on from run/checkpoints/step-00000002." in again.stderr
    assert "global_step = 4" in again.stdout
