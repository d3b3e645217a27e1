import pytest

from albert_tf.text.tokenizer import load_tokenizer
from tests import tiny


@pytest.fixture(params=["sentencepiece", "wordpiece"])
def old(request, tiny_spm_model, tmp_path):
    """A tokenizer to which words are added."""
    if request.param == "sentencepiece":
        return load_tokenizer(spm_model_file=tiny_spm_model)
    letters = [*"abcdefghijklmnopqrstuvwxyz;,_-"]
    tokens = [*letters, *(f"##{letter}" for letter in letters)]
    path = tiny.write_vocabulary(tmp_path / "vocab.txt", tokens)
    return load_tokenizer(vocab_file=path)


def test_texts_without_new_words_keep_their_ids(old):
    words = ["light", "air", "ring", "desk"]
    new = old.with_tokens(words)
    texts = ["hair string", "lights, delight", "desks; x_desk desk\u0308s", ""]

    for text in texts:
        assert new.encode_with_offsets(text) == old.encode_with_offsets(text)
    added = [word for word in words if old.as_added(word)]
    assert "desk" in added
    ids = [new.encode(f"a {word}")[-1] for word in added]
    assert ids == [old.vocab_size + i for i in range(len(added))]


def test_new_words_are_normalized_as_the_text(old):
    new = old.with_tokens(["FALKON", "Müll-X", "falkon"])
    falkon, mull = old.vocab_size, old.vocab_size + 1

    ids, spans = new.encode_with_offsets("Falkon,  mu\u0308ll-x")

    assert ids[0] == falkon and ids[-1] == mull
    assert spans[0] == (0, 6) and spans[-1] == (9, 16)
    assert new.id_to_token(mull) == "mull-x"


@pytest.mark.parametrize("name", ["東京", "ไทย", "t恤"])
def test_words_of_scripts_without_blanks_are_found_inside_words(name, old):
    new = old.with_tokens([name])

    assert old.vocab_size in new.encode(f"買{name}都")


def test_special_tokens_are_no_new_tokens(old):
    special = [old.id_to_token(i) for i in old.special_ids.__dict__.values()]

    assert old.with_tokens(special) is old
