import os
import pathlib
import shutil

import numpy as np
import pytest

from albert_tf.data import inspect, record_files, record_index, record_source
from albert_tf.data.sidecar import BuildCounts
from tests.data.records import dynamic_record, static_record


def _numbers(source, indices):
    records = source.get(np.array(indices))
    return [
        int(record_files.decode_example(r)["input_ids"][1]) for r in records
    ]


@pytest.fixture
def two_files(write_records):
    return [
        write_records("a.tf_record", [static_record(n) for n in (20, 21, 22)]),
        write_records("b.tf_record", [static_record(n) for n in (30, 31)]),
    ]


def test_files_are_one_source_with_the_layout_of_their_sidecars(two_files):
    source = record_source.open_records(two_files)

    assert source.num_records == 5
    assert _numbers(source, [4, 0, 3, 2, 2]) == [31, 20, 30, 22, 22]
    assert source.layout == record_source.RecordLayout(
        masking="static",
        max_seq_length=8,
        num_prediction_slots=2,
        pair_objective="sop",
        tokenizer_hash="abc",
        vocab_size=100,
        token_boundary=True,
    )


def test_sidecars_and_unfinished_files_in_a_glob_are_left_out(
    two_files, tmp_path
):
    (tmp_path / "c.tf_record.partial").write_bytes(b"half")

    source = record_source.open_records(str(tmp_path / "*"))

    assert _numbers(source, range(5)) == [20, 21, 22, 30, 31]


def test_a_file_without_records_is_passed_over_and_named(
    write_records, two_files, caplog
):
    empty = write_records("empty.tf_record", [])

    source = record_source.open_records([empty, *two_files])

    assert "empty.tf_record' has no record" in caplog.text
    assert _numbers(source, [0]) == [20]


def test_the_fingerprint_tells_other_content_and_another_order(
    write_records, two_files
):
    def fingerprint(paths):
        return record_source.open_records(paths).fingerprint

    before = fingerprint(two_files)
    assert before == fingerprint(",".join(two_files))
    assert before != fingerprint(two_files[::-1])

    write_records("b.tf_record", [static_record(n) for n in (30, 32)])
    assert before != fingerprint(two_files)


def test_without_sidecars_the_fingerprint_tells_other_records(write_records):
    def fingerprint(numbers):
        path = write_records(
            "a.tf_record", map(static_record, numbers), with_sidecar=False
        )
        return record_source.open_records(path).fingerprint

    assert fingerprint([1, 2]) == fingerprint([1, 2])
    assert fingerprint([1, 2]) != fingerprint([1, 2, 3])
    assert fingerprint([1, 2]) != fingerprint([1, 3])


def test_a_record_that_does_not_exist_is_refused(two_files):
    source = record_source.open_records(two_files)

    for index in (-1, 5):
        with pytest.raises(IndexError, match=f"no record {index}.*has 5"):
            source.get([index])


@pytest.mark.parametrize(
    ("change", "problem"), [(-9, "was cut short"), (4, "is too long")]
)
def test_a_file_of_another_size_is_named_with_both_sizes(
    two_files, change, problem
):
    size = os.path.getsize(two_files[1])
    os.truncate(two_files[1], size + change)

    with pytest.raises(
        ValueError,
        match=f"b.tf_record' {problem}.* {size + change} bytes.*says {size}",
    ):
        record_source.open_records(two_files)


def test_a_wrong_count_is_refused(write_records):
    path = write_records(
        "a.tf_record", [static_record(9)], counts=BuildCounts(records=2)
    )

    with pytest.raises(ValueError, match="has 1 records.*says 2"):
        record_source.open_records(path)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("masking", {"masking": "dynamic"}),
        ("max_seq_length", {"max_seq_length": 16}),
        ("num_prediction_slots", {"max_predictions_per_seq": 3}),
        ("pair_objective", {"pair_objective": "nsp"}),
        ("tokenizer_hash", {"tokenizer_hash": "def"}),
        ("vocab_size", {"vocab_size": 99}),
    ],
)
def test_files_that_differ_are_named_with_both_values(
    write_records, name, changes
):
    paths = [
        write_records("a.tf_record", [static_record(9)]),
        write_records("b.tf_record", [static_record(9)], **changes),
    ]

    (value,) = changes.values()
    with pytest.raises(
        ValueError,
        match=f"differ in `{name}`: .*a.tf_record.*b.tf_record' has {value!r}",
    ):
        record_source.open_records(paths)


