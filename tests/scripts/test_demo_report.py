import json

import numpy as np
import pytest

import albert_tf
import demo_corpus
import demo_report
from albert_tf.checkpoints import tf1, variable_names
from albert_tf.text import vocabulary_training

EVALUATION_KEYS = [
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
]


@pytest.fixture(scope="module")
def sentences():
    _, held_out = demo_corpus.train_and_held_out()
    return [sentence for document in held_out for sentence in document]


@pytest.fixture(scope="module")
def spm_model_file(tmp_path_factory, sentences):
    folder = tmp_path_factory.mktemp("vocabulary")
    text = folder / "text.txt"
    text.write_text("\n".join(sentences), encoding="utf-8")
    summary = vocabulary_training.train(
        vocabulary_training.VocabularyTrainingConfig(
            input_file=str(text),
            output_prefix=str(folder / "vocabulary"),
            vocab_size=400,
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
        max_position_embeddings=128,
    )
    return albert_tf.PretrainingModel(config)


def test_each_blank_hides_one_whole_word(sentences, tokenizer):
    blanks = demo_report.choose_blanks(sentences, tokenizer)

    assert len(blanks) == demo_report.NUM_BLANKS
    for blank in blanks:
        restored = list(blank.ids)
        assert restored[blank.position] == tokenizer.special_ids.mask
        restored[blank.position] = tokenizer.token_to_id(
            f"▁{blank.word.lower()}"
        )
        sentence = blank.text.replace("[MASK]", blank.word)
        assert restored[1:-1] == tokenizer.encode(sentence)


def test_the_same_words_are_hidden_each_time(sentences, tokenizer):
    first = demo_report.choose_blanks(sentences, tokenizer)

    assert first == demo_report.choose_blanks(sentences, tokenizer)


def test_long_sentences_and_parts_of_words_are_not_used(tokenizer):
    sentences = ["The value's value_ value2 names.", "value " * 50, ""]

    assert not demo_report.choose_blanks(sentences, tokenizer)
    assert demo_report.choose_blanks(["The value is."], tokenizer)


def test_guesses_come_likeliest_first(model, sentences, tokenizer):
    blanks = demo_report.choose_blanks(sentences, tokenizer)
    token_id = tokenizer.token_to_id("▁value")
    bias = np.zeros(tokenizer.vocab_size)
    bias[token_id] = 9.0
    bias[token_id + 1] = 8.0
    model.masked_lm_head.output_bias.assign(bias)

    guesses = demo_report.guess(model, blanks, tokenizer)

    assert len(guesses) == len(blanks)
    for text in guesses:
        words = [guess.split()[0] for guess in text.split(", ")]
        shares = [float(g.split()[1].rstrip("%")) for g in text.split(", ")]
        assert words[0] == "“value”"
        assert len(shares) == demo_report.NUM_GUESSES
        assert shares == sorted(shares, reverse=True)


def _write_run(folder, model):
    model.config.to_json_file(folder / "albert_config.json")
    arrays = {
        name: variable.numpy()
        for name, variable in variable_names.variables_by_tf1_name(
            model.trainable_variables
        ).items()
    }
    for name in ("checkpoints/step-00000000", "checkpoints/step-00000020"):
        (folder / name).mkdir(parents=True)
        tf1.write(str(folder / name / "model.ckpt"), arrays)
    (folder / "best").mkdir()
    tf1.write(str(folder / "best" / "model.ckpt"), arrays)
    lines = [
        {"step": step, **{f"eval_{k}": 8 - step / 10 for k in EVALUATION_KEYS}}
        for step in (0, 20)
    ]
    lines.insert(
        1,
        {
            "step": 10,
            "masked_lm_loss": 7.5,
            "sentence_order_loss": 0.7,
            "learning_rate": 0.001,
            "sequences_per_second": 50.0,
        },
    )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)


def test_report_tells_what_was_run_and_what_came_out(
    tmp_path, model, sentences, spm_model_file
):
    _write_run(tmp_path, model)
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("\n".join(sentences), encoding="utf-8")

    before, after = demo_report.write(
        tmp_path / "report.html",
        run_folder=tmp_path,
        held_out_text=held_out,
        spm_model_file=spm_model_file,
        facts={"Command": "python demo.py"},
    )

    assert (before, after) == (8, 6)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for text in ("python demo.py", "50 sequences per second", "[MASK]"):
        assert text in page
    assert "<td>Masked-LM loss, nats</td><td>8.000</td><td>6.000</td>" in page
    assert page.count("<svg") == 3
