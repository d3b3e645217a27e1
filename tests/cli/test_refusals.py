"""What the commands refuse: one line, before TensorFlow is imported.

Tests of the library have the other reasons; here, a row each for what a
command checks itself, and for the ways of an error from below.
"""

import json

import pytest

from tests.cli.conftest import BASE, CONFIG

_RUN = "--albert_config_file={config} --output_dir=run "
_TUNING = _RUN + "--spm_model_file={vocabulary} --max_seq_length=32 --do_train "
# Flags of a command; those of a row follow.
FLAGS = {
    "build_vocab": "--input_file={corpus} --output_prefix=p --vocab_size=200",
    "create_pretraining_data": "--input_file={corpus} --output_file=out"
    " --spm_model_file={vocabulary}",
    "convert_checkpoint": "--input_path={base} --output_path=out",
    "export_saved_model": "--init_checkpoint={base} --export_dir=served",
    "run_pretraining": _RUN + "--input_file={corpus} --max_seq_length=32",
    "run_classifier": _TUNING + "--task_name=mnli --data_dir=none",
    "run_race": _TUNING + "--max_qa_length=16 --data_dir=nowhere --nodo_eval",
    "run_similarity": _TUNING + "--text_columns=a,b",
    "run_squad": _TUNING + "--max_query_length=8 --doc_stride=8",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory, tiny_corpus, tiny_spm_model):
    """Paths by the names that flags have here."""
    folder = tmp_path_factory.mktemp("files")
    question = {
        "article": "It snowed.",
        "question": "It _ .",
        "options": ["rained", "snowed"],
        "answer": "B",
    }
    paths = {}
    for name, content in {"config": CONFIG, "race": question}.items():
        paths[name] = folder / f"{name}.json"
        paths[name].write_text(json.dumps(content) + "\n")
    vocabulary = {"corpus": tiny_corpus, "vocabulary": tiny_spm_model}
    return paths | vocabulary | {"base": BASE}


@pytest.mark.parametrize(
    ("command", "flags", "words"),
    [
        ("build_vocab", "--input_file=no/*.txt", "No file matches 'no/*.txt'"),
        ("create_pretraining_data", "--max_seq_length=4", "`max_seq_length`"),
        ("convert_checkpoint", "", "`output_format` must be given"),
        ("export_saved_model", "--export_dir=", "`export_dir` must be given"),
        ("export_saved_model", "--task=tags", "must be one of encoder"),
        ("run_pretraining", "--learning_rate=1e-3,1e-2", "'1e-3,1e-2'"),
        ("run_classifier", "--learning_rate=1e-5,abc", "float: 'abc'"),
        ("run_pretraining", "--input_file=no/x", "No file matches 'no/x'"),
        ("run_pretraining", "--albert_config_file=", "--albert_config_file or"),
        ("run_pretraining", "--preemption_exit_code=256", "exit_code=256"),
        ("run_classifier", "--task_name=", "`task_name` must be one of"),
        ("run_classifier", "--preset=best", "paper|paper_v2"),
        ("run_classifier", "", "train.tsv"),
        ("run_classifier", "--nodo_train --do_eval", "no trained weights"),
        (
            "run_race",
            "--train_file={race} --exit_patience=1 --strategy=tpu",
            "a TPU does not have",
        ),
        ("run_race", "", "--data_dir must be"),
        ("run_race", "--max_qa_length=29", "at most 28"),
        ("run_similarity", "", "--data_dir or --train_file must be given"),
        ("run_similarity", "--text_columns=a", "must name the two columns"),
        ("run_similarity", "--train_file=no.tsv", "No such file"),
        ("run_squad", "--train_file=no.json", "No such file"),
        ("run_squad", "--max_query_length=29", "at most 28"),
        ("run_squad", "--dropout_prob=1", "`dropout_prob`"),
    ],
)
def test_it_is_one_line_and_leaves_nothing(
    command,
    flags,
    words,
    run_before_imports,
    files,
    tmp_path,
):
    given = [x.format(**files) for x in f"{FLAGS[command]} {flags}".split()]

    done = run_before_imports(f"{command}.py", *given, folder=tmp_path)

    assert words in done.error
    assert list(tmp_path.iterdir()) == []
