import pytest

from albert_tf.data import record_source, shard_sets
from albert_tf.data.sidecar import BuildCounts
from tests.data.records import make_sidecar, static_record


def names(number, stem="train"):
    return [f"{stem}-{i:05}-of-{number:05}" for i in range(number)]


def test_all_shards_of_one_build_are_fine(caplog):
    shard_sets.check(dict.fromkeys(names(3), make_sidecar()))
    # Other files need have nothing in common, nor files without a sidecar.
    shard_sets.check({"a": make_sidecar(), "b": make_sidecar(ngram=1)})
    first, second = names(2)
    shard_sets.check({first: make_sidecar(), second: None})
    shard_sets.check(
        dict.fromkeys(names(2), make_sidecar())
        | dict.fromkeys(names(2, "other"), make_sidecar(ngram=1))
    )

    assert not caplog.text


def test_missing_shards_are_warned_of(caplog):
    shard_sets.check(dict.fromkeys(names(3)[1:], make_sidecar()))

    assert "2 of the 3 shards of 'train@3' are read" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ngram": 1}, "ngram is 3 and 1"),
        ({"corpus_sha256": "b"}, "corpus_sha256 is None and 'b'"),
    ],
)
def test_shards_of_different_builds_are_refused(changes, message):
    first, second, third = names(3)
    facts = {first: make_sidecar(), second: make_sidecar()}

    with pytest.raises(ValueError, match=f"00002-of.*builds: {message}"):
        shard_sets.check({**facts, third: make_sidecar(**changes)})


def test_a_shard_without_a_record_must_be_of_the_same_build(write_records):
    record = {"pair_ids": [5, 6], "segment_a_length": [1]}
    first, second = names(2)
    path = write_records(first, [record], corpus_sha256="a")
    write_records(second, [], corpus_sha256="b")

    with pytest.raises(ValueError, match="corpus_sha256 is 'a' and 'b'"):
        record_source.open_records(path.replace("-00000-", "-0000?-"))


def build(blocks, part=(0, 1), records=3, **changes):
    return make_sidecar(
        blocks=list(blocks),
        part=list(part),
        counts=BuildCounts(records=records),
        **{"corpus_sha256": "a"} | changes,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (build([0, 4]), build([3, 5])),
        (build([2, 3]), build([0, 9])),
        (build([3, 4], (0, 2)), build([0, 5])),
        (build([3, 4], (0, 2)), build([3, 4], (2, 3))),
    ],
)
def test_files_with_records_of_the_same_text_are_warned_of(one, other, caplog):
    shard_sets.check({"train-0": one, "old-0": other, "x": build([20, 30])})

    assert caplog.text.count("same records") == 1
    assert "'train-0'" in caplog.text
    assert "'old-0'" in caplog.text


def test_parts_of_one_build_have_no_text_in_common(caplog):
    files = [
        *(build([0, 2]), build([2, 3], (0, 2)), build([2, 3], (1, 2))),
        *(build([3, 9]), build([0, 9], corpus_sha256="b")),
        *(build([0, 9], random_seed=1), build([0, 9], tokenizer_hash="b")),
        *(build([0, 9], records=0), build([0, 9], corpus_sha256=None)),
    ]

    shard_sets.check({str(i): facts for i, facts in enumerate(files)})

    assert not caplog.text


@pytest.mark.parametrize(
    ("evaluated", "is_common"),
    [
        (build([8, 9]), True),
        # The same text, in other records.
        (build([0, 9], random_seed=1), True),
        (build([9, 10], (0, 2)), False),
        (build([0, 9], corpus_sha256="b"), False),
        (build([0, 9], corpus_sha256=None), False),
    ],
)
def test_text_to_evaluate_on_that_is_trained_on_is_warned_of(
    evaluated, is_common, caplog
):
    trained = {"x": None, "train": build([0, 9], sha256="c")}

    shard_sets.report_common_text(trained, {"y": None, "eval": evaluated})

    message = "1 of 2 files to evaluate on hold text that is also trained on, "
    message += "such as 'eval' some of that of 'train', so"
    assert (message in caplog.text) == is_common


def test_parts_of_a_block_have_text_in_common_if_it_was_copied(caplog):
    for number, is_common in ((1, False), (2, True)):
        shard_sets.report_common_text(
            {"train": build([0, 1], (0, 2), dupe_factor=number)},
            {"eval": build([0, 1], (1, 2), dupe_factor=number, sha256="c")},
        )
        assert ("also trained on" in caplog.text) == is_common


def test_the_same_file_is_reported_elsewhere(caplog):
    same = {"train": build([0, 1])}

    shard_sets.report_common_text(same, same)

    assert not caplog.text


def test_the_text_of_two_sources_is_compared(write_records, caplog):
    train, evaluated = (
        record_source.open_records(
            write_records(name, [static_record(number)], corpus_sha256="a")
        )
        for name, number in (("train", 20), ("eval", 30))
    )

    record_source.report_common_files(train, evaluated)

    assert "also trained on" in caplog.text


def test_opening_records_checks_their_shards(write_records):
    record = {"pair_ids": [5, 6], "segment_a_length": [1]}
    first, second = names(2)
    write_records(first, [record])
    path = write_records(second, [record], random_seed=3)

    with pytest.raises(ValueError, match="random_seed is 12345 and 3"):
        record_source.open_records(path.replace("-00001-", "-0000?-"))
