"""Which head a checkpoint has."""

import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints import discovery, heads, tf1
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.metadata import Metadata

_MLM = "cls/predictions/output_bias"
_LABELS = "output_bias"
_SPANS = "cls/squad/output_bias"
_BEAMS = "start_logits/dense/bias"
_WORDS = "heads/word_count_head/kernel"
_WORD_COUNT = Head(
    name="word_count",
    make_model=heads.ENCODER.make_model,
    groups=frozenset({"word_count_head"}),
)


def _stored(*names, **known):
    arrays = {name: np.zeros(1, "float32") for name in names}
    return Checkpoint(path="there", arrays=arrays, metadata=Metadata(**known))


@pytest.mark.parametrize(
    ("names", "known", "expected"),
    [
        ([], {}, "encoder"),
        (["global_step", f"{_SPANS}/adam_m"], {}, "encoder"),
        ([_MLM], {}, "pretraining"),
        ([_MLM, _LABELS], {}, "classifier"),
        ([_LABELS], {"task": "sst-2"}, "classifier"),
        ([_LABELS], {"head": "multiple_choice"}, "multiple_choice"),
        ([_MLM, _SPANS], {}, "span"),
        ([_BEAMS], {}, "beam_span"),
        ([_BEAMS, _LABELS], {"head": "beam_span"}, "beam_span"),
    ],
)
def test_the_head_is_the_named_one_or_that_of_the_variables(
    names, known, expected
):
    assert _stored(*names, **known).head().name == expected


@pytest.mark.parametrize(
    ("names", "known", "wanted", "words"),
    [
        ([_BEAMS, _LABELS], {}, None, "'there' has the .*classifier, beam_sp"),
        # Never the encoder.
        ([_WORDS], {}, None, "head word_count_head, .* none of encoder, pre"),
        ([], {"head": "words"}, None, "head words, which is none of encoder"),
        ([], {}, "words", "`head` must be one of encoder, .*'words'"),
        ([_LABELS], {}, "span", "'there' has no span head. It has: task"),
        ([], {}, "span", "has no span head. It has: none"),
        ([_LABELS], {}, _WORD_COUNT, "has no word_count head"),
        # They have the same variables.
        ([_LABELS], {"head": "classifier"}, "multiple_choice", "classifier he"),
        ([_LABELS], {"head": "multiple_choice"}, "classifier", "_choice head"),
    ],
)
def test_a_head_that_is_not_there_or_not_known_is_an_error(
    names, known, wanted, words
):
    with pytest.raises(ValueError, match=words):
        _stored(*names, **known).head(wanted)


@pytest.mark.parametrize("name", heads.HEADS)
def test_every_head_makes_a_model_that_is_known_by_its_class(name, tiny_config):
    model = heads.HEADS[name].make_model(tiny_config, _stored())

    assert type(model).__name__ == heads.HEADS[name].model_class


def test_a_head_of_one_s_own_is_used_by_its_record(source, tmp_path):
    arrays = {**source.arrays, _WORDS: np.ones((8, 1), "float32")}
    known = Metadata(head="word_count")
    source = dataclasses.replace(source, arrays=arrays, metadata=known)
    tf1.write_ours(str(tmp_path), source)

    found = discovery.open(tmp_path)

    assert found.head(_WORD_COUNT) is _WORD_COUNT
    assert "word_count_head" in found.heads
    assert found.head("pretraining") is heads.PRETRAINING
