import json

import pytest

from albert_tf.data import sidecar
from albert_tf.data.sidecar import BuildCounts, BuildReport


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


COUNTS = BuildCounts(
    documents=3,
    sentences=1200,
    tokens=20_000,
    unknown_tokens=50,
    chunks_without_pair=7,
    records=400,
    label_1_records=190,
    record_tokens=40_000,
    masked_tokens=6_000,
)


def report(**changes):
    values = {
        "counts": COUNTS,
        "built": COUNTS,
        "kept_files": (),
        "seconds": 2.0,
        "masking": "static",
        "pair_objective": "sop",
        "max_seq_length": 128,
    }
    return BuildReport(**values | changes)


def lines(text):
    pairs = (line.split("  ", 1) for line in str(text).splitlines())
    return {name: value.strip() for name, value in pairs}


def test_counts_add_up():
    total = COUNTS + COUNTS + BuildCounts(documents=1)

    assert total.documents == 7
    assert total.record_tokens == 80_000


def test_the_summary_of_a_static_build():
    assert lines(report()) == {
        "documents": "3",
        "sentences": "1,200",
        "tokens": "20,000",
        "unknown tokens": "0.25%",
        "records": "400",
        "chunks without a pair": "7",
        "label 1": "47.5%",
        "mean length": "100.0 of 128",
        "padding": "21.9%",  # 1 - 100 / 128
        "masked tokens": "15.0%",
        "tokens a second": "10,000 read, 20,000 written",
    }


def test_what_a_dynamic_build_leaves_to_the_reader_is_said():
    summary = lines(report(masking="dynamic"))

    assert summary["label 1"] == "half, drawn when read"
    assert summary["masked tokens"] == "drawn when read"


def test_next_sentence_labels_are_drawn_at_the_build():
    summary = lines(report(masking="dynamic", pair_objective="nsp"))

    assert summary["label 1"] == "47.5%"


def test_single_segments_have_no_labels():
    assert lines(report(pair_objective="none"))["label 1"] == "no pairs"


def test_a_run_that_found_all_finished_has_no_speed():
    text = str(report(built=BuildCounts(), kept_files=("a", "b")))

    first, second, *rest = text.splitlines()
    summary = lines("\n".join(rest))
    assert first == "a is finished; it is kept"
    assert second == "b is finished; it is kept"
    assert summary["tokens a second"] == "nothing to build"
    assert summary["records"] == "400"
