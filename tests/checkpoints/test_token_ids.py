"""Ids of a written folder are compared with ours, and differences counted."""

import dataclasses
import shutil

import pytest

from albert_tf.checkpoints import huggingface, token_ids
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests import tiny
from tests.checkpoints.weights import convert, save, weights_of


@pytest.fixture
def source(source, tiny_spm_model):
    return dataclasses.replace(source, vocabulary=str(tiny_spm_model))


def test_sentences_are_the_same_each_time_and_many(source):
    texts = token_ids.sentences(source.tokenizer)

    assert len({*texts}) == 300
    assert texts == token_ids.sentences(source.tokenizer)
    letters = " ".join(texts)
    assert all(one in letters for one in ("ï", "漢", "😀", "(ABBA),", "U.S."))
    assert "[CLS]" not in letters


def test_sentences_with_other_ids_are_counted(source, tmp_path, monkeypatch):
    huggingface.write(str(tmp_path), source)
    texts = ["The snow fell.", "the x[CLS]25, day", "a day"]
    monkeypatch.setattr(token_ids, "sentences", lambda tokenizer: texts)

    (note,) = token_ids.compare(source.tokenizer, [str(tmp_path)])

    assert str(note) == (
        "compared  3 sentences: the ids of 1 differ, such as those of "
        "'the x[CLS]25, day'"
    )
    # Numbers and commas are known to differ; this is not.
    texts.append("x25, the [CLS]")
    with pytest.raises(ValueError, match=r"4 sentences: .* 2 differ"):
        token_ids.compare(source.tokenizer, [str(tmp_path)])


def test_added_tokens_are_compared_in_capitals_too(source):
    tokenizer = source.tokenizer.with_tokens(["covid"])
    words = " ".join(token_ids.sentences(tokenizer)).split()

    assert {"covid", "COVID", "Covid"} <= {*words}


def test_a_folder_without_a_tokenizer_json_has_nothing_to_compare(
    source, tmp_path
):
    assert token_ids.compare(source.tokenizer, [str(tmp_path)]) == []


def test_a_verified_conversion_says_how_many_differ(tiny_spm_model, tmp_path):
    config = tiny.config(vocab_size=300, max_position_embeddings=32)
    model = PretrainingModel(config, seed=1)
    ours = save(tmp_path / "ours", config, weights_of(model))
    shutil.copy(tiny_spm_model, ours)

    summary = convert(ours, tmp_path / "theirs", "huggingface", verify=True)

    (note,) = summary.notes
    assert str(note).startswith("compared  300 sentences: the ids of ")
