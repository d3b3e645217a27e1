import json

import pytest

from albert_tf.data import sidecar


def example():
    return sidecar.Sidecar(
        masking="static",
        max_seq_length=128,
        max_predictions_per_seq=20,
        num_prediction_slots=20,
        pair_objective="sop",
        masked_lm_prob=0.15,
        ngram=3,
        favor_shorter_ngram=True,
        do_whole_word_mask=True,
        tokenizer_hash="abc",
        vocab_size=30000,
        special_ids={"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4},
        forbidden_ids=[0, 1, 2, 3, 4],
        flags={"dupe_factor": 40},
        counts={"records": 7},
        num_bytes=99,
        sha256="def",
    )


def test_a_sidecar_comes_back_as_it_was_written(tmp_path):
    record_path = tmp_path / "a.tf_record"

    sidecar.write(record_path, example())

    assert (tmp_path / "a.tf_record.json").exists()
    assert sidecar.read(record_path) == example()


def test_a_file_without_a_sidecar_has_none(tmp_path):
    assert sidecar.read(tmp_path / "a.tf_record") is None


def write_json(record_path, value):
    with open(sidecar.sidecar_path(record_path), "w") as file:
        json.dump(value, file)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"version": 0}, "version 0, wanted 1"),
        ({"version": 1}, "missing"),
        ([1], "list"),
    ],
)
def test_another_json_file_is_refused(tmp_path, value, reason):
    record_path = tmp_path / "a.tf_record"
    write_json(record_path, value)

    with pytest.raises(ValueError, match=f"not a sidecar.*{reason}"):
        sidecar.read(record_path)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "a.tf_record.json").write_text('{"version": 1,')

    with pytest.raises(ValueError, match="Build the records again"):
        sidecar.read(tmp_path / "a.tf_record")
