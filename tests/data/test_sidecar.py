import json

import pytest

from albert_tf.data import sidecar
from albert_tf.data.sidecar import BuildCounts
from tests.data import records

COUNTS = BuildCounts(documents=3, record_tokens=40_000)


def test_a_sidecar_comes_back_as_it_was_written(tmp_path):
    record_path = tmp_path / "a.tf_record"
    example = records.make_sidecar(
        ngram=2, counts=COUNTS, num_bytes=9, sha256="def"
    )

    sidecar.write(record_path, example)

    assert (tmp_path / "a.tf_record.json").exists()
    assert sidecar.read(record_path) == example


def test_a_sidecar_of_an_earlier_build_is_read(tmp_path):
    record_path = tmp_path / "a.tf_record"
    example = records.make_sidecar(masking="dynamic", keep_more_text=False)
    sidecar.write(record_path, example)
    path = tmp_path / "a.tf_record.json"
    values = json.loads(path.read_text())
    for name in ("num_corpus_files", "corpus_sha256", "part"):
        del values[name]
    for name in ("tokens_left_out", "tokens_repeated"):
        del values["counts"][name]
    for name in ("keep_more_text", "text_field", "max_bad_lines"):
        del values["config"][name]
    path.write_text(json.dumps(values))

    assert sidecar.read(record_path) == example


def test_a_file_without_a_sidecar_has_none(tmp_path):
    assert sidecar.read(tmp_path / "a.tf_record") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "not a sidecar.*version is 1, expected 2"),
        ({"sha256": None}, "not a sidecar.*it has no sha256"),
        (
            {"config": {"masking": "dynamic", "token_boundary": False}},
            "not a sidecar.*it has no word_starts",
        ),
        ({"more": 1}, "not a sidecar.*'more'"),
        ({"config": {"ngrams": 3}}, "not a sidecar.*'ngrams'"),
        ({"config": {"ngram": 0}}, "not a sidecar.*`ngram` must be"),
    ],
)
def test_another_json_file_is_refused(tmp_path, change, message):
    record_path = tmp_path / "a.tf_record"
    sidecar.write(record_path, records.make_sidecar())
    path = tmp_path / "a.tf_record.json"
    values = json.loads(path.read_text()) | change
    kept = {name: v for name, v in values.items() if v is not None}
    path.write_text(json.dumps(kept))

    with pytest.raises(ValueError, match=f"{message}.*Build the records again"):
        sidecar.read(record_path)


@pytest.mark.parametrize("text", ['{"version": 2,', "[1]"])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "a.tf_record.json").write_text(text)

    with pytest.raises(ValueError, match="a.tf_record.json is damaged"):
        sidecar.read(tmp_path / "a.tf_record")


def test_counts_add_up():
    total = COUNTS + COUNTS + BuildCounts(documents=1)

    assert total == BuildCounts(documents=7, record_tokens=80_000)
