"""The commands of the pages and of the benchmarks run one after another.

They run as they stand, but for the sizes of models, batches and runs.
"""

import gzip
import itertools
import json
import shutil

import pytest

from albert_tf.tasks.classification import glue
from tests import pages
from tests.cli import test_own_tables, test_run_race, test_run_squad
from tests.cli.conftest import CONFIG, ROOT

pytestmark = pytest.mark.slow
# What other machines are needed for, or what a reader is to fill in.
LEFT_OUT = ("://", "=multi_worker", "=tpu", "grpc=", "_client.py")
# Pages with tests of their own, one whose data sets are not here, one that
# needs a GPU, and one whose command trains for an hour and adds a row to it.
OTHER_PAGES = (
    *("docs/board.md", "docs/gpu_hour.md"),
    *("docs/own_data.md", "docs/keras.md", "docs/experiments.md"),
    *("docs/browser.md", "docs/new_head.md", "docs/results.md"),
)
RECORDS = {"records/heldout": 128, "train.128": 128, "train.512": 512}
# The same command for other sizes.
OTHER_SIZES = ("=large/", "=xlarge/", "=xxlarge/")
SMALL = "--max_seq_length=32 --train_batch_size=4 --num_seeds=1 "
# Flags that are added, where a command has the words. The last value is taken.
ADDED = [
    ("build_vocab.py", "--vocab_size=300"),
    ("run_pretraining.py", "--num_train_steps=4 --num_warmup_steps=1"),
    ("run_pretraining.py", "--train_batch_size=8 --save_checkpoints_steps=2"),
    ("--input_file=long ", "--allow_new_heads"),
    ("input_file=records/train@1024", "--albert_config_file=tiny.json"),
    ("_file=base_v2", "--albert_config_file=tiny.json"),
    ("=recipes/speech/albert", "--albert_config_file=speech.json"),
    ("budget.flags", "--depth_schedule=1@0,2@60%"),
    ("_schedule", "--depth_schedule=1@0,2@2 --length_schedule=128@0,512@3"),
    ("_schedule", "--batch_schedule=4@0,8@1 --mask_schedule=0.3@0,0.15@2"),
    ("run_classifier.py", SMALL),
    ("--num_folds=5", "--num_train_steps=2"),
    ("run_squad.py", SMALL + "--doc_stride=8 --max_query_length=8"),
    ("run_race.py", SMALL + "--max_qa_length=16"),
    ("run_ner.py", "--max_seq_length=32 --train_batch_size=4"),
    ("run_ner.py", "--num_train_steps=2"),
    ("run_similarity.py", SMALL + "--num_train_steps=2"),
    ("preset=paper", "--num_train_steps=2 --num_warmup_steps=0"),
    ("=paper --init_checkpoint=albert_xxlarge", "--num_seeds=2"),
    ("load_generator.py", "--num_requests=4 --num_warm_up=1"),
    ("benchmarks/training.py", "--batch=1 --length=16 --steps=1"),
    ("packing.py", "--batch=2 --steps=1"),
    ("finetuning.py", "--batch=2 --max_seq_length=32 --examples=4"),
    ("data_building.py", "--megabytes=1 --alternations=1"),
    ("_making.py", "--alternations=1"),
    ("benchmarks/serving.py", "--length=16 --rounds=1 --repeats=1"),
    ("benchmarks/serving.py", "--largest_id=299"),
]


def write_glue(folder):
    for dataset in glue.GLUE_DATASETS.values():
        labels = dataset.labels or ("1.5", "4.0", "2.5")
        columns = (*dataset.text_columns, dataset.label_column)
        header = dataset.labelled_header or columns
        files = itertools.chain(*dataset.files.values())
        for path in {folder / set_file.path for set_file in files}:
            is_headed = header == columns or path.name.startswith("test")
            table = [header] if is_headed else []
            for i in range(8):
                row = dict.fromkeys(columns, f"The cat sat {i}.")
                row[dataset.label_column] = labels[i % len(labels)]
                table.append([row.get(name, "x") for name in header])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join("\t".join(x) + "\n" for x in table))


