import json
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from demo import report
from tests import tiny
from tests.exported_models import write_checkpoint


@pytest.fixture(scope="module")
def sentences(tiny_corpus):
    return list(filter(None, tiny_corpus.read_text("utf-8").splitlines()))


@pytest.fixture(scope="module")
def tokenizer(tiny_spm_model):
    return albert_tf.load_tokenizer(spm_model_file=tiny_spm_model)


@pytest.fixture(scope="module")
def model(tokenizer):
    return albert_tf.PretrainingModel(
        tiny.config(vocab_size=tokenizer.vocab_size, max_position_embeddings=64)
    )


def test_each_blank_hides_one_whole_word_the_same_each_time(
    sentences, tokenizer
):
    blanks = report.choose_blanks(sentences, tokenizer)

    assert blanks == report.choose_blanks(sentences, tokenizer)
    assert len(blanks) == report.NUM_BLANKS
    for blank in blanks:
        restored = list(blank.ids)
        assert restored[blank.position] == tokenizer.special_ids.mask
        restored[blank.position] = tokenizer.token_to_id(
            f"▁{blank.word.lower()}"
        )
        sentence = blank.text.replace("[MASK]", blank.word)
        assert restored[1:-1] == tokenizer.encode(sentence)


def test_parts_of_words_and_sentences_of_other_lengths_are_not_used(tokenizer):
    good = "The water and the salt keep the fire on the hill."
    parts = "The_water carried and_the salt_keep on_the hill's so_far."
    other = [good[:20], f"{good} {good} {good}", "", parts]

    (blank,) = report.choose_blanks([*other, good], tokenizer)

    assert blank.text.replace("[MASK]", blank.word) == good


def test_guesses_come_likeliest_first(model, sentences, tokenizer):
    blanks = report.choose_blanks(sentences, tokenizer)
    token_id = tokenizer.token_to_id("▁light")
    bias = np.zeros(tokenizer.vocab_size)
    bias[token_id] = 8.0
    # A mark is no word.
    bias[tokenizer.token_to_id(".")] = 9.0
    model.masked_lm_head.output_bias.assign(bias)

    guesses = report.guess(model, blanks, tokenizer)

    assert len(guesses) == len(blanks)
    for text in guesses:
        words = [guess.split()[0] for guess in text.split(", ")]
        shares = [float(g.split()[1].rstrip("%")) for g in text.split(", ")]
        assert words[0] == "light"
        assert len(shares) == report.NUM_GUESSES
        assert shares == sorted(shares, reverse=True)


def _write_run(folder, model, lines):
    """Writes what the report reads of a run."""
    for name in ("checkpoints/step-00000000", "best"):
        write_checkpoint(folder / name, model)
    found = {"data": "--eval_file", "examples": 7, "step": 20, "cautions": []}
    Metadata(evaluation=found).write(folder / "best")
    model.config.to_json_file(folder / "albert_config.json")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)


def test_report_tells_what_was_run_and_what_came_out(
    tmp_path, model, sentences, tiny_spm_model
):
    masked, order = "eval_masked_lm_accuracy", "eval_sentence_order_accuracy"
    step = {"step": 20, "masked_lm_loss": 5.0, "sequences_per_second": 50.0}
    short = [{"step": 0, masked: 0.01}, step, {"step": 20, masked: 0.3}]
    long = [
        {"step": 0, masked: 0.2, order: 0.5},
        {"step": 10, masked: 0.25, order: 0.75},
    ]
    _write_run(tmp_path / "pretraining_short", model, short)
    _write_run(tmp_path / "pretraining_long", model, long)
    (tmp_path / "held_out.txt").write_text("\n".join(sentences), "utf-8")
    shutil.copy(tiny_spm_model, tmp_path / "vocabulary.model")

    report.write(
        tmp_path,
        facts={"Command": "python -m demo.run"},
        answers=[("It is [MASK].", "fast (90%)")],
        results={"masked words": (0.25, 0.01), "reviews": (0.75, 0.5)},
    )

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for cells in (
        ["Command", "python -m demo.run"],
        ["Sequences per second (median)", "50 (short)"],
        ["masked words", "0.25", "0.01"],
        ["reviews", "0.75", "0.5"],
        ["It is [MASK].", "fast (90%)"],
    ):
        assert "<td>" + "</td><td>".join(cells) + "</td>" in page
    assert "7 examples of --eval_file, with the weights of step 20" in page
    assert page.count("<svg") == 2
    assert page.count("[MASK]") == report.NUM_BLANKS + 1
