import inspect

import pytest

from albert_tf.text import tokenizer as tokenizer_module
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\n")
    return path


def test_a_model_file_loads_sentencepiece(tiny_spm_model):
    loaded = tokenizer_module.load_tokenizer(spm_model_file=tiny_spm_model)

    assert isinstance(loaded, SentencePieceTokenizer)
    assert loaded.do_lower_case


def test_a_vocabulary_file_loads_wordpiece(vocab_file):
    loaded = tokenizer_module.load_tokenizer(
        vocab_file=vocab_file, do_lower_case=False
    )

    assert isinstance(loaded, WordPieceTokenizer)
    assert loaded.encode("A a") == [6, 5]


def test_a_model_wins_over_a_vocabulary_that_is_not_even_read(tiny_spm_model):
    loaded = tokenizer_module.load_tokenizer(
        spm_model_file=tiny_spm_model, vocab_file="nowhere.txt"
    )

    assert isinstance(loaded, SentencePieceTokenizer)


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_file_at_all_is_an_error(nothing):
    with pytest.raises(ValueError, match="No vocabulary is given"):
        tokenizer_module.load_tokenizer(
            spm_model_file=nothing, vocab_file=nothing
        )


def test_a_missing_file_is_an_error_that_names_it():
    with pytest.raises(FileNotFoundError, match="nowhere.model"):
        tokenizer_module.load_tokenizer(spm_model_file="nowhere.model")
    with pytest.raises(FileNotFoundError, match="nowhere.txt"):
        tokenizer_module.load_tokenizer(vocab_file="nowhere.txt")


@pytest.mark.parametrize("made", [SentencePieceTokenizer, WordPieceTokenizer])
def test_both_tokenizers_offer_what_the_protocol_says(made):
    methods = inspect.getmembers(tokenizer_module.Tokenizer, inspect.isfunction)
    for name, method in methods:
        if not name.startswith("_"):
            assert inspect.signature(getattr(made, name)) == (
                inspect.signature(method)
            )
