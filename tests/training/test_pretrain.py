"""Whole runs of a tiny model on tiny record files."""

import dataclasses
import functools
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import discovery, load, vocabularies
from albert_tf.config import AlbertConfig
from albert_tf.data import input_pipeline, shards
from albert_tf.devices import strategies
from albert_tf.modeling.fused import fusion
from albert_tf.observers import metric_log
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.training import (
    pretrain,
)
from tests import exported_models
from tests.training import runs

NUM_STEPS = runs.NUM_PRETRAINING_STEPS
SCORES = {
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
}


def run(config):
    """Runs a pretraining; returns its scores by name."""
    result = pretrain.run(config)
    return result and result.scores.flat()


@pytest.fixture
def job(make_pretraining_job, tmp_path):
    """A function that makes the settings of a run in a new directory."""
    return lambda name="run", **changes: make_pretraining_job(
        tmp_path / name, **changes
    )


@pytest.fixture(scope="module")
def trained(make_pretraining_job, tmp_path_factory):
    """The job of a run that is finished, and its scores."""
    done = make_pretraining_job(tmp_path_factory.mktemp("trained") / "run")
    return done, run(done)


def test_the_log_has_steps_and_evaluations_in_order(trained):
    lines = runs.lines_of(trained[0].output_dir)

    kinds = [(line["step"], "loss" in line) for line in lines]
    assert kinds == [
        (0, False),
        (2, True),
        (3, False),
        (4, True),
        (6, True),
        (6, False),
    ]
    assert set(lines[1]) == {
        "step",
        "loss",
        "masked_lm_loss",
        "sentence_order_loss",
        "learning_rate",
        "gradient_norm",
    }
    assert set(lines[0]) == {"step", *(f"eval_{name}" for name in SCORES)}


def test_a_finished_run_gives_the_scores_of_its_best_evaluation_again(
    trained, caplog
):
    done, scores = trained
    lines = runs.lines_of(done.output_dir)
    caplog.set_level("INFO")

    assert run(done) == scores
    assert "Training is finished after 6 steps." in caplog.text
    assert "Using the weights of " in caplog.text
    assert runs.lines_of(done.output_dir) == lines
    evaluations = {
        line["step"]: line["eval_masked_lm_loss"]
        for line in lines
        if "loss" not in line
    }
    assert scores["masked_lm_loss"] == min(evaluations.values())
    assert evaluations[scores["global_step"]] == scores["masked_lm_loss"]


# `tests/cli` has a quicker one, of runs that are killed.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "read_order"),
    [("one", "records"), ("mirrored", "records"), ("mirrored", "files")],
)
def test_a_stopped_run_resumes_to_the_same_bits(
    strategy, read_order, job, stop_at, deterministic, monkeypatch
):
    # Those that are killed have none.
    monkeypatch.setattr(fusion, "SMALLEST_SIZE", 0)
    options = {
        "albert_config": runs.config(dropout=0.1),
        "gradient_accumulation_steps": 2,
        "strategy": strategy,
        "read_order": read_order,
        "deterministic": True,
    }
    whole, stopped = job("whole", **options), job("stopped", **options)
    scores = run(whole)
    stop_at(4)
    assert run(stopped) is None
    assert not os.path.exists(
        os.path.join(stopped.output_dir, "eval_results.json")
    )

    assert run(stopped) == scores
    assert runs.lines_of(stopped.output_dir) == runs.lines_of(whole.output_dir)
    one, other = (
        runs.arrays_of(x.output_dir, NUM_STEPS) for x in (stopped, whole)
    )
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


# `tests/data/test_graph_reading.py` has the records and their order.
def test_remote_records_are_read(trained, job):
    done, _ = trained
    remote = job(
        read_order="files",
        input_file=f"file://{done.input_file}",
        eval_file=f"file://{done.eval_file}",
        num_train_steps=1,
    )

    run(remote)

    ours, theirs = (runs.lines_of(x.output_dir)[0] for x in (remote, done))
    assert ours == pytest.approx(theirs, rel=1e-5)


def folder_of(config, strategy=None):
    """The output directory of a run, as far as it does not need records."""
    strategy = strategy or tf.distribute.get_strategy()
    records = pretrain._open_records(config)
    return pretrain._output_folder(config, *records, strategy)


