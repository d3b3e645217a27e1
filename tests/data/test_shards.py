import dataclasses
import json

import pytest

from albert_tf.data import record_source, shard_building, shards
from albert_tf.data.shards import BuildCounts, Duplicates
from tests.data.records import make_shard, static_record

COUNTS = BuildCounts(documents=3, record_tokens=40_000)


def test_a_shard_is_read_from_its_sidecar_as_it_was_written(tmp_path):
    path = tmp_path / "a.tf_record"
    with pytest.raises(FileNotFoundError, match=r"a.tf_record\.json"):
        shards.read(path)
    shard = make_shard(
        str(path),
        ngram=2,
        counts=COUNTS,
        duplicates=Duplicates(documents=1, characters=9),
        num_bytes=9,
        sha256="def",
    )

    shard_building.write_sidecar(shard)

    assert (tmp_path / "a.tf_record.json").exists()
    assert shards.read(path) == shard


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"version": 2}', "an older version of albert_tf wrote it"),
        ('{"version": 4}', "a newer version of albert_tf wrote it"),
        ('{"version": 3,', "delimiter|double quotes"),
        ("[1]", ""),
        ({"counts": {"tokans": 1}}, "'tokans'"),
        ({"part": [0, 0]}, "zero"),
        ({"config": []}, "list"),
        ({"config": {"masking": []}}, "list"),
    ],
)
def test_another_json_file_is_refused(tmp_path, content, message):
    shard_building.write_sidecar(make_shard(str(tmp_path / "a")))
    path = tmp_path / "a.json"
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text()) | content)
    path.write_text(content)

    with pytest.raises(ValueError, match=rf"in the place of a.*{message}"):
        shards.read(tmp_path / "a")


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
        [*numbered(2)[:1], shards.Shard(path=numbered(2)[1].path, config={})],
        numbered(2) + numbered(2, "other", ngram=1),
    ):
        shards.check_sets(members)

    assert not caplog.text


def test_missing_shards_are_warned_of(caplog):
    shards.check_sets(numbered(3)[1:])

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
        shards.check_sets(members)


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

    shards.check_sets(
        [dataclasses.replace(s, path=path) for path, s in members.items()]
    )

    assert caplog.text.count("same records") == 1
    assert "'train-0'" in caplog.text
    assert "'old-0'" in caplog.text


def test_parts_of_one_build_have_no_text_in_common(caplog):
    shards.check_sets(
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
        (
            build([0, 1], (0, 2), dupe_factor=1),
            build([0, 1], (1, 2), dupe_factor=1),
            False,
        ),
        (
            build([0, 1], (0, 2), dupe_factor=2),
            build([0, 1], (1, 2), dupe_factor=2),
            True,
        ),
    ],
)
def test_text_to_evaluate_on_that_is_trained_on_is_warned_of(
    trained, evaluated, is_common, caplog
):
    unknown = shards.Shard(path="x", config={}, sha256="x")

    shards.report_common_text(
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