def write_texts(folder, corpus):
    names = ("corpus", "books", "data/train", "data/held_out")
    for path in [folder / name / "a.txt" for name in names]:
        path.parent.mkdir(parents=True)
        shutil.copy(corpus, path)
    rows = [{"text": x} for x in corpus.read_text().split("\n\n")]
    lines = "\n".join(json.dumps(row) for row in rows)
    path = folder / "corpus" / "a.jsonl.gz"
    path.write_bytes(gzip.compress(lines.encode()))


def write_models(folder, vocabulary):
    (folder / "vocab").mkdir()
    for name in ("vocab/english.model", "my.model"):
        shutil.copy(vocabulary, folder / name)
    base = folder / "albert_base"
    test_own_tables.write_encoder(base, vocabulary)
    for name in ("albert_base_v2", "albert_xxlarge", "FOLDER"):
        shutil.copytree(base, folder / name)
    shutil.copytree(base, folder / "demo_output" / "pretraining_long")
    config = CONFIG | {"max_position_embeddings": 512}
    for name in ("tiny", "small", "my_config"):
        (folder / f"{name}.json").write_text(json.dumps(config))
    (folder / "speech.json").write_text(
        json.dumps(config | {"vocab_size": 178})
    )


def write_tables(folder):
    rows = [(f"a cat {i}", "sat", "ab"[i % 2]) for i in range(40)]
    for name in ("mails", "later", "new"):
        lines = ["\t".join(x) for x in [("subject", "body", "folder"), *rows]]
        (folder / f"{name}.tsv").write_text("\n".join(lines))
    names = ("first", "second", "other", "score")
    pairs = [(a, b, "a dog", str(i % 5)) for i, (a, b, _) in enumerate(rows)]
    lines = ["\t".join(x) for x in [names, *pairs]]
    (folder / "pairs.tsv").write_text("\n".join(lines))
    lines = ["text,kind", *(f"{text},{label}" for text, _, label in rows)]
    (folder / "mails.csv").write_text("\n".join(lines))
    lines = [f"{i},{line}" for i, line in enumerate(lines[1:])]
    lines = ["id,text,klasse", *lines]
    (folder / "tickets.csv").write_text("\n".join(lines))
    lines = [
        "sentence\tlabel",
        *(f"{text}\t{label}" for text, _, label in rows),
    ]
    for name in ("train", "dev"):
        path = folder / "demo_output" / f"reviews_{name}.tsv"
        path.write_text("\n".join(lines))


def write_tags(folder):
    rows = [f"anna\tB-PER\nsat {i}\tO\n" for i in range(8)]
    (folder / "conll").mkdir()
    for name in ("train", "dev", "new", "conll/train", "conll/dev"):
        (folder / f"{name}.conll").write_text("\n".join(rows))


def write_questions(folder):
    (folder / "squad").mkdir()
    for version, name in itertools.product((1, 2), ("train", "dev")):
        questions = json.dumps(
            test_run_squad.squad_json(range(8), is_version_2=version == 2)
        )
        for path in (folder, folder / "squad"):
            file_name = f"{name}-v{version}.{2 - version}.json"
            (path / file_name).write_text(questions)
    for name, split in itertools.product(("data", "race"), ("train", "dev")):
        levels = {"middle": range(2), "high": range(2)}
        test_run_race.write_split(folder / name, split, levels)


