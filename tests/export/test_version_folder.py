import functools
import os
import pathlib
import re

import numpy as np
import pytest

from albert_tf.export import version_folder
from albert_tf.serving.signature import Signature
from albert_tf.tasks import spec as specs

write_version = functools.partial(version_folder.write_version, batching="mine")


def test_versions_are_counted_from_one(tmp_path):
    none = tmp_path / "none"
    assert version_folder.version_path(none, None) == str(none / "1")
    for name in ("1", "12", "3", "x", "99.partial"):
        (tmp_path / name).mkdir()

    assert version_folder.version_path(tmp_path, None) == str(tmp_path / "13")


def _write_file(folder):
    pathlib.Path(folder, "file").write_text("x")


def test_a_version_appears_whole_beside_a_batching_configuration(tmp_path):
    served = tmp_path / "served"

    def write(folder):
        _write_file(folder)
        assert not (served / "2").exists()

    path = write_version(served, 2, write)

    assert path == str(served / "2")
    assert sorted(os.listdir(served)) == ["2", "batching_parameters.txt"]
    assert (served / "batching_parameters.txt").read_text() == "mine"
    assert os.listdir(served / "2") == ["file"]


@pytest.mark.parametrize(
    ("head", "request_size", "batch_size", "is_split"),
    [
        ("pretraining", 32, 32, False),
        ("classifier", 1024, 32, True),
        ("beam_span", 1024, 8, True),
        ("multiple_choice", 1024, 8, True),
    ],
)
def test_requests_are_split_where_their_outputs_can_be_joined(
    head, request_size, batch_size, is_split
):
    spec = specs.head_spec_of(head)
    text = version_folder.batching_parameters(
        spec.served_batch_size, joins_outputs=spec.joins_outputs
    )
    found = dict(
        re.fullmatch(r"(\w+) \{ value: (\w+) \}", line).groups()
        for line in text.splitlines()
    )

    assert int(found["max_batch_size"]) == request_size
    assert (
        int(found.get("max_execution_batch_size", request_size)) == batch_size
    )
    assert ("enable_large_batch_splitting" in found) == is_split
    assert "num_batch_threads" not in found  # As many as the server has cores.
    # TF Serving refuses what its queue has no place for.
    assert int(found["max_enqueued_batches"]) * batch_size >= request_size


def test_after_a_failure_nothing_stays(tmp_path):
    def fail(folder):
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_version(tmp_path / "served", 1, fail)

    assert os.listdir(tmp_path / "served") == []


def test_two_exports_at_once_get_two_numbers(tmp_path):
    def write(folder):
        _write_file(folder)
        # The other one begins later and ends first.
        write_version(tmp_path, None, _write_file)

    path = write_version(tmp_path, None, write)

    assert path == str(tmp_path / "2")
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "batching_parameters.txt"]


def test_two_exports_at_once_of_one_number_are_not_mixed(tmp_path):
    def write(folder):
        write_version(tmp_path, 1, _write_file)

    with pytest.raises(ValueError, match="1 exists already.*Pass another"):
        write_version(tmp_path, 1, write)

    assert os.listdir(tmp_path / "1") == ["file"]


@pytest.mark.parametrize("name", ["", "new", "new/er/served"])
def test_a_folder_that_can_be_made_is_accepted_and_not_made(name, tmp_path):
    version_folder.check_writable(tmp_path / name)

    assert os.listdir(tmp_path) == []


def test_requests_are_read_back_by_the_published_definition(
    tmp_path, read_warmup
):
    ids, text = np.arange(300, dtype=np.int32), np.array("é", object)
    rows = {"tokens": {"ids": ids, "text": text}, "other": {"text": text}}

    version_folder.write_warmup(
        str(tmp_path),
        [
            Signature(name=name, compute=None, row=row)
            for name, row in rows.items()
        ],
        model_name="m",
    )

    found = read_warmup(tmp_path)
    names = ["tokens", "tokens", "other", "other"]
    assert [one[:2] for one in found] == [("m", name) for name in names]
    for request, batch in ((found[0][2], 1), (found[1][2], 8)):
        np.testing.assert_array_equal(request["ids"], [ids] * batch)
        texts = [one.decode() for one in request["text"]]
        assert texts == ["é"] * batch
