"""Tests with the mark `beam` need Apache Beam: `make test-beam`."""

import dataclasses
import gzip

import numpy as np
import pytest

from albert_tf.data import beam_runner, builder, shard_building
from albert_tf.data.corpus import survey
from albert_tf.data.pretraining_config import PretrainingDataConfig
from tests import tiny

WORDS = list("abcdefgh")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two texts of several blocks, a small one, and a vocabulary."""
    folder = tmp_path_factory.mktemp("corpus")
    tiny.write_vocabulary(folder / "vocab", WORDS)
    rng = np.random.default_rng(0)
    for name, num_documents in [("a.txt", 80), ("b.txt.gz", 50), ("c.txt", 2)]:
        sentences = rng.choice(WORDS, (num_documents, 200, 50))
        documents = ["\n".join(map(" ".join, lines)) for lines in sentences]
        data = "\n\n".join(documents).encode()
        pack = gzip.compress if name.endswith(".gz") else bytes
        (folder / name).write_bytes(pack(data))
    return folder


@pytest.fixture
def build(corpus, tmp_path, monkeypatch):
    """Builds five shards in a folder of this name."""

    def run(name, **changes):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        settings = {
            "input_file": f"{corpus}/*.txt*",
            "output_file": "train@5",
            "vocab_file": f"{corpus}/vocab",
            "masking": "dynamic",
            "max_seq_length": 128,
        }
        report = builder.build(PretrainingDataConfig(**settings | changes))
        return report, contents(tmp_path / name)

    return run


def contents(folder):
    """The bytes of all files, hidden ones included, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("No 'a'. [while running 'Survey']", "No 'a'."),
        (
            "bundle inst_1 failed:Traceback (most recent call last):\n"
            '  File "a.py"\nUnicodeError: x\n\nDuring another:\n'
            "OSError: No [room]. [while running 'Build-ptransform-7']\n\n",
            "No [room].",
        ),
    ],
)
def test_the_cause_is_the_last_error_that_beam_quotes(
    monkeypatch, error, message
):
    class Pipeline:
        def run(self):
            raise RuntimeError(error)

    with pytest.raises(ValueError) as caught:
        beam_runner.finish(Pipeline())

    assert str(caught.value) == message


def test_dask_needs_a_running_cluster(build):
    runner = "--runner=apache_beam.runners.dask.dask_runner.DaskRunner"

    with pytest.raises(ValueError, match="--dask_client_address=HOST:PORT"):
        build("dask", runner="beam", beam_options=runner)


@pytest.fixture
def task(corpus, tmp_path):
    """A shard to build, and the settings."""
    config = PretrainingDataConfig(
        input_file=f"{corpus}/c.txt",
        output_file=str(tmp_path / "out"),
        vocab_file=f"{corpus}/vocab",
        masking="dynamic",
    )
    contents = survey([config.input_file], config)
    _, [shard] = shard_building.plan(
        config, config.load_tokenizer(), contents, [config.output_file]
    )
    return shard, contents.requests({0: 1}), config


