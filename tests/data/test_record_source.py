import dataclasses
import pathlib
import shutil

import numpy as np
import pytest

from albert_tf.data import (
    example_codec,
    input_pipeline,
    record_files,
    record_source,
)
from albert_tf.data.example_order import InputShard
from albert_tf.data.shards import BuildCounts, Shard
from tests.data.records import (
    dynamic_record,
    make_shard,
    serialize,
    static_record,
)


def _numbers(source, indices):
    return [
        int(example_codec.decode_example(record)["input_ids"][1])
        for record in source.get(np.array(indices))
    ]


@pytest.fixture
def two_files(write_records):
    return [
        write_records("a.tf_record", [static_record(n) for n in (20, 21, 22)]),
        write_records("b.tf_record", [static_record(n) for n in (30, 31)]),
    ]


def test_files_are_one_source_that_their_sidecars_describe(two_files):
    source = record_source.open_records(two_files)

    assert source.num_records == 5
    assert _numbers(source, [4, 0, 3, 2, 2]) == [31, 20, 30, 22, 22]
    assert source.shard.path == two_files[0]
    assert source.shard.vocab_size == 100
    assert source.shard.settings.max_seq_length == 8
    assert source.shard.settings.pair_objective == "sop"


def test_sidecars_and_unfinished_files_in_a_glob_are_left_out(
    two_files, tmp_path
):
    (tmp_path / "c.tf_record.partial").write_bytes(b"half")

    source = record_source.open_records(str(tmp_path / "*"))

    assert _numbers(source, range(5)) == [20, 21, 22, 30, 31]


@pytest.mark.parametrize("with_sidecar", [True, False])
def test_a_file_without_records_is_passed_over(
    write_records, two_files, with_sidecar
):
    empty = write_records("empty.tf_record", [], with_sidecar=with_sidecar)

    source = record_source.open_records([empty, *two_files])

    assert _numbers(source, [0]) == [20]


@pytest.mark.parametrize("with_sidecar", [True, False])
def test_the_fingerprint_tells_other_content_and_another_order(
    write_records, with_sidecar
):
    def fingerprint(*files):
        paths = [
            write_records(
                str(number),
                map(static_record, records),
                with_sidecar=with_sidecar,
            )
            for number, records in enumerate(files)
        ]
        return record_source.open_records(paths).fingerprint

    before = fingerprint([1, 2], [3])
    assert before == fingerprint([1, 2], [3])
    for other in ([[3], [1, 2]], [[1, 2, 3], [3]], [[1, 3], [3]]):
        assert before != fingerprint(*other)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("masking", {"masking": "dynamic"}),
        ("max_seq_length", {"max_seq_length": 16}),
        ("num_prediction_slots", {"max_predictions_per_seq": 3}),
        ("pair_objective", {"pair_objective": "nsp"}),
        ("tokenizer_hash", {"tokenizer_hash": "def"}),
    ],
)
def test_files_that_differ_are_refused(write_records, name, changes):
    paths = [
        write_records("a.tf_record", [static_record(9)]),
        write_records("b.tf_record", [static_record(9)], **changes),
    ]

    (value,) = changes.values()
    message = rf"a.tf_record.*b.tf_record' differ: .*{name}=.*\(now {value!r}"
    with pytest.raises(ValueError, match=message):
        record_source.open_records(paths)


@pytest.fixture
def write_two(write_records):
    """A function that writes files whose spans have different laws."""
    return lambda make_record, masking: [
        write_records(
            f"{masking}{ngram}", [make_record(9)], masking=masking, ngram=ngram
        )
        for ngram in (1, 3)
    ]


def test_only_dynamic_files_must_agree_on_how_masks_are_drawn(write_two):
    record_source.open_records(write_two(static_record, "static"))
    with pytest.raises(ValueError, match="differ: ngram=1"):
        record_source.open_records(write_two(dynamic_record, "dynamic"))


