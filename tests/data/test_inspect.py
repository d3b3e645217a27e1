import pytest

from albert_tf.data import inspect
from albert_tf.text import tokenizer as tokenizers
from tests import tiny
from tests.data.records import dynamic_record, static_record

_TOKENS = ["a", "b", "##c", "d"]


@pytest.fixture
def vocab_file(tmp_path):
    return tiny.write_vocabulary(tmp_path / "vocab.txt", _TOKENS)


def masked_record(label=0):
    """`[CLS] a ##c b [SEP] d [SEP]`: the first three are to be predicted."""
    return static_record(5, num_slots=3) | {
        "input_ids": [2, 4, 7, 8, 3, 8, 3, 0],
        "input_mask": [1] * 7 + [0],
        "segment_ids": [0] * 5 + [1] * 2 + [0],
        "masked_lm_positions": [1, 2, 3],
        "masked_lm_ids": [5, 7, 6],
        "masked_lm_weights": [1.0] * 3,
        "next_sentence_labels": [label],
    }


def _run(capsys, *arguments):
    code = inspect.main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_static_record_is_shown_with_its_masks(
    capsys, write_records, vocab_file
):
    path = write_records("a", [masked_record()], with_sidecar=False)

    code, out, err = _run(capsys, path, f"--vocab_file={vocab_file}")

    assert (code, err) == (0, "")
    assert out == (
        f"{path}: 1 records, static masks\n"
        "\n"
        "record 0: 7 tokens of 8, 3 to predict, label 0: in order\n"
        "  A (5) | [CLS] [MASK:a]{c} {d->b} [SEP]\n"
        "  B (2) | d [SEP]\n"
    )


def test_a_dynamic_record_is_shown_unmasked(capsys, write_records):
    path = write_records("a", [dynamic_record(9)], masking="dynamic")

    _, out, _ = _run(capsys, path)

    assert out.endswith(
        "record 0: 5 tokens without special ones, no masks yet, label 0: "
        "B follows A\n"
        "  A (3) | 9 11 12\n"
        "  B (2) | 13 14\n"
    )


def test_the_vocabulary_of_the_build_is_found_if_it_has_not_changed(
    capsys, write_records, vocab_file, tmp_path
):
    tokenizer = tokenizers.load_tokenizer(
        vocab_file=vocab_file, do_lower_case=False
    )
    path = write_records(
        "a",
        [masked_record()],
        max_predictions_per_seq=3,
        tokenizer_hash=tokenizer.fingerprint,
        vocab_file=vocab_file,
        do_lower_case=False,
    )
    assert "[MASK:a]{c} {d->b}" in _run(capsys, path)[1]

    tiny.write_vocabulary(tmp_path / "vocab.txt", [*_TOKENS, "e"])
    assert "[MASK:5]" in _run(capsys, path)[1]

    (tmp_path / "vocab.txt").unlink()
    assert "[MASK:5]" in _run(capsys, path)[1]


def test_with_another_vocabulary_than_that_of_the_build_ids_are_shown(
    capsys, write_records, vocab_file
):
    path = write_records("a", [static_record(9)])

    code, out, _ = _run(capsys, path, f"--vocab_file={vocab_file}")

    assert code == 0
    assert "masks, as ids: not the vocabulary of the build" in out
    assert "[MASK:7]" in out


def test_an_error_is_one_line_and_ends_with_1(capsys):
    code, out, err = _run(capsys, "none")

    assert (code, out) == (1, "")
    assert err.startswith("error: No file matches 'none'")
    assert err.count("\n") == 1


def test_the_recorded_records_are_shown(capsys, shared_data):
    path = shared_data / "golden/pretraining_data/original.tf_record"
    model = shared_data / "data/spm/30k-clean.model"

    code, out, _ = _run(capsys, path, "-n", 1, f"--spm_model_file={model}")

    assert code == 0
    assert (
        "| [CLS] the captain [MASK:and] [MASK:i] [MASK:soon] fell into" in out
    )