def test_only_dynamic_files_must_agree_on_how_masks_are_drawn(write_records):
    def write(make, masking):
        return [
            write_records(
                f"{masking}{ngram}", [make(9)], masking=masking, ngram=ngram
            )
            for ngram in (1, 3)
        ]

    record_source.open_records(write(static_record, "static"))
    with pytest.raises(ValueError, match="differ in `ngram`"):
        record_source.open_records(write(dynamic_record, "dynamic"))


def test_other_sizes_than_the_caller_expects_are_refused(two_files):
    def open_with(**masks):
        return record_source.open_records(
            two_files, max_seq_length=8, mask_settings=masks
        )

    assert open_with(max_predictions_per_seq=2, ngram=None).num_records == 5
    assert open_with(ngram=3, masked_lm_prob=0.15).mask_settings == {}
    with pytest.raises(ValueError, match="`max_seq_length` is 8 in.*=512"):
        record_source.open_records(two_files, max_seq_length=512)
    for name, own, other in (
        ("max_predictions_per_seq", 2, 20),
        ("ngram", 3, 1),
        ("masked_lm_prob", 0.15, 0.2),
        ("do_whole_word_mask", True, False),
    ):
        with pytest.raises(
            ValueError, match=f"`{name}` is {own} in.*={other}.*'dynamic'"
        ):
            open_with(**{name: other})


def test_every_static_file_must_have_the_masks_that_are_chosen(write_records):
    paths = [
        write_records(f"a{ngram}", [static_record(9)], ngram=ngram)
        for ngram in (3, 1)
    ]
    without = write_records("b", [static_record(9)], with_sidecar=False)

    assert record_source.open_records([*paths, without]).num_records == 3
    with pytest.raises(ValueError, match="`ngram` is 1 in .*a1'.*ngram=3"):
        record_source.open_records(paths, mask_settings={"ngram": 3})
    with pytest.raises(ValueError, match="`ngram` cannot be chosen for.*b'"):
        record_source.open_records(
            [paths[0], without], mask_settings={"ngram": 3}
        )


def test_masks_of_records_that_say_nothing_of_them_cannot_be_chosen(
    write_records,
):
    path = write_records("a", [static_record(9)], with_sidecar=False)

    def open_with(**masks):
        return record_source.open_records(path, mask_settings=masks)

    assert open_with(max_predictions_per_seq=2).num_records == 1
    with pytest.raises(ValueError, match="`ngram` cannot be chosen for.*=1"):
        open_with(ngram=1)


def test_the_reader_chooses_the_masks_of_dynamic_records(write_records):
    paths = [
        write_records(
            f"a{ngram}", [dynamic_record(9)], masking="dynamic", ngram=ngram
        )
        for ngram in (1, 3)
    ]
    chosen = {"ngram": 2, "masked_lm_prob": 0.4, "max_predictions_per_seq": 4}

    source = record_source.open_records(paths, mask_settings=chosen)

    assert source.layout.num_prediction_slots == 4
    assert source.mask_settings == chosen | {
        "favor_shorter_ngram": True,
        "do_whole_word_mask": True,
    }
    with pytest.raises(ValueError, match="max_predictions_per_seq.*at most 5"):
        record_source.open_records(
            paths, mask_settings={"max_predictions_per_seq": 6}
        )


def test_a_sample_tells_the_share_of_masked_tokens_and_the_largest_id(
    write_records,
):
    static = record_source.open_records(
        write_records("a", [static_record(n) for n in range(9, 400)])
    )
    # Pairs of 5 tokens in rows of 8: round(8 * 0.4) = 3 of them.
    dynamic = record_source.open_records(
        write_records("b", [dynamic_record(70)] * 3, masking="dynamic"),
        mask_settings={"masked_lm_prob": 0.4, "max_predictions_per_seq": 5},
    )

    assert static.sample() == (1 / 6, 399)
    assert dynamic.sample() == (3 / 8, 70)


