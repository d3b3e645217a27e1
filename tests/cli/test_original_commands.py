"""The command lines of the original's README and test script, as they stand.

Only names of files are put in, and fewer steps at the end.
"""

import json
import random

import pytest
import tensorflow as tf

from tests.cli.test_run_squad import squad_json

PRETRAINING = """
    --do_train --do_eval --train_batch_size=4096 --eval_batch_size=64
    --max_seq_length=512 --max_predictions_per_seq=20 --optimizer=lamb
    --learning_rate=.00176 --num_train_steps=125000 --num_warmup_steps=3125
    --save_checkpoints_steps=5000
"""
TRIVIAL = """
    --do_train --do_eval --nouse_tpu --train_batch_size=2 --eval_batch_size=1
    --max_seq_length=4 --num_train_steps=2 --max_eval_steps=3
"""
# What its `run_pretraining_test.py` sets after these flags are read.
SET_BY_THE_TEST = """
    --max_predictions_per_seq=7 --max_seq_length=13 --num_train_steps=1
    --save_checkpoints_steps=1
"""
CLASSIFIER = """
    --do_train --do_eval --do_predict --do_lower_case --max_seq_length=128
    --optimizer=adamw --task_name=MNLI --warmup_step=1000 --learning_rate=3e-5
    --train_step=10000 --save_checkpoints_steps=100 --train_batch_size=128
"""
SQUAD = """
    --do_lower_case --max_seq_length=384 --doc_stride=128 --max_query_length=64
    --do_train{true} --do_predict{true} --train_batch_size=48
    --predict_batch_size=8 --learning_rate=5e-5 --num_train_epochs=2.0
    --warmup_proportion=.1 --save_checkpoints_steps=5000 --n_best_size=20
    --max_answer_length=30 --train_feature_file=train.tf_record
    --predict_feature_file=dev.tf_record --predict_feature_left_file=left.pkl
"""
RACE = """
    --max_seq_length=512 --max_qa_length=128 --do_train --do_eval
    --train_batch_size=32 --eval_batch_size=8 --learning_rate=1e-5
    --train_step=12000 --warmup_step=1000 --save_checkpoints_steps=100
"""


@pytest.fixture
def run(run_script, tmp_path, tiny_spm_model):
    """Runs a command with a config of few parameters; returns its results."""

    def start(script, *flags, num_positions=512, is_finetuning=True):
        config = {
            "vocab_size": 300,
            "embedding_size": 5,
            "hidden_size": 14,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 19,
            "max_position_embeddings": num_positions,
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        vocabulary = [f"--spm_model_file={tiny_spm_model}"] * is_finetuning
        done = run_script(
            script,
            "--albert_config_file=config.json",
            "--output_dir=run",
            *vocabulary,
            *flags,
            folder=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        results = tmp_path / "run" / "eval_results.json"
        return json.loads(results.read_text()), done.stderr

    return start


def write_records(path, *, length, num_predictions):
    """Writes random records of the seven fields that BERT's have, too."""
    rng = random.Random(1)

    def integers(size, stop, start=0):
        values = [rng.randrange(start, stop) for _ in range(size)]
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    weights = tf.train.FloatList(value=[1.0] * num_predictions)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(400):
            feature = {
                "input_ids": integers(length, 300),
                "input_mask": integers(length, 2),
                "segment_ids": integers(length, 1),
                "masked_lm_positions": integers(num_predictions, length),
                "masked_lm_ids": integers(num_predictions, 300),
                "masked_lm_weights": tf.train.Feature(float_list=weights),
                "next_sentence_labels": integers(1, 2),
            }
            features = tf.train.Features(feature=feature)
            example = tf.train.Example(features=features)
            writer.write(example.SerializeToString())


@pytest.mark.parametrize(
    ("flags", "length", "num_predictions", "evaluated"),
    [
        (TRIVIAL + SET_BY_THE_TEST, 13, 7, "the first 3 of 400 records"),
        pytest.param(
            PRETRAINING + "--num_train_steps=1 --train_batch_size=2",
            512,
            20,
            "finished after 1 steps",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_pretraining(run, tmp_path, flags, length, num_predictions, evaluated):
    write_records(
        tmp_path / "records", length=length, num_predictions=num_predictions
    )

    results, log = run(
        "run_pretraining.py",
        "--input_file=records",
        *flags.split(),
        num_positions=length,
        is_finetuning=False,
    )

    assert results["global_step"] == 1
    assert "which is also trained on" in log
    assert evaluated in log


def test_classifier(run, tmp_path):
    folder = tmp_path / "data" / "MNLI"
    folder.mkdir(parents=True)
    for split in (
        "train",
        "dev_matched",
        "dev_mismatched",
        "test_matched",
        "test_mismatched",
    ):
        header = [*"01234567", "sentence1", "sentence2", "gold_label"]
        labels = ("neutral", "entailment", "contradiction") * 4
        rows = [header, *([*header[:8], "It is.", "No.", x] for x in labels)]
        text = "\n".join("\t".join(row) for row in rows)
        (folder / f"{split}.tsv").write_text(text + "\n")

    results, _ = run(
        "run_classifier.py",
        "--data_dir=data",
        *CLASSIFIER.split(),
        "--train_step=2",
        "--train_batch_size=4",
    )

    assert results["global_step"] == 2
    assert (tmp_path / "run" / "test_results.tsv").exists()


@pytest.mark.parametrize(
    "version", [1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_squad(run, tmp_path, version):
    for name in ("train", "dev"):
        content = squad_json(range(48), is_version_2=version == 2)
        (tmp_path / f"{name}.json").write_text(json.dumps(content))

    results, _ = run(
        "run_squad.py",
        "--train_file=train.json",
        "--predict_file=dev.json",
        *SQUAD.format(true="=true" if version == 1 else "").split(),
        *["--version_2_with_negative"] * (version == 2),
    )

    assert results["global_step"] == 2
    assert (tmp_path / "run" / "predictions.json").exists()


@pytest.mark.slow
def test_race(run, tmp_path):
    row = {
        "id": "1",
        "article": "It snowed.",
        "questions": ["It _ ."] * 4,
        "options": [["rained", "snowed", "hailed", "froze"]] * 4,
        "answers": list("BBBB"),
    }
    for name in ("train", "dev"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")

    results, _ = run(
        "run_race.py",
        "--train_file=train.jsonl",
        "--eval_file=dev.jsonl",
        "--data_dir=.",
        *RACE.split(),
        "--train_step=1",
        "--train_batch_size=2",
    )

    assert results["global_step"] == 1
