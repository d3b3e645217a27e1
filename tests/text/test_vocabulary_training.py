import re
import subprocess
import sys

import pytest
import sentencepiece

from albert_tf.text import tokenizer, vocabulary_training


def train(corpus, prefix, **settings):
    names = {"input_file": str(corpus), "output_prefix": str(prefix)}
    return vocabulary_training.train(
        vocabulary_training.VocabularyTrainingConfig(
            **names | {"vocab_size": 200} | settings
        )
    )


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_the_first_ids_are_alberts_and_the_list_has_scores(
    tiny_corpus, tmp_path, capfd
):
    summary = train(tiny_corpus, tmp_path / "p")

    assert capfd.readouterr() == ("", "")
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(tmp_path / "p.model")
    )
    pieces = [processor.id_to_piece(i) for i in range(13)]
    assert pieces[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert pieces[5:] == ["(", ")", '"', "-", ".", "–", "£", "€"]
    assert processor.get_piece_size() == 200
    assert summary.startswith(
        "tokens              200\nsentences read      60\n"
    )
    assert [processor.is_control(i) for i in range(6)] == [
        *(True, False, True, True, True, False)
    ]
    rows = (tmp_path / "p.vocab").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 200
    assert all(re.fullmatch(r".+\t-?[0-9.]+", row) for row in rows)


def test_the_same_input_gives_the_same_bytes_in_any_process(
    tiny_corpus, tmp_path
):
    # Fewer sentences than there are, so that some are drawn at random.
    settings = {"vocab_size": 200, "input_sentence_size": 50}
    train(tiny_corpus, tmp_path / "here", **settings)
    train(tiny_corpus, tmp_path / "reseeded", random_seed=2, **settings)
    settings |= {
        "input_file": str(tiny_corpus),
        "output_prefix": str(tmp_path / "there"),
    }
    program = (
        "from albert_tf.text.vocabulary_training import *\n"
        f"train(VocabularyTrainingConfig(**{settings!r}))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

    here, there, reseeded = (
        (tmp_path / f"{name}.model").read_bytes()
        for name in ("here", "there", "reseeded")
    )
    assert here == there != reseeded


def test_the_vocabulary_has_capitals_only_if_asked(tiny_corpus, tmp_path):
    for name, do_lower_case in (("lower", True), ("cased", False)):
        train(tiny_corpus, tmp_path / name, do_lower_case=do_lower_case)
    loaded = tokenizer.load_tokenizer(
        spm_model_file=tmp_path / "cased.model", do_lower_case=False
    )

    lower = (tmp_path / "lower.vocab").read_text(encoding="utf-8")
    assert not re.search(r"^▁?[A-Z]", lower, re.MULTILINE)
    assert loaded.special_ids.unk not in loaded.encode("The")


def test_accents_are_kept_if_asked_and_else_their_words_counted(
    tiny_corpus, tmp_path
):
    # Six words become one, and two others become words that are not there.
    text = tiny_corpus.read_text(encoding="utf-8")
    text += "mà má mã mả mạ ma Ma\nđi ボール\n"
    corpus = write(tmp_path / "corpus.txt", text)
    kept, removed = (
        train(corpus, tmp_path / name, vocab_size=220, keep_accents=keep)
        for name, keep in (("kept", True), ("removed", False))
    )
    loaded = tokenizer.load_tokenizer(
        spm_model_file=tmp_path / "kept.model", keep_accents=True
    )

    assert loaded.special_ids.unk not in loaded.encode("má ボール")
    assert "merged by accents" not in kept
    num_words = len({*text.lower().split()})
    assert f"merged by accents   {6 / num_words:.1%} of words" in removed


@pytest.mark.parametrize("name", ["p.model", "p.vocab"])
def test_a_file_that_exists_is_not_overwritten(tiny_corpus, tmp_path, name):
    path = write(tmp_path / name, "precious")

    with pytest.raises(ValueError, match=f"{name}' exists"):
        train(tiny_corpus, tmp_path / "p")

    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_the_settings_are_those_of_the_released_model(
    shared_data, tiny_spm_model
):
    from sentencepiece import sentencepiece_model_pb2

    ours, released = (
        sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
        for path in (tiny_spm_model, shared_data / "data/spm/30k-clean.model")
    )
    differing = {
        "input", "input_format", "model_prefix", "vocab_size",
        # The sentences are drawn before SentencePiece sees them.
        "input_sentence_size", "shuffle_input_sentence",
    }  # fmt: skip
    for field, value in released.trainer_spec.ListFields():
        if field.name not in differing:
            assert getattr(ours.trainer_spec, field.name) == value, field.name
    for name in ("name", "add_dummy_prefix", "remove_extra_whitespaces"):
        assert getattr(ours.normalizer_spec, name) == getattr(
            released.normalizer_spec, name
        )


def test_bad_lines_are_counted_in_the_summary(tiny_corpus, tmp_path):
    corpus = tmp_path / "c.txt"
    corpus.write_bytes(tiny_corpus.read_bytes() + b"\n\xff\n")

    summary = train(corpus, tmp_path / "p", max_bad_lines=1)

    assert "bad lines skipped   1" in summary.splitlines()
