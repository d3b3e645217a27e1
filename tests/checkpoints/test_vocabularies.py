"""Vocabularies of checkpoints; contradictions are in test_refusals."""

import dataclasses
import pathlib

import pytest

from albert_tf.checkpoints import vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.text.tokenizer import VocabularyBeside
from tests import tiny


@pytest.fixture
def source(tiny_spm_model):
    config = tiny.config(vocab_size=300)
    return Checkpoint(arrays={}, config=config, vocabulary=str(tiny_spm_model))


def _trained_with(source, **known):
    tokenizer = dataclasses.replace(source, metadata=Metadata(**known))
    known = Metadata(tokenizer_hash=tokenizer.tokenizer.fingerprint)
    return dataclasses.replace(source, metadata=known)


@pytest.mark.parametrize(
    ("known", "given", "expected"),
    [(None, None, None), (False, None, False), (False, True, True)],
)
def test_lower_casing_is_what_the_user_says_or_what_is_known(
    known, given, expected, source
):
    source = dataclasses.replace(source, metadata=Metadata(do_lower_case=known))

    options = VocabularyBeside(do_lower_case=given)
    result = vocabularies.with_vocabulary(source, options)

    assert result.metadata.do_lower_case is expected
    assert result.vocabulary == source.vocabulary


@pytest.mark.parametrize("is_lower", [True, False])
def test_the_tokenizer_of_the_training_decides_the_lower_casing(
    is_lower, source
):
    run = _trained_with(source, do_lower_case=is_lower)
    run = dataclasses.replace(run, vocabulary=None)

    options = VocabularyBeside(spm_model_file=source.vocabulary)
    result = vocabularies.with_vocabulary(run, options)

    assert result.metadata.do_lower_case == is_lower


def test_a_vocabulary_that_is_surely_the_model_s_may_be_padded(source):
    path = source.vocabulary
    larger = tiny.config(vocab_size=301)
    beside = dataclasses.replace(source, config=larger)
    trained = dataclasses.replace(_trained_with(beside), vocabulary=None)

    for known, named in ((beside, None), (trained, path)):
        options = VocabularyBeside(spm_model_file=named)
        result = vocabularies.with_vocabulary(known, options)
        assert result.vocabulary == path


def test_a_vocabulary_is_written_under_its_name_or_another(
    wordpiece, tiny_spm_model, tmp_path
):
    (tmp_path / "words").mkdir()
    words = wordpiece.rename(tmp_path / "words" / "words.txt")
    pieces = Checkpoint(arrays={}, vocabulary=str(tiny_spm_model))

    vocabularies.write(pieces, str(tmp_path))
    vocabularies.write(pieces, str(tmp_path), "a.model")
    vocabularies.write(
        Checkpoint(arrays={}, vocabulary=str(words)), str(tmp_path)
    )

    written = filter(pathlib.Path.is_file, tmp_path.iterdir())
    model = tiny_spm_model.read_bytes()
    assert {path.name: path.read_bytes() for path in written} == {
        "tiny.model": model,
        "a.model": model,
        "vocab.txt": words.read_bytes(),
    }