def test_static_records_must_have_been_built_with_the_masks_asked_for(
    write_records, two_files
):
    def open_with(*paths, **masks):
        return record_source.open_records([*paths], mask_settings=masks)

    without = write_records("c", [static_record(9)], with_sidecar=False)
    asked = {"max_predictions_per_seq": 2}
    assert open_with(*two_files, without, **asked).shard.mask_settings == {}
    assert open_with(*two_files, masked_lm_prob=0.15).shard.mask_settings == {}
    for name, value, other in (
        ("max_predictions_per_seq", 2, 20),
        ("ngram", 3, 1),
        ("masked_lm_prob", 0.15, 0.2),
        ("do_whole_word_mask", True, False),
    ):
        message = f"`{name}` cannot be {other} .*, with {value}. "
        with pytest.raises(ValueError, match=message):
            open_with(*two_files, **{name: other})
    with pytest.raises(ValueError, match="cannot be 1 .* an unknown value"):
        open_with(without, ngram=1)
    with pytest.raises(ValueError, match="cannot be 3 for .*c'.* an unknown"):
        open_with(*two_files, without, ngram=3)


def test_the_reader_chooses_the_masks_of_dynamic_records(write_two):
    paths = write_two(dynamic_record, "dynamic")
    chosen = {"ngram": 2, "masked_lm_prob": 0.4, "max_predictions_per_seq": 4}

    source = record_source.open_records(paths, mask_settings=chosen)

    assert source.shard.settings.num_prediction_slots == 4
    assert source.shard.mask_settings == chosen | {
        "favor_shorter_ngram": True,
        "do_whole_word_mask": True,
    }
    with pytest.raises(ValueError, match="max_predictions_per_seq.*at most 5"):
        record_source.open_records(
            paths, mask_settings={"max_predictions_per_seq": 6}
        )


def test_slots_follow_the_share_of_masks(write_records, two_files):
    path = write_records("a", [dynamic_record(9)], masking="dynamic")
    masks = {"masked_lm_prob": 0.2, "max_predictions_per_seq": 2}
    source = record_source.open_records(path, mask_settings=masks)

    assert source.with_mask_rate(None) is source
    for share, slots in ((0.2, 2), (0.3, 3), (0.01, 1), (0.9, 5)):
        settings = source.with_mask_rate(share).shard.settings
        assert settings.masked_lm_prob == share
        assert settings.num_prediction_slots == slots
    assert source.shard.settings.masked_lm_prob == 0.2
    static = record_source.open_records(two_files)
    assert static.with_mask_rate(0.15) is static
    with pytest.raises(
        ValueError, match="`mask_schedule` needs records of --masking=dynamic"
    ):
        static.with_mask_rate(0.3)


def test_permuted_records_are_expected_by_flag_or_by_slots(write_records):
    path = write_records(
        "a.tf_record", [static_record(9, num_slots=4)], do_permutation=True
    )

    for expected in (2, 4):
        source = record_source.open_records(
            path, mask_settings={"max_predictions_per_seq": expected}
        )
        assert source.shard.settings.num_prediction_slots == 4


def test_ids_and_masks_of_some_records_are_looked_at(
    write_records, caplog, capsys
):
    caplog.set_level("INFO")
    paths = {
        "static": write_records("a", [static_record(n) for n in range(9, 90)]),
        "dynamic": write_records("b", [dynamic_record(89)], masking="dynamic"),
    }
    for kind, share in (("static", "16.7%"), ("dynamic", "12.5%")):
        record_source.open_records(paths[kind], vocab_size=90)
        assert f"{share} of the tokens masked" in caplog.text
        with pytest.raises(ValueError, match="id 89, .* vocab_size=89"):
            record_source.open_records(paths[kind], vocab_size=89)
    assert "although" not in caplog.text

    # Pairs of 5 tokens in rows of 8: round(8 * 0.4) = 3 of them.
    masks = {"masked_lm_prob": 0.4, "max_predictions_per_seq": 2}
    record_source.open_records(paths["dynamic"], mask_settings=masks)
    assert "Only 25.0% of the tokens are masked" in caplog.text


