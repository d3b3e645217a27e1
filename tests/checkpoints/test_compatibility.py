"""What a checkpoint means; contradictions are in test_refusals."""

import dataclasses

import pytest

from albert_tf.checkpoints import compatibility
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.text.tokenizer import VocabularyBeside
from tests import tiny

_NAMES = ("ham", "spam")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"hidden_dropout_prob": 0.5}, True),
        ({"initializer_range": 0.1}, True),
        # The same layers, in other words.
        ({"parameter_sharing": "all", "num_hidden_groups": 2}, True),
        ({"num_hidden_layers": 3}, False),
    ],
)
def test_configs_that_make_the_same_outputs(change, same):
    known = tiny.config(num_hidden_layers=2, parameter_sharing="none")
    other = dataclasses.replace(known, **change)

    source = compatibility.with_config(
        Checkpoint(config=known), other, may_change_layers=not same
    )

    assert source.config == other


@pytest.mark.parametrize(
    ("known", "given", "num_outputs", "expected"),
    [
        ({"labels": _NAMES}, None, 2, _NAMES),
        ({"labels": _NAMES}, ("a", "b"), 2, ("a", "b")),
        ({}, None, 2, ("0", "1")),
        ({}, None, 1, ()),
        ({"labels": ()}, None, 1, ()),
        ({"labels": ("spam",), "multi_label": True}, None, 1, ("spam",)),
    ],
)
def test_labels_are_the_given_or_the_known_ones(
    known, given, num_outputs, expected
):
    labels = compatibility.find_labels(Metadata(**known), num_outputs, given)

    assert labels == expected


@pytest.mark.parametrize(
    ("known", "wanted", "warning"),
    [
        ({"labels": _NAMES}, {"labels": _NAMES}, ""),
        ({"labels": _NAMES}, {"do_lower_case": True}, ""),
        ({"labels": ("HAM", "SPAM")}, {"labels": _NAMES}, ""),
        # Others may have named them otherwise.
        ({"labels": _NAMES}, {"labels": ("0", "1")}, "labels=['ham', 'spam']"),
    ],
)
def test_what_is_the_same_or_unknown_is_used(known, wanted, warning, caplog):
    source = Checkpoint(metadata=Metadata(**known))

    compatibility.check_task(source, Metadata(**wanted))

    assert warning in caplog.text
    assert bool(warning) == bool(caplog.text)


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
    result = compatibility.with_vocabulary(source, options)

    assert result.metadata.do_lower_case is expected
    assert result.vocabulary == source.vocabulary


@pytest.mark.parametrize("is_lower", [True, False])
def test_the_tokenizer_of_the_training_decides_the_lower_casing(
    is_lower, source
):
    run = _trained_with(source, do_lower_case=is_lower)
    run = dataclasses.replace(run, vocabulary=None)

    options = VocabularyBeside(spm_model_file=source.vocabulary)
    result = compatibility.with_vocabulary(run, options)

    assert result.metadata.do_lower_case == is_lower


def test_a_vocabulary_that_is_surely_the_model_s_may_be_padded(source):
    path = source.vocabulary
    larger = tiny.config(vocab_size=301)
    beside = dataclasses.replace(source, config=larger)
    trained = dataclasses.replace(_trained_with(beside), vocabulary=None)

    for known, named in ((beside, None), (trained, path)):
        options = VocabularyBeside(spm_model_file=named)
        result = compatibility.with_vocabulary(known, options)
        assert result.vocabulary == path
