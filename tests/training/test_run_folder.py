import functools
import json
import os
import signal
import subprocess
import sys

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.training import run_folder

CONFIG = AlbertConfig(vocab_size=11)
IDENTITY = {"random_seed": 1, "optimizer": {"name": "lamb"}, "objectives": None}


def claim(folder, **changes):
    run_folder.claim(str(folder), config=CONFIG, identity=IDENTITY | changes)


def test_a_new_folder_gets_the_config_and_the_identity(tmp_path):
    folder = tmp_path / "deep" / "run"

    claim(folder)

    config = AlbertConfig.from_json_file(folder / run_folder.CONFIG_FILE)
    assert config == CONFIG
    identity = json.loads((folder / run_folder.IDENTITY_FILE).read_text())
    assert identity == IDENTITY


def test_the_same_run_may_come_again(tmp_path):
    claim(tmp_path)
    (tmp_path / "checkpoints").mkdir()

    claim(tmp_path)


def test_another_run_is_refused_by_the_settings_that_differ(tmp_path):
    claim(tmp_path)

    with pytest.raises(
        ValueError,
        match=r"belongs to another run, with random_seed=1 \(now 2\)\. Pass",
    ):
        claim(tmp_path, random_seed=2)


def test_settings_that_one_of_them_lacks_differ(tmp_path):
    claim(tmp_path, precision="float16")

    with pytest.raises(ValueError, match=r"precision='float16' \(now None\)"):
        claim(tmp_path)


def test_files_of_something_else_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")

    with pytest.raises(ValueError, match=r"files but no run\.json.*empty it"):
        claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "run").write_text("")

    with pytest.raises(ValueError, match="run' is a file. Pass a folder"):
        claim(tmp_path / "run")


def test_what_differs_inside_a_setting_is_named_alone(tmp_path):
    claim(tmp_path)

    with pytest.raises(
        ValueError, match=r"with optimizer\.name='lamb' \(now 'adamw'\)\. Pass"
    ):
        claim(tmp_path, optimizer={"name": "adamw"})


def test_checking_writes_nothing(tmp_path):
    run_folder.check(str(tmp_path / "run"), IDENTITY)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "left", ["run.json.partial", "run.json", "albert_config.json.partial"]
)
def test_a_run_killed_while_it_claimed_its_folder_may_come_again(
    left, tmp_path
):
    whole = tmp_path / "whole"
    claim(whole)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / left).write_bytes(b'{"rando')
    if left != "run.json.partial":
        text = (whole / run_folder.IDENTITY_FILE).read_text()
        (folder / run_folder.IDENTITY_FILE).write_text(text)

    claim(folder)

    config = AlbertConfig.from_json_file(folder / run_folder.CONFIG_FILE)
    assert config == CONFIG


def test_a_disk_that_is_full_leaves_a_folder_that_can_be_used(
    tmp_path, monkeypatch
):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(AlbertConfig, "to_json_file", fail)
        with pytest.raises(OSError, match="No space left"):
            claim(tmp_path)

    claim(tmp_path)


def test_flags_and_results_are_written_as_they_are(tmp_path):
    run_folder.write_flags(str(tmp_path), "--log_steps=5\n")
    run_folder.write_results(str(tmp_path), {"b": 0.1, "a": 3})

    flags = (tmp_path / run_folder.FLAGS_FILE).read_text()
    results = (tmp_path / run_folder.RESULTS_FILE).read_text()
    assert flags == "--log_steps=5\n"
    assert results == '{\n  "a": 3,\n  "b": 0.1\n}\n'


def test_a_folder_that_is_locked_is_refused_and_then_free(tmp_path):
    folder = tmp_path / "run"
    with run_folder.locked(str(folder)):
        (folder / "run.json").write_text("{}")
        with (
            pytest.raises(ValueError, match="Another process is training in"),
            run_folder.locked(str(folder)),
        ):
            pass

    with run_folder.locked(str(folder)):
        assert folder.exists()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from albert_tf.training import run_folder\n"
        "with run_folder.locked(sys.argv[1]):\n"
        "    open(os.path.join(sys.argv[1], 'run.json'), 'w')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder = str(tmp_path / "run")
    done = subprocess.run([sys.executable, "-c", code, folder])

    assert done.returncode == -signal.SIGKILL
    with run_folder.locked(folder):
        assert os.path.exists(os.path.join(folder, run_folder.LOCK_FILE))