def test_every_file_is_verified_if_asked(write_records):
    # The sizes of headers and records: what is changed is in record 1, of which
    # an opening takes no notice.
    size = 16 + len(serialize(static_record(0)))
    entry = record_files.ENTRY.size
    for name, suffix, place, message in (
        ("a", "", size + 30, "a' is damaged.*record 1, at byte"),
        # The checksum of a length, which is not needed.
        ("b", "", size + 8, "b' is not the file that its sidecar describes"),
        ("c", ".index", 2 * entry - 1, "c' is damaged, .* record 1, at byte"),
    ):
        path = write_records(name, [static_record(n) for n in range(600)])
        record_source.open_records(path, verify=True)
        file = pathlib.Path(f"{path}{suffix}")
        content = bytearray(file.read_bytes())
        content[place] ^= 1
        file.write_bytes(content)

        record_source.open_records(path)
        with pytest.raises(ValueError, match=message):
            record_source.open_records(path, verify=True)


def test_files_of_one_content_are_told(two_files, tmp_path, caplog):
    for suffix in ("", ".json"):
        shutil.copy(f"{two_files[0]}{suffix}", tmp_path / f"copy{suffix}")

    record_source.open_records([two_files[0], str(tmp_path / "copy")])

    assert "copy' holds some of the same records as" in caplog.text


@pytest.mark.parametrize("is_of_bert", [False, True])
def test_records_of_the_original_need_no_sidecar(write_records, is_of_bert):
    record = static_record(9, max_seq_length=11, num_slots=3)
    if is_of_bert:
        del record["token_boundary"]
    path = write_records("a.tf_record", [record], with_sidecar=False)

    source = record_source.open_records(path)
    [batch] = input_pipeline.evaluation_dataset(
        source, InputShard(), batch_size=1
    )

    np.testing.assert_array_equal(batch["input_ids"][0], record["input_ids"])
    shard = source.shard
    assert not shard.has_sidecar
    assert shard.settings.masking == "static"
    assert shard.settings.max_seq_length == 11
    assert shard.settings.num_prediction_slots == 3
    assert shard.settings.pair_objective is shard.vocab_size is None


def test_one_file_with_a_sidecar_speaks_for_those_without(write_records):
    paths = [
        write_records("a", [static_record(9)], with_sidecar=False),
        write_records("b", [static_record(9)]),
    ]

    assert record_source.open_records(paths).shard.vocab_size == 100


@pytest.fixture
def files(write_records, tmp_path):
    """A glob of two files of length 8, and of one of 16 without a sidecar."""
    write_records("a", [static_record(20)])
    write_records("b", [static_record(21)])
    long = static_record(30, max_seq_length=16, num_slots=3)
    write_records("c", [long, long], with_sidecar=False)
    (tmp_path / "empty").touch()
    return str(tmp_path / "*")


def test_each_length_has_the_records_of_its_files(files):
    sources = record_source.open_by_length(files, [16, 8], vocab_size=100)

    assert [*sources] == [16, 8]
    assert sources[16].num_records == 2
    assert sources[16].shard.settings.num_prediction_slots == 3
    assert _numbers(sources[8], [0, 1]) == [20, 21]


def numbered(count, stem="train", **changes):
    """A shard of each number."""
    return [
        make_shard(f"{stem}-{i:05}-of-{count:05}", **changes)
        for i in range(count)
    ]


def test_all_shards_of_one_build_are_fine(caplog):
    for members in (
        numbered(3),
        # Other files need have nothing in common, nor files without a sidecar.
        [make_shard("a"), make_shard("b", ngram=1)],
        [*numbered(2)[:1], Shard(path=numbered(2)[1].path, config={})],
        numbered(2) + numbered(2, "other", ngram=1),
    ):
        record_source.check_sets(members)

    assert not caplog.text