@pytest.fixture(scope="module")
def given(tmp_path_factory, tiny_corpus, tiny_spm_model, run_alone):
    """A folder with what the pages take as given; copy it."""
    folder = tmp_path_factory.mktemp("given")
    write_texts(folder, tiny_corpus)
    write_models(folder, tiny_spm_model)
    write_tables(folder)
    write_questions(folder)
    write_tags(folder)
    write_glue(folder / "glue")
    shutil.copy(folder / "glue" / "MRPC" / "dev.tsv", folder)
    for name in ("recipes", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "records").mkdir()
    for name, length in RECORDS.items():
        run_alone(
            "create_pretraining_data.py",
            *("--input_file=corpus/*.txt", "--masking=dynamic"),
            "--spm_model_file=my.model",
            *(f"--max_seq_length={length}", f"--output_file={name}"),
            folder=folder,
        )
    run_alone(
        "run_pretraining.py",
        *("--albert_config_file=tiny.json", "--input_file=records/heldout"),
        *("--max_seq_length=128", "--train_batch_size=8", "--do_eval"),
        *("--num_train_steps=2", "--num_warmup_steps=0", "--log_steps=1"),
        "--output_dir=my_run",
        folder=folder,
    )
    return folder


@pytest.fixture
def run_command(run_alone):
    """A function that runs a call of a page in a folder."""

    def run(words, folder):
        script, *flags = words
        if script == "-m":
            script, *flags = flags
            script = script.replace(".", "/")
            is_folder = (ROOT / script).is_dir()
            script += "/__main__.py" if is_folder else ".py"
        whole = " ".join(words)
        for word, more in ADDED:
            if word in whole:
                flags += more.split()
        if not any(flag.startswith("--output_dir") for flag in flags):
            flags += ["--output_dir=another"] * script.startswith("run_")
        if script == "run_pretraining.py" and "--input_file" not in whole:
            flags += ["--input_file=records/heldout", "--max_seq_length=128"]
        # As Python does for a script.
        path = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r})"
        return run_alone(script, *flags, folder=folder, before=path)

    return run


BENCHMARKS = """
    data_building.py --input_file=corpus/a.txt --spm_model_file=my.model
    feature_making.py --spm_model_file=my.model --squad_file=dev-v1.1.json
    feature_making.py --spm_model_file=my.model --glue_file=mrpc=dev.tsv
    feature_making.py --spm_model_file=my.model --race_file=race/RACE/*/*/*.txt
    finetuning.py --file=dev.tsv --spm_model_file=my.model
    finetuning.py --file=dev.tsv --spm_model_file=my.model --mode=predict
    finetuning.py --file=dev.tsv --spm_model_file=my.model --mode=latency
    packing.py --input_file=records/heldout
    planner.py --gpus=8
    time_to_loss.py my_run my_run
    training.py
    training.py --precision=bfloat16 --recompute --attention_window=4 --jit
"""
CALLS = {
    "benchmarks": [
        ["export_saved_model.py", "--init_checkpoint=my_run", "--export_dir=x"],
        ["benchmarks/serving.py", "x/1", "x/1"],
        *(
            f"benchmarks/{x.strip()}".split()
            for x in BENCHMARKS.splitlines()
            if x
        ),
    ]
} | {
    pages.name(page): [
        words
        for words in pages.calls(page)
        if not any(one in " ".join(words) for one in LEFT_OUT + OTHER_SIZES)
    ]
    for page in pages.PAGES
    if pages.name(page) not in OTHER_PAGES
}


@pytest.mark.parametrize("page", [x for x in CALLS if CALLS[x]])
def test_the_commands_of_a_page_run(page, given, run_command, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(given, folder)
    if page.startswith("docs/serving"):
        (folder / "my_run").rename(folder / "run")

    for words in CALLS[page]:
        # What another page, or another way to train on this one, has left.
        if "sst_large" in words:
            (run, *_) = (folder / "sst").glob("learning_rate=*")
            shutil.copytree(run, folder / "sst_large")
        if words[0] == "build_vocab.py":
            shutil.rmtree(folder / "vocab", ignore_errors=True)
        if "--length_schedule" in " ".join(words):
            for path in folder.glob("train.*"):
                path.rename(folder / "records" / path.name)
        if "--do_train" in words or "_schedule" in " ".join(words):
            [output_dir] = [x[13:] for x in words if "--output_dir=" in x]
            shutil.rmtree(folder / output_dir, ignore_errors=True)

        assert run_command(words, folder).returncode == 0
