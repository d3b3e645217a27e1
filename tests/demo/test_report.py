import json

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import tf1, variable_names
from albert_tf.text import vocabulary_training
from demo import report, reviews


@pytest.fixture(scope="module")
def sentences():
    # They are the same with every version of Python.
    train, _ = reviews.train_and_dev()
    return [review.sentence for review in train]


@pytest.fixture(scope="module")
def spm_model_file(tmp_path_factory, sentences):
    folder = tmp_path_factory.mktemp("vocabulary")
    text = folder / "text.txt"
    text.write_text("\n".join(sentences), encoding="utf-8")
    summary = vocabulary_training.train(
        vocabulary_training.VocabularyTrainingConfig(
            input_file=str(text),
            output_prefix=str(folder / "vocabulary"),
            vocab_size=130,
        )
    )
    return summary.model_file


@pytest.fixture(scope="module")
def tokenizer(spm_model_file):
    return albert_tf.load_tokenizer(spm_model_file=spm_model_file)


@pytest.fixture(scope="module")
def model(tokenizer):
    config = albert_tf.AlbertConfig(
        vocab_size=tokenizer.vocab_size,
        embedding_size=5,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=6,
        max_position_embeddings=64,
    )
    return albert_tf.PretrainingModel(config)


def test_each_blank_hides_one_whole_word(sentences, tokenizer):
    blanks = report.choose_blanks(sentences, tokenizer)

    assert len(blanks) == report.NUM_BLANKS
    for blank in blanks:
        restored = list(blank.ids)
        assert restored[blank.position] == tokenizer.special_ids.mask
        restored[blank.position] = tokenizer.token_to_id(
            f"▁{blank.word.lower()}"
        )
        sentence = blank.text.replace("[MASK]", blank.word)
        assert restored[1:-1] == tokenizer.encode(sentence)


def test_the_same_words_are_hidden_each_time(sentences, tokenizer):
    first = report.choose_blanks(sentences, tokenizer)

    assert first == report.choose_blanks(sentences, tokenizer)


def test_parts_of_words_and_sentences_of_other_lengths_are_not_used(tokenizer):
    good = "The parser is fast, although the debugger is slow."
    parts = "The_parser is_fast, al_though the_debugger's is_slow."
    other = [good[:20], f"{good} {good} {good}", "", parts]

    (blank,) = report.choose_blanks([*other, good], tokenizer)

    assert blank.text.replace("[MASK]", blank.word) == good


def test_guesses_come_likeliest_first(model, sentences, tokenizer):
    blanks = report.choose_blanks(sentences, tokenizer)
    token_id = tokenizer.token_to_id("▁parser")
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
        assert words[0] == "parser"
        assert len(shares) == report.NUM_GUESSES
        assert shares == sorted(shares, reverse=True)


def _write_run(folder, model, lines):
    """Writes what the report reads of a run."""
    arrays = {
        name: variable.numpy()
        for name, variable in variable_names.variables_by_tf1_name(
            model.trainable_variables
        ).items()
    }
    for name in ("checkpoints/step-00000000", "best"):
        (folder / name).mkdir(parents=True)
        tf1.write(str(folder / name / "model.ckpt"), arrays)
    model.config.to_json_file(folder / "albert_config.json")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)


def test_report_tells_what_was_run_and_what_came_out(
    tmp_path, model, sentences, spm_model_file
):
    masked, order = "eval_masked_lm_accuracy", "eval_sentence_order_accuracy"
    step = {"step": 20, "masked_lm_loss": 5.0, "sequences_per_second": 50.0}
    short = [{"step": 0, masked: 0.01}, step, {"step": 20, masked: 0.3}]
    long = [
        {"step": 0, masked: 0.2, order: 0.5},
        {"step": 10, masked: 0.25, order: 0.75},
    ]
    _write_run(tmp_path / "a", model, short)
    _write_run(tmp_path / "b", model, long)
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("\n".join(sentences), encoding="utf-8")

    scores = report.write(
        tmp_path / "report.html",
        runs={"short": tmp_path / "a", "long": tmp_path / "b"},
        held_out_text=held_out,
        spm_model_file=spm_model_file,
        facts={"Command": "python -m demo.run"},
        answers=[("It is [MASK].", "fast (90%)")],
    )

    assert scores == "masked words 25.0%, sentence order 75.0%"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for cells in (
        ["Command", "python -m demo.run"],
        ["Sequences per second (median)", "50 (short)"],
        ["masked words (short)", "1.0%", "30.0%"],
        ["masked words (long)", "20.0%", "25.0%"],
        ["sentence order (long)", "50.0%", "75.0%"],
        ["It is [MASK].", "fast (90%)"],
    ):
        assert "<td>" + "</td><td>".join(cells) + "</td>" in page
    assert page.count("<svg") == 2
    assert page.count("[MASK]") == report.NUM_BLANKS + 1
