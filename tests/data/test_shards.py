import json

import pytest

from albert_tf.data import shard_building, shards
from albert_tf.data.shards import BuildCounts, Duplicates
from tests.data.records import make_shard

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