def test_missing_shards_are_warned_of(caplog):
    record_source.check_sets(numbered(3)[1:])

    assert "2 of the 3 shards of 'train@3' are read" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ngram": 1}, r"ngram=3 \(now 1\)"),
        ({"corpus_sha256": "b"}, r"corpus_sha256=None \(now 'b'\)"),
    ],
)
def test_shards_of_different_builds_are_refused(changes, message):
    members = [*numbered(3)[:2], numbered(3, **changes)[2]]

    with pytest.raises(ValueError, match=f"00002-of.*builds: {message}"):
        record_source.check_sets(members)


def build(blocks, part=(0, 1), records=3, **changes):
    return make_shard(
        blocks=list(blocks),
        part=list(part),
        counts=BuildCounts(records=records),
        **{"corpus_sha256": "a"} | changes,
    )


@pytest.mark.parametrize(
    ("shard", "other"),
    [
        (build([0, 4]), build([3, 5])),
        (build([2, 3]), build([0, 9])),
        (build([3, 4], (0, 2)), build([0, 5])),
        (build([3, 4], (0, 2)), build([3, 4], (0, 3))),
    ],
)
def test_files_with_records_of_the_same_text_are_warned_of(
    shard, other, caplog
):
    members = {"train-0": shard, "old-0": other, "x": build([20, 30])}

    record_source.check_sets(
        [dataclasses.replace(s, path=path) for path, s in members.items()]
    )

    assert caplog.text.count("same records") == 1
    assert "'train-0'" in caplog.text
    assert "'old-0'" in caplog.text


def test_parts_of_one_build_have_no_text_in_common(caplog):
    record_source.check_sets(
        [
            *(build([0, 2]), build([2, 3], (0, 2)), build([2, 3], (1, 2))),
            *(build([3, 9]), build([0, 9], corpus_sha256="b")),
            *(build([0, 9], random_seed=1), build([0, 9], tokenizer_hash="b")),
            *(build([0, 9], records=0), build([0, 9], corpus_sha256=None)),
        ]
    )

    assert not caplog.text


@pytest.mark.parametrize(
    ("trained", "evaluated", "is_common"),
    [
        (build([0, 9]), build([8, 9]), True),
        # The same text, in other records.
        (build([0, 9]), build([0, 9], random_seed=1), True),
        (build([0, 9]), build([9, 10], (0, 2)), False),
        (build([0, 9]), build([0, 9], corpus_sha256="b"), False),
        (build([0, 9]), build([0, 9], corpus_sha256=None), False),
        # Parts of a block have text in common if it was copied.
        *(
            (
                build([0, 1], (0, 2), dupe_factor=num_copies),
                build([0, 1], (1, 2), dupe_factor=num_copies),
                num_copies > 1,
            )
            for num_copies in (1, 2)
        ),
    ],
)
def test_text_to_evaluate_on_that_is_trained_on_is_warned_of(
    trained, evaluated, is_common, caplog
):
    unknown = Shard(path="x", config={}, sha256="x")

    record_source.report_common_text(
        [unknown, dataclasses.replace(trained, sha256="c")],
        [
            dataclasses.replace(unknown, sha256="y"),
            dataclasses.replace(evaluated, path="eval", sha256="d"),
        ],
    )

    message = "'eval', to evaluate on, holds text of 'train', which is also"
    assert (message in caplog.text) == is_common


def test_opening_records_checks_their_shards(write_records):
    record = static_record(9)
    for name, records, changes in (
        ("train-00000-of-00002", [record], {}),
        # Also if it has no record.
        ("train-00001-of-00002", [], {"random_seed": 3}),
    ):
        path = write_records(name, records, **changes)

    with pytest.raises(ValueError, match=r"random_seed=12345 \(now 3\)"):
        record_source.open_records(path.replace("-00001-", "-0000?-"))