def claim(config):
    """Leaves the directory of a run that is stopped before its first step."""
    folder = folder_of(config)
    with folder.locked():
        folder.claim(config)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"read_order": "records"}, "read_order='files' .now 'records'"),
        ({}, "num_readers=1 .now 2"),
    ],
)
def test_another_order_is_another_run(changes, words, job, monkeypatch):
    config = job(read_order="files", do_eval=False)
    claim(config)
    monkeypatch.setattr(strategies, "num_input_pipelines", lambda _: 2)

    with pytest.raises(ValueError, match=words):
        run(dataclasses.replace(config, **changes))


def test_two_replicas_give_what_one_gives(trained, job):
    two = job(strategy="mirrored", num_train_steps=2)

    run(two)

    # An evaluation, and the losses of two steps.
    ours, theirs = (runs.lines_of(x.output_dir)[:2] for x in (two, trained[0]))
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param(
            {"recompute": True, "strategy": "mirrored"}, marks=pytest.mark.slow
        ),
    ],
)
def test_sequences_that_share_rows_give_the_scores_of_a_run(
    options, trained, job
):
    _, scores = trained

    packed = job(pack=True, gradient_accumulation_steps=2, **options)

    assert run(packed) == pytest.approx(scores, rel=1e-4)


@pytest.mark.parametrize(
    ("objective", "name"), [("mlm", "masked_lm"), ("sop", "sentence_order")]
)
def test_one_objective_alone_goes_on_from_both(objective, name, trained, job):
    done, _ = trained
    start = os.path.join(done.output_dir, "best")
    one = job(objectives=[objective], num_train_steps=2, init_checkpoint=start)

    scores = run(one)

    assert set(scores) == {f"{name}_loss", f"{name}_accuracy", "global_step"}
    log = runs.lines_of(one.output_dir)[1]
    assert log["loss"] == log[f"{name}_loss"]


def test_training_starts_from_the_weights_of_a_checkpoint(trained, job):
    done, _ = trained
    start = os.path.join(done.output_dir, "checkpoints", "step-00000003")
    again = job(init_checkpoint=start, num_train_steps=1, do_eval=False)

    run(again)

    first = runs.arrays_of(again.output_dir, 0)
    for name, array in runs.arrays_of(done.output_dir, 3).items():
        # Slots and step start anew.
        is_state = name.endswith(("/adam_m", "/adam_v", "global_step"))
        wanted = np.zeros_like(array) if is_state else array
        np.testing.assert_array_equal(first[name], wanted, err_msg=name)
    tokenizer = shards.read(done.input_file).tokenizer_hash
    for path in (again.output_dir, start):
        assert discovery.open(path).metadata.tokenizer_hash == tokenizer


def test_every_group_may_start_from_the_first(trained, job):
    done, _ = trained
    grouped = job(
        albert_config=runs.config(num_hidden_groups=2),
        init_checkpoint=os.path.join(done.output_dir, "best"),
        init_from_group0=True,
        num_train_steps=1,
        do_eval=False,
    )

    run(grouped)

    first = runs.arrays_of(grouped.output_dir, 0)
    seconds = [name for name in first if "/group_1/" in name]
    assert seconds
    for name in seconds:
        same = first[name.replace("/group_1/", "/group_0/")]
        np.testing.assert_array_equal(first[name], same)


def test_a_head_may_start_anew(job):
    shortest = {"num_train_steps": 1, "do_eval": False}
    one = job(objectives=("mlm",), **shortest)
    run(one)
    start = os.path.join(one.output_dir, "checkpoints", "step-00000001")
    both = job("both", init_checkpoint=start, **shortest)

    with pytest.raises(
        ValueError, match="cls/seq_relationship.*is missing.*--allow_new_heads"
    ):
        run(both)
    run(dataclasses.replace(both, allow_new_heads=True))

    first = runs.arrays_of(both.output_dir, 0)
    kernel = "bert/pooler/dense/kernel"
    given = runs.arrays_of(one.output_dir, 1)
    np.testing.assert_array_equal(first[kernel], given[kernel])
    assert first["cls/seq_relationship/output_weights"].any()