def _written(folder):
    """Returns each file of a folder, with the time it was last written."""
    return {path: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_shard_that_is_built_twice_is_written_once(task, tmp_path):
    beam_runner.build_shard(*task)
    before = _written(tmp_path)

    beam_runner.build_shard(*task)

    assert len(before) == 3
    assert _written(tmp_path) == before


def test_a_worker_with_another_vocabulary_builds_nothing(task, tmp_path):
    shard, requests, config = task
    other = dataclasses.replace(shard, tokenizer_hash="abc")

    with pytest.raises(ValueError, match="not the same on all machines: .*voc"):
        beam_runner.build_shard(other, requests, config)

    assert not list(tmp_path.iterdir())


@pytest.mark.beam
def test_every_runner_writes_the_same_bytes(build):
    report, expected = build("local")
    assert len(expected) == 15
    assert build("local 2", num_workers=2)[1] == expected

    beam, files = build("beam", runner="beam")

    assert files == expected
    assert beam.counts == beam.built == report.counts
    assert not beam.kept_files


@pytest.mark.beam
@pytest.mark.parametrize("method", ["exact", "minhash"])
def test_every_runner_leaves_the_same_duplicates_out(build, tmp_path, method):
    if method == "minhash":
        pytest.importorskip("datasketch")
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(WORDS, 500)) for _ in range(900)]
    for name, part in [("x", texts[:600]), ("y", texts[200:])]:
        (tmp_path / name).write_text("\n\n".join(part).replace(" c ", "\n"))
    settings = {"input_file": f"{tmp_path}/x,{tmp_path}/y"}

    report, expected = build("local", deduplicate=method, **settings)
    assert report.duplicates.documents == 400
    assert report.counts.documents == 900

    beam, files = build("beam", runner="beam", deduplicate=method, **settings)

    assert files == expected
    assert beam.duplicates == report.duplicates


@pytest.mark.beam
def test_text_and_records_may_be_remote(build, corpus, tmp_path):
    _, expected = build("local")
    remote = {
        "input_file": f"file://{corpus}/*.txt*",
        "vocab_file": f"file://{corpus}/vocab",
        "output_file": f"file://{tmp_path}/remote/train@5",
        "runner": "beam",
    }

    assert not build("empty", **remote)[0].kept_files

    files = contents(tmp_path / "remote")
    assert files.keys() == expected.keys()
    for name in files:  # Sidecars say where the files are.
        assert name.endswith(".json") or files[name] == expected[name]
    (tmp_path / "remote" / "train-00003-of-00005").unlink()
    assert len(build("empty", **remote)[0].kept_files) == 4
    assert contents(tmp_path / "remote") == files
    assert not contents(tmp_path / "empty")


@pytest.mark.beam
def test_finished_shards_are_kept_and_the_others_are_built(build, tmp_path):
    _, expected = build("out")
    missing = "train-00003-of-00005"
    (tmp_path / "out" / missing).unlink()

    report, files = build("out", runner="beam")

    assert files == expected
    assert len(report.kept_files) == 4 and missing not in report.kept_files
    assert build("out", runner="beam")[0].built.records == 0


@pytest.mark.beam
def test_the_error_of_a_worker_is_raised(build, tmp_path, capfd):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"a b\n\xff\n")

    with pytest.raises(ValueError, match=r"bad.txt, line 2: not UTF-8.*=0\.$"):
        build("out", runner="beam", input_file=str(bad))

    assert capfd.readouterr().err == ""
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.beam
def test_bad_lines_are_counted_over_all_files(build, tmp_path):
    for name in "xy":
        (tmp_path / name).write_bytes(b"a b\n\xff\nc d e\n")
    input_file = f"{tmp_path}/x,{tmp_path}/y"

    report, _ = build(
        "out", runner="beam", input_file=input_file, max_bad_lines=2
    )

    assert report.num_bad_lines == 2
    with pytest.raises(ValueError, match=r"y, line 2.*max_bad_lines=1"):
        build("2", runner="beam", input_file=input_file, max_bad_lines=1)


@pytest.mark.beam
def test_options_of_the_pipeline_are_beams(build):
    with pytest.raises(ValueError, match="NoSuchRunner"):
        build("out", runner="beam", beam_options="--runner=NoSuchRunner")


@pytest.mark.beam
def test_a_dask_cluster_writes_the_same_bytes(build, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    _, expected = build("local")
    (tmp_path / "dask").mkdir()
    monkeypatch.chdir(tmp_path / "dask")  # That of the workers, too.

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        report, files = build(
            "dask",
            runner="beam",
            beam_options="--runner=apache_beam.runners.dask.dask_runner."
            f"DaskRunner --dask_client_address={address}",
        )

    assert files == expected
    assert not report.kept_files
