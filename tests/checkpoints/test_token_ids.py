"""Ids of a written folder are compared with ours, and differences counted."""

import dataclasses

import pytest

from albert_tf.checkpoints import huggingface, tf1, token_ids
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests.checkpoints.weights import convert, weights_of


@pytest.fixture
def source(source, tiny_spm_model):
    return dataclasses.replace(source, vocabulary=str(tiny_spm_model))


def test_sentences_are_the_same_each_time_and_many(source):
    texts = token_ids.sentences(source.load_tokenizer())

    assert len({*texts}) == 300
    assert texts == token_ids.sentences(source.load_tokenizer())
    letters = " ".join(texts)
    assert all(one in letters for one in ("ï", "漢", "😀", "(ABBA),", "U.S."))
    assert "[CLS]" not in letters


def test_sentences_with_other_ids_are_counted(source, tmp_path, monkeypatch):
    huggingface.write(str(tmp_path), source)
    texts = ["The snow fell.", "the [CLS]", "a day"]
    monkeypatch.setattr(token_ids, "sentences", lambda tokenizer: texts)

    (note,) = token_ids.compare(str(tmp_path), source)

    assert str(note) == (
        "compared  3 sentences: the ids of 1 differ, such as those of "
        "'the [CLS]'"
    )


def test_a_folder_without_a_tokenizer_json_has_nothing_to_compare(
    source, tmp_path
):
    assert token_ids.compare(str(tmp_path), source) == []


def test_a_verified_conversion_says_how_many_differ(
    tiny_config, tiny_spm_model, tmp_path
):
    config = dataclasses.replace(tiny_config, vocab_size=300)
    ours = tmp_path / "ours"
    ours.mkdir()
    source = Checkpoint(
        arrays=weights_of(PretrainingModel(config, seed=1)),
        config=config,
        vocabulary=str(tiny_spm_model),
    )
    tf1.write_ours(str(ours), source)

    notes = [
        convert(ours, tmp_path / name, output_format, verify=verify).notes
        for name, output_format, verify in (
            ("plain", "huggingface", False),
            ("verified", "huggingface", True),
            # Its `tokenizer.json` is a configuration of Keras.
            ("preset", "keras_hub", True),
        )
    ]

    kinds = [[note.kind for note in one] for one in notes]
    assert kinds[:2] == [[], ["compared"]]
    assert "compared" not in kinds[2]
    assert notes[1][0].text.startswith("300 sentences: the ids of ")