def test_every_file_is_verified_if_asked(write_records):
    paths = [
        write_records(name, [static_record(n) for n in range(600)])
        for name in "ab"
    ]
    record_source.open_records(paths, verify=True)
    size = 16 + len(record_files.RecordFile(paths[0]).get(0))
    for path, place, message in (
        # In record 1, of which an opening takes no notice.
        (paths[0], size + 30, "a' is damaged.*record 1, at byte"),
        # In the checksum of a length, which is not needed.
        (paths[1], size + 8, "b' is not the file that its sidecar describes"),
    ):
        content = bytearray(pathlib.Path(path).read_bytes())
        content[place] ^= 1
        pathlib.Path(path).write_bytes(content)

        record_source.open_records(path)
        with pytest.raises(ValueError, match=message):
            record_source.open_records(path, verify=True)


def test_a_damaged_index_is_found_when_files_are_verified(write_records):
    path = write_records("a", [static_record(n) for n in range(600)])
    index = pathlib.Path(record_index.index_path(path))
    content = bytearray(index.read_bytes())
    # Of record 1, of which an opening takes no notice.
    content[2 * record_index.ENTRY.size - 1] ^= 1
    index.write_bytes(content)

    record_source.open_records(path)
    with pytest.raises(ValueError, match=r"a\.index' is damaged.* Remove it"):
        record_source.open_records(path, verify=True)
    assert inspect.main([path, "--verify"]) == 1


def test_a_file_that_is_cut_short_after_it_was_opened_is_noticed(two_files):
    source = record_source.open_records(two_files)
    os.truncate(two_files[1], 0)

    assert _numbers(source, [0]) == [20]
    with pytest.raises(ValueError, match="b.tf_record' was cut short after"):
        source.get([0, 4])


def test_files_of_one_content_are_told(two_files, tmp_path, caplog):
    for suffix in ("", ".json"):
        shutil.copy(f"{two_files[0]}{suffix}", tmp_path / f"copy{suffix}")

    record_source.open_records([*two_files, str(tmp_path / "copy")])

    assert "copy' holds the same records as" in caplog.text


def test_permuted_records_are_expected_by_flag_or_by_slots(write_records):
    path = write_records(
        "a.tf_record",
        [static_record(9, num_slots=4)],
        do_permutation=True,
    )

    for expected in (2, 4):
        source = record_source.open_records(
            path, mask_settings={"max_predictions_per_seq": expected}
        )
        assert source.layout.num_prediction_slots == 4


def test_records_of_the_original_need_no_sidecar(write_records):
    path = write_records(
        "a.tf_record",
        [static_record(9, max_seq_length=11, num_slots=3)],
        with_sidecar=False,
    )

    source = record_source.open_records(path)

    assert source.sidecar is None
    assert source.layout == record_source.RecordLayout(
        masking="static", max_seq_length=11, num_prediction_slots=3
    )


def test_one_file_with_a_sidecar_speaks_for_those_without(write_records):
    paths = [
        write_records("a", [static_record(9)], with_sidecar=False),
        write_records("b", [static_record(9)]),
    ]

    assert record_source.open_records(paths).layout.vocab_size == 100


def test_other_records_without_a_sidecar_are_refused(write_records):
    short = static_record(9) | {"segment_ids": [0] * 7}
    for record, message in (
        (dynamic_record(9), "no sidecar.*'input_ids' has 0"),
        (short, "'segment_ids' has 7.*expected 8"),
    ):
        path = write_records("a", [record], with_sidecar=False)

        with pytest.raises(ValueError, match=message):
            record_source.open_records(path)


def test_no_record_at_all_is_refused(write_records, tmp_path):
    path = write_records("a.tf_record", [])

    for pattern, error, message in (
        (path, ValueError, "no record in .*a.tf_record"),
        (str(tmp_path / "*.json"), FileNotFoundError, "only sidecars"),
        (str(tmp_path / "none*"), FileNotFoundError, "No file matches"),
    ):
        with pytest.raises(error, match=message):
            record_source.open_records(pattern)
