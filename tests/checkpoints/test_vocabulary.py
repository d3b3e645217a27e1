import dataclasses
import pathlib

import pytest

from albert_tf.checkpoints import vocabulary
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.text import tokenizer
from tests import tiny

_CONFIG = tiny.config(vocab_size=300)


@pytest.fixture
def source(tiny_spm_model):
    return Checkpoint(arrays={}, config=_CONFIG, vocabulary=str(tiny_spm_model))


@pytest.fixture
def other(tiny_spm_model, tmp_path):
    """Another SentencePiece model of the same size: two pieces are swapped."""
    model = tiny_spm_model.read_bytes()
    first, second = "▁t".encode(), "▁b".encode()
    path = tmp_path / "other.model"
    swapped = model.replace(first, b"#####").replace(second, first)
    path.write_bytes(swapped.replace(b"#####", second[:4]))
    return str(path)


def _hash_of(path, *, do_lower_case):
    loaded = tokenizer.load_tokenizer(
        spm_model_file=path, do_lower_case=do_lower_case
    )
    return loaded.hash


def _trained_with(source, path, *, do_lower_case):
    known = Metadata(tokenizer_hash=_hash_of(path, do_lower_case=do_lower_case))
    return dataclasses.replace(source, metadata=known)


def test_the_ending_of_a_vocabulary_decides_its_kind(tiny_spm_model, wordpiece):
    for path, size in ((tiny_spm_model, 300), (wordpiece, 6)):
        found = Checkpoint(arrays={}, vocabulary=str(path))
        assert vocabulary.load_tokenizer(found).vocab_size == size


@pytest.mark.parametrize(
    ("known", "given", "expected"),
    [(None, None, None), (False, None, False), (False, True, True)],
)
def test_lower_casing_is_what_the_user_says_or_what_is_known(
    known, given, expected, source
):
    source = dataclasses.replace(source, metadata=Metadata(do_lower_case=known))

    found = vocabulary.with_vocabulary(source, None, given)

    assert found.metadata.do_lower_case is expected
    assert found.vocabulary == source.vocabulary


@pytest.mark.parametrize("is_lower", [True, False])
def test_the_tokenizer_of_the_training_decides_the_lower_casing(
    is_lower, source, tiny_spm_model
):
    run = _trained_with(source, tiny_spm_model, do_lower_case=is_lower)
    run = dataclasses.replace(run, vocabulary=None)

    found = vocabulary.with_vocabulary(run, str(tiny_spm_model), None)

    assert found.do_lower_case == is_lower


def test_another_vocabulary_of_the_same_size_is_refused(
    source, other, tiny_spm_model
):
    run = _trained_with(source, tiny_spm_model, do_lower_case=True)

    with pytest.raises(ValueError, match="differs from the one beside"):
        vocabulary.with_vocabulary(source, other, None)
    for beside in (None, other):
        with pytest.raises(ValueError, match="trained with another tokenizer"):
            vocabulary.with_vocabulary(
                dataclasses.replace(run, vocabulary=beside), other, None
            )
    with pytest.raises(ValueError, match="with do_lower_case=false. Pass"):
        vocabulary.with_vocabulary(run, None, False)


def test_a_vocabulary_has_as_many_tokens_as_the_model(source, tiny_spm_model):
    bare = dataclasses.replace(source, vocabulary=None)
    path = str(tiny_spm_model)
    larger = tiny.config(vocab_size=301)
    smaller = tiny.config(vocab_size=299)

    for config, given in ((larger, path), (smaller, path), (smaller, None)):
        one = bare if given else source
        with pytest.raises(
            ValueError, match="has 300 tokens.*vocab_size=(301|299)"
        ):
            vocabulary.with_vocabulary(
                dataclasses.replace(one, config=config), given, None
            )
    # What lies beside its checkpoint, or was trained with, may be padded.
    padded = dataclasses.replace(source, config=larger)
    assert vocabulary.with_vocabulary(padded, None, None).vocabulary == path
    padded = dataclasses.replace(
        _trained_with(padded, path, do_lower_case=True), vocabulary=None
    )
    assert vocabulary.with_vocabulary(padded, path, None).vocabulary == path


def test_a_missing_vocabulary_is_an_error(source):
    with pytest.raises(FileNotFoundError, match="nothing.model"):
        vocabulary.with_vocabulary(source, "nothing.model", None)


def test_a_vocabulary_is_written_under_its_name_or_another(
    source, wordpiece, tmp_path
):
    vocabulary.write_vocabulary(source, str(tmp_path))
    vocabulary.write_vocabulary(source, str(tmp_path), "a.model")
    words = tmp_path / "words" / "words.txt"
    words.parent.mkdir()
    words.write_bytes(wordpiece.read_bytes())
    other = dataclasses.replace(source, vocabulary=str(words))
    vocabulary.write_vocabulary(other, str(tmp_path))

    written = filter(pathlib.Path.is_file, tmp_path.iterdir())
    found = {path.name: path.read_bytes() for path in written}
    with open(source.vocabulary, "rb") as file:
        model = file.read()
    assert found == {
        "tiny.model": model,
        "a.model": model,
        "vocab.txt": wordpiece.read_bytes(),
    }