def test_a_checkpoint_can_be_evaluated_alone(trained, job, caplog):
    done, scores = trained
    alone = job(
        do_train=False,
        init_checkpoint=os.path.join(done.output_dir, "best"),
        train_batch_size=4096,
    )

    assert run(alone) == scores
    names = ["eval_results.json", "report.html"]
    assert sorted(os.listdir(alone.output_dir)) == names
    caplog.set_level("INFO")
    part = dataclasses.replace(alone, max_eval_steps=1)
    assert run(part) != scores
    assert "use the first 4 of 10 records" in caplog.text


def test_the_best_of_a_folder_can_be_evaluated_alone(trained):
    done, scores = trained
    alone = dataclasses.replace(done, do_train=False, flags_text="--do_eval\n")

    assert run(alone) == scores
    with open(os.path.join(done.output_dir, "flags.txt")) as file:
        assert file.read() == done.flags_text
    other = dataclasses.replace(
        alone, albert_config=runs.config(hidden_act="relu")
    )
    with pytest.raises(ValueError, match="another run, with config.hidden_act"):
        run(other)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Paths of records: their pairs, and another vocabulary."""
    return {
        name: runs.build_records(
            tmp_path_factory.mktemp("records"),
            num_documents=10,
            seed=0,
            **changes,
        )
        for name, changes in {
            "single": {"pair_objective": "none"},
            "next": {"pair_objective": "nsp"},
            "cased": {"do_lower_case": False},
            "marked": {"new_tokens": "[E1],Neu", "keep_accents": True},
        }.items()
    }


NOT_SOP = "Sentence order is learnt from records with pairs of one kind"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_file": "single"}, f"{NOT_SOP}, but .*=none"),
        ({"eval_file": "single", "objectives": ("sop",)}, f"{NOT_SOP}, but "),
        ({"input_file": "next"}, f"{NOT_SOP}, but .*=nsp, sop"),
        ({"eval_file": "cased"}, "made with different tokenizers"),
        (
            {"input_file": "cased", "eval_file": "cased"},
            "trained with another vocabulary",
        ),
        (
            {"do_train": False, "eval_file": "cased"},
            "trained with another vocabulary",
        ),
        ({"ngram": 1}, "`ngram` cannot be 1 .* 3.*dynamic"),
        (
            {"strategy": "mirrored", "train_batch_size": 7},
            r"`train_batch_size` must be a multiple of 2, .*=7",
        ),
        ({"input_file": ""}, "`input_file` must be given"),
    ],
)
def test_records_and_settings_that_do_not_fit_are_refused(
    changes, words, trained, job, records
):
    files = {
        k: records.get(v, v) for k, v in changes.items() if k[-5:] == "_file"
    }
    one = job(init_checkpoint=trained[0].output_dir, **changes | files)

    with pytest.raises(ValueError, match=words):
        run(one)
    assert not os.path.exists(one.output_dir)


def test_new_tokens_and_accents_of_records_are_kept_by_the_run(
    trained, job, records
):
    files = {f: records["marked"] for f in ("input_file", "eval_file")}
    one = job(
        init_checkpoint=trained[0].output_dir,
        new_tokens="[E1],Neu",
        albert_config=runs.config(vocab_size=runs.V + 2),
        **files,
    )
    # The start was trained without accents.
    with pytest.raises(ValueError, match="trained with another vocabulary"):
        run(one)
    folder = pretrain._output_folder(
        one, *pretrain._open_records(one), tf.distribute.get_strategy()
    )
    train_records, _ = pretrain._open_records(one)
    vocabulary = pretrain._with_vocabulary(one, train_records).vocabulary

    again = dataclasses.replace(vocabulary, metadata=folder.metadata)

    ids = again.tokenizer.encode("w10[E1] neu")
    assert ids == [5, runs.V, runs.V + 1]
    assert again.tokenizer.settings.keep_accents
    assert vocabularies.as_trained(again) == again


@pytest.mark.parametrize(
    ("records_tokens", "new_tokens", "order"),
    [("a,b", "b,a", 1), (None, None, -1)],
)
def test_tokens_of_records_are_those_beside_the_start(
    records_tokens, new_tokens, order, job, tmp_path
):
    path = runs.build_records(
        tmp_path, num_documents=10, seed=0, new_tokens=records_tokens
    )
    first, *words = (tmp_path / "vocab.txt").read_text().split("\n")
    other = tmp_path / "other_vocab.txt"
    other.write_text("\n".join([first, *words[::order]]))
    start = str(tmp_path / "start")
    model = PretrainingTask(runs.config()).model
    exported_models.write_checkpoint(start, model, vocabulary=str(other))
    vocab_size = runs.V + 2 * bool(new_tokens)

    with pytest.raises(ValueError, match="has other tokens than .*start"):
        run(
            job(
                init_checkpoint=start,
                new_tokens=new_tokens,
                input_file=path,
                do_eval=False,
                eval_file="",
                albert_config=runs.config(vocab_size=vocab_size),
            )
        )


@pytest.mark.parametrize(
    ("name", "changes"), [("single", {"objectives": ("mlm",)}), ("next", {})]
)
def test_other_pairs_are_learnt(name, changes, job, records):
    one = job(input_file=records[name], eval_file=records[name], **changes)

    pretrain._check_records(one, *pretrain._open_records(one))


def test_other_records_to_evaluate_are_another_run(trained):
    done, _ = trained
    changed = dataclasses.replace(done, eval_file=done.input_file)

    with pytest.raises(ValueError, match="another run, with eval_records="):
        run(changed)
    assert run(dataclasses.replace(done, do_eval=False)) == {}


def evaluate(task, batches):
    scores_of = pretrain.evaluator(task, tf.distribute.get_strategy(), batches)
    scores = scores_of()
    assert scores_of() == scores  # nothing is left over
    return scores.flat()


def test_scores_equal_the_recorded_ones_however_the_set_is_cut(shared_data):
    folder = shared_data / "golden" / "model_base"
    task = PretrainingTask(
        AlbertConfig.from_json_file(folder / "albert_config.json")
    )
    load.load_checkpoint(task.model, folder)
    arrays = np.load(folder / "golden.npz")
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    names += ("masked_lm_ids", "masked_lm_weights", "sentence_order_labels")
    rows = tf.data.Dataset.from_tensor_slices({n: arrays[n] for n in names})
    wanted = {
        name: pytest.approx(float(arrays[f"eval/{name}"]), rel=1e-5)
        for name in SCORES
    }

    # The three sequences have 5, 3 and 1 targets.
    for batch_size in (3, 2, 1):
        assert evaluate(task, rows.batch(batch_size)) == wanted


def test_evaluations_have_no_dropout():
    rows = {name: values[0] for name, values in runs.batches(1).items()}
    batches = tf.data.Dataset.from_tensor_slices(rows).batch(4)

    without, with_dropout = (
        evaluate(PretrainingTask(runs.config(dropout=rate)), batches)
        for rate in (0.0, 0.5)
    )

    assert with_dropout == without


@pytest.fixture
def dynamic_job(job, tmp_path):
    """Like `job`, of records whose masks are drawn when they are read."""
    records = runs.build_records(
        tmp_path, num_documents=10, seed=3, masking="dynamic"
    )
    settings = {"input_file": records, "num_train_steps": 2, "do_eval": False}
    return lambda name="run", **changes: job(name, **settings | changes)


def test_the_masks_of_a_run_are_part_of_what_it_is(dynamic_job):
    one = dynamic_job()
    claim(one)
    named = dynamic_job(max_predictions_per_seq=runs.P, ngram=3)
    folder_of(named).check()  # The same masks, so the same run.

    with pytest.raises(ValueError, match=r"masks.16.ngram=3 \(now 1\)"):
        run(dataclasses.replace(one, ngram=1))


def test_the_masks_of_an_evaluation_are_part_of_a_run(job, tmp_path):
    held_out = runs.build_records(
        tmp_path,
        num_documents=5,
        seed=4,
        masking="dynamic",
        max_predictions_per_seq=runs.P - 1,
    )
    one = job(eval_file=held_out)
    claim(one)

    # Static records to train on have these masks, those to evaluate on not.
    with pytest.raises(ValueError, match="another run, with eval_records="):
        run(dataclasses.replace(one, max_predictions_per_seq=runs.P))


@pytest.mark.parametrize(
    ("max_predictions", "is_low"), [(None, False), (1, True)]
)
def test_the_share_of_masked_tokens_is_logged(
    dynamic_job, caplog, max_predictions, is_low
):
    caplog.set_level("INFO")

    folder_of(dynamic_job(max_predictions_per_seq=max_predictions))

    assert "% of the tokens masked" in caplog.text
    assert ("although masked_lm_prob is 0.15" in caplog.text) == is_low


def test_records_of_a_larger_vocabulary_are_refused(job, tmp_path):
    path = runs.build_records(tmp_path, num_documents=10, seed=5)
    os.remove(f"{path}.json")
    small = job(albert_config=runs.config(vocab_size=30), input_file=path)

    with pytest.raises(
        ValueError, match=r"5.tfrecord', .*token id \d+, but .*vocab_size=30"
    ):
        run(small)


def flip_a_bit(path, place):
    with open(path, "r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"strategy": "mirrored"}, marks=pytest.mark.slow)],
)
def test_a_file_that_is_damaged_during_a_run_stops_it(
    job, tmp_path, monkeypatch, options
):
    path = runs.build_records(tmp_path, num_documents=2, seed=6)
    write = metric_log.MetricLog.on_log

    def write_and_damage(log, step, values):
        write(log, step, values)
        if step == 2:
            flip_a_bit(path, 40)

    monkeypatch.setattr(metric_log.MetricLog, "on_log", write_and_damage)
    endless = job(
        input_file=path, num_train_steps=3000, do_eval=False, **options
    )
    endless = dataclasses.replace(endless, save_checkpoints_steps=3000)

    with pytest.raises(ValueError, match="^'.*2-6.tfrecord' .*record 0, at"):
        run(endless)


def test_damage_is_found_before_the_first_step(job, tmp_path):
    path = runs.build_records(tmp_path, num_documents=150, seed=7)
    flip_a_bit(path, os.path.getsize(path) - 5 - 400)
    damaged = job(input_file=path, do_eval=False, verify_records=True)

    with pytest.raises(ValueError, match="150-7.tfrecord' is damaged"):
        run(damaged)
    assert not os.path.exists(damaged.output_dir)


@pytest.fixture
def phased(job, tmp_path):
    """A function that makes a run whose depth, length and batch size grow."""
    build = functools.partial(
        runs.build_records, tmp_path, num_documents=10, masking="dynamic"
    )
    long = build(seed=2)
    short = build(seed=3, max_seq_length=8, max_predictions_per_seq=2)

    def make(name, **changes):
        return job(
            name,
            **{
                "albert_config": runs.config(dropout=0.1),
                "input_file": f"{short},{long}",
                "depth_schedule": "1@0,2@4",
                "length_schedule": "8@0,16@2",
                "batch_schedule": "4@0,12@1,8@4",
                "mask_schedule": "0.3@0,0.15@4",
                "log_steps": 1,
            }
            | changes,
        )

    return make


def test_the_examples_of_a_length_are_read_in_order_by_all_phases(
    phased, monkeypatch
):
    found = []
    make = input_pipeline.training_dataset

    def note(source, *arguments, **options):
        settings = source.shard.settings
        found.append(
            (
                settings.max_seq_length,
                settings.masked_lm_prob,
                options["start_example"],
                options["global_batch_size"],
            )
        )
        return make(source, *arguments, **options)

    monkeypatch.setattr(input_pipeline, "training_dataset", note)

    run(
        phased(
            "run",
            depth_schedule="",
            batch_schedule="4@0,8@1",
            mask_schedule="0.3@0,0.15@2",
            num_train_steps=3,
            do_eval=False,
        )
    )

    assert found == [(8, 0.3, 0, 4), (8, 0.3, 4, 8), (16, 0.15, 0, 8)]


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("depth_schedule", "1@0,2@3"),
        ("batch_schedule", ""),
        ("length_schedule", "8@0,16@3"),
        ("mask_schedule", ""),
    ],
)
def test_another_schedule_is_another_run(name, schedule, phased):
    one = phased("run", do_eval=False)
    claim(one)

    with pytest.raises(ValueError, match=f"with {name}='.*' .now '{schedule}'"):
        run(dataclasses.replace(one, **{name: schedule}))


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("", r"lengths .*8 \(.*; the phases read 16\."),
        ("4@0,8@1,16@2", "the phases read 4, 8, 16"),
    ],
)
def test_records_of_all_lengths_are_checked(schedule, words, phased):
    with pytest.raises(ValueError, match=words):
        run(phased("run", length_schedule=schedule))