def test_a_new_folder_in_which_nothing_was_done_is_removed(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir()
    for folder in (new, old):
        with run_folder.locked(str(folder)):
            assert folder.exists()

    assert not new.exists()
    assert old.exists()


def test_a_lock_whose_file_was_removed_meanwhile_is_no_lock(
    tmp_path, monkeypatch
):
    flock = run_folder.fcntl.flock

    def remove_and_lock(file, flags):
        os.remove(file.name)
        flock(file, flags)

    monkeypatch.setattr(run_folder.fcntl, "flock", remove_and_lock)

    with (
        pytest.raises(ValueError, match="Another process"),
        run_folder.locked(str(tmp_path)),
    ):
        pass


def test_what_an_early_failure_leaves_is_not_in_the_way(tmp_path):
    (tmp_path / run_folder.CACHE_FOLDER).mkdir()
    (tmp_path / run_folder.LOCK_FILE).touch()

    run_folder.check(str(tmp_path), {"seed": 1})


def make_weights(folder, init_checkpoint):
    (folder / "best").mkdir()
    identity = {"init_checkpoint": init_checkpoint}
    (folder / "run.json").write_text(json.dumps(identity))
    return str(folder / "best")


@pytest.mark.parametrize("given", [None, "base"])
@pytest.mark.parametrize("is_training", [True, False])
def test_a_run_uses_the_weights_that_came_of_it(given, is_training, tmp_path):
    trained = make_weights(tmp_path, given)

    found = run_folder.weights_to_use(
        str(tmp_path), given, is_training=is_training
    )

    assert found == trained


def test_other_weights_are_those_that_are_meant(tmp_path):
    found = functools.partial(
        run_folder.weights_to_use, str(tmp_path), "other", is_training=False
    )

    assert found() == "other"
    make_weights(tmp_path, "base")
    assert found() == "other"
    assert run_folder.weights_to_use(
        str(tmp_path), "other", is_training=True
    ) == str(tmp_path / "best")


@pytest.mark.parametrize(
    ("given", "is_training"), [(None, False), ("base", True)]
)
def test_without_weights_there_is_nothing_to_use(given, is_training, tmp_path):
    with pytest.raises(ValueError, match=r"There are no trained weights in '"):
        run_folder.weights_to_use(str(tmp_path), given, is_training=is_training)


def test_a_folder_is_used_for_the_same_model_only(tmp_path):
    run_folder.check_use(str(tmp_path), {"task": "cola"})
    (tmp_path / "run.json").write_text('{"task": "rte", "seed": 3}')

    run_folder.check_use(str(tmp_path), {"task": "rte"})
    with pytest.raises(ValueError, match=r"task='rte' \(now 'cola'\)"):
        run_folder.check_use(str(tmp_path), {"task": "cola"})


def test_of_many_differences_a_few_are_named(tmp_path):
    names = "abcdefg"
    (tmp_path / "run.json").write_text(json.dumps(dict.fromkeys(names, 1)))

    with pytest.raises(ValueError, match=r"e=1 \(now 2\); 2 more\. Pass"):
        run_folder.check(str(tmp_path), dict.fromkeys(names, 2))
    with pytest.raises(ValueError, match=r"with g=1 \(now 2\); a=1 \(now None"):
        run_folder.check(str(tmp_path), {"g": 2})


def test_of_a_digest_the_first_digits_are_shown(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"records": "ab" * 32}))

    with pytest.raises(ValueError, match=r"records=abababab\.\.\. \(now None"):
        run_folder.check(str(tmp_path), {"records": None})


@pytest.mark.parametrize(
    ("path", "is_known"),
    [
        ("run", True),
        ("run/best", True),
        ("run/best/model.ckpt", True),
        ("run/checkpoints/step-00000002/model.ckpt", True),
        ("run/other", False),
        ("best", False),
    ],
)
def test_weights_know_the_run_that_made_them(path, is_known, tmp_path):
    claim(tmp_path / "run")

    found = run_folder.identity_of_weights(str(tmp_path / path))

    assert bool(found) == is_known


@pytest.mark.parametrize("text", ["", "[", "[]"])
def test_a_damaged_identity_is_told(text, tmp_path):
    (tmp_path / "run.json").write_text(text)

    for read in (run_folder.read_identity, run_folder.read_settings):
        with pytest.raises(ValueError, match=r"run\.json is damaged"):
            read(str(tmp_path))


def test_the_settings_of_a_run_can_be_read(tmp_path):
    assert run_folder.read_settings(str(tmp_path)) == {}
    (tmp_path / "run.json").write_text('{"settings": {"labels": []}}')
    assert run_folder.read_settings(str(tmp_path)) == {"labels": []}
