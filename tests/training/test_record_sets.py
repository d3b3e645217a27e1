"""The records of a run."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.devices import strategies
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.task_data import ExampleSet, TaskData
from albert_tf.training import record_sets
from tests.training import runs


@pytest.fixture
def small(job):
    """A job with 5 training and 3 evaluation examples."""
    one = job(train=runs.example_set(5))
    return one.replace(evaluation=(runs.example_set(3),))


def make_sets(job):
    return record_sets.make_sets(job.config, job.sets)


def test_records_are_made_except_those_that_are_only_predicted(small):
    extra = runs.example_set(4, name="ax")

    sets = make_sets(small.replace(prediction=(*small.sets.evaluation, extra)))

    assert sets.train.columns.num_records == 5
    assert [one.columns.num_records for one in sets.evaluation] == [3]
    assert sets.prediction[0] is sets.evaluation[0]
    assert sets.prediction[1] is extra
    # Workers compare them.
    found = record_sets.fingerprints(sets)
    assert found["predict"] == [3, 4]
    other = make_sets(small.replace(train=runs.example_set(5, seed=9)))
    assert record_sets.fingerprints(other)["train"] != found["train"]
    assert record_sets.fingerprints(other)["eval"] == found["eval"]


def test_the_share_of_the_records_that_a_run_sees_is_logged(job, caplog):
    caplog.set_level("INFO")

    make_sets(
        job(train=runs.example_set(10), num_train_steps=2, train_batch_size=3)
    )

    assert "have 10 records; 2 steps of 3 see each 0.6 times" in caplog.text


def test_records_that_are_trained_on_and_evaluated_are_counted(job, caplog):
    one = job(train=runs.example_set(5))
    make_sets(one.replace(evaluation=(runs.example_set(5, seed=9),)))
    assert not caplog.messages

    [seen] = make_sets(
        one.replace(evaluation=(runs.example_set(3),))
    ).evaluation

    assert "3 of the 3 records to evaluate are also trained on" in caplog.text
    assert seen.caution in caplog.text


def test_an_evaluation_of_all_rows_trained_on_says_so_later(job):
    one = job(train=runs.example_set(5), evaluation=(runs.example_set(5),))
    with record_sets.folder_of(one.config, make_sets(one)).locked() as _:
        record_sets.folder_of(one.config, make_sets(one)).claim(one.config)

    [seen] = make_sets(one.replace(train=None)).evaluation
    [others] = make_sets(
        one.replace(train=None, evaluation=(runs.example_set(4),))
    ).evaluation

    assert "5 of the 5" in seen.caution
    assert not others.caution


def test_a_table_of_another_script_is_said_to_be_unknown(
    job, caplog, monkeypatch
):
    some = runs.example_set(5)
    ids = np.concatenate([example.tokens for example in some.examples])
    special = dataclasses.replace(
        some.data.tokenizer.special_ids, unk=np.bincount(ids).argmax()
    )
    monkeypatch.setattr(some.data.tokenizer, "special_ids", special)
    share = np.mean(ids[ids > 0] == special.unk)
    assert share > 0.1

    make_sets(job(train=some))

    assert f"{share:.0%} of the tokens of the training examples" in caplog.text


def test_examples_without_records_are_an_error(small):
    empty = runs.example_set(0)

    with pytest.raises(ValueError, match="The examples give no record"):
        make_sets(small.replace(evaluation=(empty,)))


@pytest.mark.parametrize(
    ("device", "jit_compile", "length", "expected"),
    [
        ("CPU", False, 50, None),
        ("CPU", True, 512, 64),
        ("GPU", False, 50, 8),
        ("GPU", True, 50, 64),
        ("TPU", False, 50, 50),
    ],
)
def test_batches_are_padded_to_buckets_or_on_a_tpu_to_one_length(
    device, jit_compile, length, expected, job, monkeypatch
):
    monkeypatch.setattr(strategies, "device_type", lambda _: device)
    config = job(
        albert_config=runs.config(max_position_embeddings=512),
        max_seq_length=length,
        jit_compile=jit_compile,
    ).config

    padding = record_sets.padding_for(config, tf.distribute.get_strategy())

    assert padding.bucket_width == expected
    assert padding.max_seq_length == length
    assert padding.is_compiled == jit_compile
    is_static = expected is not None and expected >= length
    assert padding.static_length == (length if is_static else None)


def test_each_seed_has_an_order_of_its_own(small):
    config, strategy = small.config, tf.distribute.get_strategy()
    train = make_sets(small).train

    def first_batches(seed):
        found = record_sets.training_batches(
            dataclasses.replace(config, random_seed=seed),
            train,
            strategy,
            record_sets.padding_for(config, strategy),
            *config.phases,
            position=0,
        )
        return [one["input_ids"].numpy().tolist() for one in found.take(3)]

    assert first_batches(1) == first_batches(1) != first_batches(2)


def test_a_sample_is_some_of_the_records_and_always_the_same(job, monkeypatch):
    records = make_sets(job(train=runs.example_set(20))).train
    everything = record_sets.sample(records)
    assert everything.columns.digest == records.columns.digest

    monkeypatch.setattr(record_sets, "SAMPLE_SIZE", 7)
    part = record_sets.sample(records).columns

    def rows(columns):
        return {
            tuple(columns.padded([i], runs.S)["input_ids"][0])
            for i in range(columns.num_records)
        }

    assert part.num_records == 7
    assert rows(part) <= rows(records.columns)
    again = record_sets.sample(records).columns
    assert again.digest == part.digest


def test_answers_that_no_record_holds_are_part_of_what_is_evaluated(small):
    [evaluated] = make_sets(small).evaluation
    changed = [*evaluated.examples[:-1], ("another answer",)]
    other = dataclasses.replace(evaluated, examples=changed)

    assert other.columns.digest == evaluated.columns.digest
    assert other.digest != evaluated.digest
    assert make_sets(small).evaluation[0].digest == evaluated.digest


def test_folds_follow_from_texts_and_share_every_label():
    rows = [
        ClassificationExample(guid=str(i), text_a=f"text {i}", label=i % 5 == 0)
        for i in range(40)
    ]

    def fold_numbers(examples, **data):
        data = types.SimpleNamespace(
            has_folds=data.get("has_folds", True),
            texts_of=TaskData.texts_of,
        )
        examples = ExampleSet(examples=examples, data=data)
        return record_sets.fold_numbers(examples, 4)

    folds = fold_numbers(rows)

    assert np.bincount(folds[::5]).tolist() == [2] * 4
    assert np.bincount(folds).tolist() == [10] * 4
    renamed = [dataclasses.replace(row, guid="x") for row in rows]
    again = fold_numbers(renamed[::-1])
    np.testing.assert_array_equal(again[::-1], folds)
    # As those of SQuAD, whose answers are spans.
    with pytest.raises(ValueError, match="not for this task"):
        fold_numbers(rows, has_folds=False)


def test_an_evaluation_is_described_with_what_makes_it_doubtful():
    entries = [
        Score("accuracy", 0.5),
        Score.of_label("number", "ham", 4),
        Score.of_label("number", "spam", 0),
        Score.of_label("f1", "ham", 0),
        Score.of_label("f1", "spam", 0),
        Score("f1_macro", 0),
    ]
    data = types.SimpleNamespace(
        primary_metric="accuracy", is_regression=False, goal=""
    )
    evaluated = record_sets.RecordSet(
        data=data,
        examples=range(4),
        columns=None,
        caution="All are trained on.",
    )

    scores = Scores(entries=tuple(entries), step=7)
    facts = record_sets.describe(evaluated, scores, "rows.tsv")

    names = ("data", "examples", "step")
    assert [facts[name] for name in names] == ["rows.tsv", 4, 7]
    assert facts["cautions"] == [
        "All are trained on.",
        "None of the examples has the label 'spam'.",
        "No example of the label 'ham' is recognised (f1 0). "
        "--best_metric=f1_macro chooses weights by the mean over all labels.",
    ]
    assert facts["scores"]["accuracy"] == 0.5
