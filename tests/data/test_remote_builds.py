"""Builds of remote files: `memory://` is like a bucket, `file://` like HDFS."""

import hashlib
import itertools

import fsspec
import pytest

from albert_tf import files, globs
from albert_tf.data import builder, corpus, pretraining_instances
from albert_tf.data.pretraining_config import PretrainingDataConfig
from tests.data.records import LETTERS, twelve_documents
from tests.tiny import SPECIAL_TOKENS

NAMES = ["out-00000-of-00002", "out-00001-of-00002"]
SUFFIXES = ("", ".index", ".json")


def write(path, text):
    with files.atomic_write(path) as file:
        file.write(text.encode())


def find(folder):
    """The content of all records, indexes and sidecars, by name."""
    return {
        # Sidecars say where files are.
        path.rpartition("/")[2]: files.read_bytes(path).replace(
            folder.encode(), b""
        )
        for path in globs.expand_globs(f"{folder}/records/*")
    }


@pytest.fixture
def make_folder(monkeypatch):
    """Puts twelve documents, in blocks of two, and a vocabulary somewhere."""
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 100)

    def make(folder):
        documents = twelve_documents()
        write(f"{folder}/corpus/1.txt", "\n\n".join(documents[:8]) + "\n")
        write(f"{folder}/corpus/2.txt", "\n\n".join(documents[8:]) + "\n")
        write(f"{folder}/vocab", "\n".join([*SPECIAL_TOKENS, *LETTERS]))
        return folder

    fsspec.filesystem("memory").store.clear()
    return make


@pytest.fixture(params=["memory", "file"])
def folder(request, make_folder, tmp_path):
    if request.param == "memory":
        return make_folder("memory://bucket/folder")
    return make_folder(f"file://{tmp_path}/folder")


def build(folder, **changes):
    settings = {
        "input_file": f"{folder}/corpus/*.txt",
        "output_file": f"{folder}/records/out@2",
        "vocab_file": f"{folder}/vocab",
        "max_seq_length": 24,
        "masking": "dynamic",
    }
    return builder.build(PretrainingDataConfig(**settings | changes))


def test_remote_records_are_those_of_local_files(folder, make_folder, tmp_path):
    local = make_folder(f"{tmp_path}/local")
    build(local)

    build(folder)

    found = find(folder)
    assert sorted(found) == sorted(
        name + end for name, end in itertools.product(NAMES, SUFFIXES)
    )
    assert found == find(local)


def test_what_is_finished_is_kept_and_the_rest_is_built(folder, caplog):
    build(folder)
    expected = find(folder)
    files.remove(f"{folder}/records/{NAMES[0]}")
    write(f"{folder}/records/{NAMES[1]}", "cut short")

    report = build(folder)

    assert find(folder) == expected
    assert not report.kept_files
    assert "was cut short, or has lost its index; building" in caplog.text
    assert len(build(folder).kept_files) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "Another process has built .*00000-of-00002' in the meantime"),
        ({"random_seed": 1}, "was made by another build: random_seed=1"),
    ],
)
def test_of_two_builds_at_once_one_is_refused(
    folder, monkeypatch, changes, message
):
    build_block = pretraining_instances.build_block

    def start_another(block, **rest):
        monkeypatch.setattr(pretraining_instances, "build_block", build_block)
        build(folder, **changes)
        return build_block(block, **rest)

    monkeypatch.setattr(pretraining_instances, "build_block", start_another)

    with pytest.raises(ValueError, match=message):
        build(folder)

    assert len(build(folder, **changes).kept_files) == 2
    found = find(folder)
    for name in NAMES:
        digest = hashlib.sha256(found[name])
        assert found[f"{name}.index"].endswith(digest.digest())
        assert digest.hexdigest().encode() in found[f"{name}.json"]
