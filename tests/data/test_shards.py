"""What a build does with its files is tested in test_builder.py."""

import os

import pytest

from albert_tf.data import shards, sidecar
from albert_tf.data.pretraining_config import PretrainingDataConfig
from tests.data.records import make_sidecar


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with inputs, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("wiki.json", "corpus.txt", "30k.model", "vocab.txt"):
        (tmp_path / name).write_text("{}")
    return tmp_path


def output_files(names):
    config = PretrainingDataConfig(
        output_file=names, spm_model_file="30k.model", vocab_file="vocab.txt"
    )
    inputs = ["wiki.json", "corpus.txt", "gs://b/y.json"]
    return shards.output_files(config, inputs)


def test_output_files_are_separated_by_commas(folder):
    assert output_files(" a, b/c ,,d") == ["a", "b/c", "d"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("wiki", "'wiki' would overwrite the input 'wiki.json'"),
        ("corpus.txt", "'corpus.txt' would overwrite the input"),
        ("./corpus.txt", "would overwrite the input 'corpus.txt'"),
        ("link", "'link' would overwrite the input 'corpus.txt'"),
        ("hard_link", "'hard_link' would overwrite the input 'corpus.txt'"),
        ("30k.model", "would overwrite the input '30k.model'"),
        ("vocab.txt", "would overwrite the input 'vocab.txt'"),
        ("y,y.json", "'y.json' has the name of a sidecar"),
        ("y.partial", "'y.partial' has the name of a sidecar, an index"),
        ("folder", "'folder' is a folder. Name a file in it"),
        ("new/", "'new/' is a folder"),
        ("dangling", "'dangling' is a link to a file that does not exist"),
        ("y@3.tfrecord", "Put the number of shards at its end: 'y.tfrecord@3'"),
        ("y,./y", "named twice"),
        ("folder/y,other_folder/y", "named twice"),
        ("gs://b/y", "'gs://b/y' would overwrite the input 'gs://b/y.json'"),
        ("gs://b/y/", "'gs://b/y/' is a folder"),
        ("gs://b/z,gs://b/z", "named twice"),
    ],
)
def test_output_files_that_would_destroy_something_are_refused(
    folder, names, message
):
    os.symlink("corpus.txt", "link")
    os.link("corpus.txt", "hard_link")
    os.mkdir("folder")
    os.symlink("folder", "other_folder")
    os.symlink("nowhere", "dangling")

    with pytest.raises(ValueError, match=message):
        output_files(names)


@pytest.mark.parametrize("content", ["[1]", '{"version": 1}', "text", "{}"])
def test_a_file_in_place_of_a_sidecar_is_not_overwritten(folder, content):
    (folder / "train.json").write_text(content)

    with pytest.raises(ValueError, match=r"train\.json' is in the place of"):
        shards.finished_counts("train", make_sidecar())


def test_a_sidecar_whose_records_were_removed_may_be_replaced(folder):
    sidecar.write("train", make_sidecar(ngram=2))

    assert shards.finished_counts("train", make_sidecar()) is None


def test_of_several_shards_the_next_one_is_locked_in_time(folder):
    first = shards.locked_in_turn(["a", "b", "c"])
    assert next(first) == "a"
    assert list(shards.locked_in_turn(["c"])) == ["c"]
    with pytest.raises(ValueError, match="Another process is building './a'"):
        next(shards.locked_in_turn(["./a"]))

    assert next(first) == "b"
    with pytest.raises(ValueError, match="Another process is building 'b'"):
        next(shards.locked_in_turn(["b"]))
    assert list(shards.locked_in_turn(["a"])) == ["a"]
    first.close()

    assert list(shards.locked_in_turn(["b", "c"])) == ["b", "c"]
    assert list(shards.locked_in_turn([])) == []
    assert not [name for name in os.listdir() if name.startswith(".")]
