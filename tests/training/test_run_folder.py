"""The output directory of a run: fingerprint, lock, files, weights."""

import dataclasses
import json

import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.metrics.scores import Score, Scores
from albert_tf.training import run_folder
from albert_tf.training.callbacks import Result
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.run_folder import RunFolder
from tests.training import runs

FINGERPRINT = {"random_seed": 1, "config": {"vocab_size": 9}, "records": None}


@pytest.fixture
def claim():
    """A function that claims a directory, as a training run does."""

    def claim(path, flags_text="", **changes):
        folder = RunFolder(path=str(path), fingerprint=FINGERPRINT | changes)
        with folder.locked():
            folder.claim(runs.run_config(flags_text=flags_text))

    return claim


def check(path, fingerprint):
    RunFolder(path=str(path), fingerprint=fingerprint).check()


def test_a_fingerprint_is_all_that_determines_the_numbers():
    values = run_folder.fingerprint(runs.run_config(), records="abc")

    assert values.keys() > {"config", "records", "init_checkpoint", "epsilon"}
    assert {"train_batch_size", "precision", "random_seed"} < values.keys()
    # Neither the number of devices nor of micro-batches changes the numbers.
    same = runs.run_config(strategy="mirrored", gradient_accumulation_steps=2)
    assert run_folder.fingerprint(same, records="abc") == values


def test_a_new_folder_gets_fingerprint_config_and_flags(tmp_path, claim):
    path = tmp_path / "deep" / "run"
    check(path, FINGERPRINT)
    assert not path.exists()

    for _ in range(2):  # The same run may come again.
        claim(path, flags_text="--log_steps=5\n", labels=(0, 1))

    assert AlbertConfig.from_json_file(path / "albert_config.json") == (
        runs.config()
    )
    expected = FINGERPRINT | {"labels": [0, 1], "version": 1}
    assert json.loads((path / "run.json").read_text()) == expected
    assert (path / "flags.txt").read_text() == "--log_steps=5\n"


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({}, {"random_seed": 2}, r"with random_seed=1 \(now 2\)\. Example"),
        ({"precision": "float16"}, {}, r"precision='float16' \(now None\)"),
        ({"num_train_steps": 9}, {"num_train_steps": 8}, r"steps=9 \(now 8\)"),
        (
            {"init_checkpoint": "a"},
            {"init_checkpoint": "b"},
            r"init_checkpoint='a' \(now 'b'\)",
        ),
        (
            {"init_checkpoint": "a"},
            {"init_checkpoint": None},
            r"init_checkpoint='a' \(now None\)",
        ),
        (
            {"eval_records": "x"},
            {"eval_records": "y"},
            r"eval_records='x' \(now 'y'\)",
        ),
        (
            {},
            {"config": {"vocab_size": 8}},
            r"with config\.vocab_size=9 \(now 8\)\. Example",
        ),
    ],
)
def test_another_run_is_refused_by_the_settings_that_differ(
    before, now, message, tmp_path, claim
):
    claim(tmp_path, **before)

    with pytest.raises(ValueError, match=f"another run, .*{message}"):
        claim(tmp_path, **now)


def test_a_run_is_refused_with_the_files_of_its_examples(tmp_path, claim):
    flags = "--eval_file=b\n--output_dir=c\n--spm_model_file=d\n--train_file=e"
    claim(tmp_path, flags, records="x")

    files = r"Examples: --eval_file=b, --train_file=e\. Pass"
    with pytest.raises(ValueError, match=rf"'x' \(now 'y'\)\. .*{files}"):
        claim(tmp_path, records="y")


def test_records_of_a_run_of_an_older_version_may_differ(tmp_path, claim):
    claim(tmp_path, records="x")
    new = {"bias_correction": False, "records": "y"}

    with pytest.raises(ValueError, match="read by an older version, whose rec"):
        claim(tmp_path, **new)
    with pytest.raises(ValueError, match=r"Examples: \(none\)\. Pass another"):
        claim(tmp_path, records="y")
    claim(tmp_path, **new | {"records": "x"})


def test_files_of_something_else_are_refused(tmp_path, claim):
    (tmp_path / "thesis.tex").write_text("")
    # What an early failure leaves is not in the way.
    (tmp_path / run_folder.LOCK_FILE).touch()

    with pytest.raises(ValueError, match=r"files but no run\.json.*Pass an"):
        claim(tmp_path)
    (tmp_path / "thesis.tex").unlink()
    claim(tmp_path)


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ({"num_train_steps": 8}, {"num_train_steps": 9}, None),
        # A run that is not evaluated knows no records to evaluate.
        ({"eval_records": "x"}, {"eval_records": None}, {"eval_records": "x"}),
        ({"eval_records": None}, {"eval_records": "x"}, None),
        ({"init_checkpoint": "a"}, {"init_checkpoint": "a/"}, {}),
        ({"init_checkpoint": "b/../a"}, {"init_checkpoint": "./a"}, {}),
    ],
)
def test_what_does_not_change_the_numbers_is_not_compared(
    before, now, kept, tmp_path, claim
):
    claim(tmp_path, **before)

    claim(tmp_path, **now)

    found = run_folder.read_fingerprint(str(tmp_path))
    expected = now if kept is None else kept
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("name", ["model.ckpt-best.index", "model.safetensors"])
def test_weights_are_the_same_wherever_they_are(
    name, tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(b"weights")

    def start(path):
        config = runs.run_config(init_checkpoint=path)
        values = run_folder.fingerprint(config)
        folder = RunFolder(path=str(tmp_path / "run"), fingerprint=values)
        with folder.locked():
            folder.claim(config)

    start("a")
    for path in ("a/", str(tmp_path / "a"), "b"):
        start(path)
    if name.startswith("model.ckpt"):
        start("b/model.ckpt-best")
    assert not caplog.text
    (tmp_path / "b" / name).write_bytes(b"others")
    with pytest.raises(ValueError, match=r"init_checkpoint='a' \(now 'b'\)"):
        start("b")
    (tmp_path / "a" / name).write_bytes(b"others")
    start("a")
    assert "weights of a have changed since this run began" in caplog.text


def test_a_fine_tuning_is_its_task_s_settings_too(tmp_path):
    config = dataclasses.replace(
        runs.make_job(tmp_path).config, task_settings={"dropout_prob": 0.1}
    )
    folder = run_folder.finetuning_folder(config, runs.WordData(), "abc")
    with folder.locked():
        folder.claim(config)

    def check(**changes):
        changed = dataclasses.replace(config, **changes)
        run_folder.finetuning_folder(changed, runs.WordData(), "abc").check()

    check(best_metric="accuracy")
    for changes, words in (
        ({"best_metric": "f1"}, r"best_metric='accuracy' \(now 'f1'\)"),
        (
            {"task_settings": {"dropout_prob": 0.2}},
            r"task_settings.dropout_prob=0.1 \(now 0.2\)",
        ),
        ({"layerwise_lr_decay": 0.5}, r"layerwise_lr_decay=1.0 \(now 0.5\)"),
    ):
        with pytest.raises(ValueError, match=words):
            check(**changes)


def test_a_run_continues_that_has_not_recorded_what_it_learnt(tmp_path):
    config = runs.make_job(tmp_path).config
    older = run_folder.finetuning_folder(config, runs.WordData(), "abc")
    with older.locked():
        older.claim(config)

    rules = {"scheme": "IOB2", "never_first": ["!"]}
    data = runs.WordData(rules=rules)
    run_folder.finetuning_folder(config, data, "abc").check()
    other = runs.WordData(words="spaced")
    with pytest.raises(ValueError, match=r"words=None \(now 'spaced'\)"):
        run_folder.finetuning_folder(config, other, "abc").check()


def test_a_relative_warm_up_lets_a_run_become_longer(tmp_path):
    config = dataclasses.replace(
        runs.make_job(tmp_path).config,
        num_train_steps=10,
        num_warmup_steps=1,
        warmup_proportion=0.1,
    )
    longer = dataclasses.replace(config, num_train_steps=20, num_warmup_steps=2)
    folder = run_folder.finetuning_folder(config, runs.WordData(), "abc")
    with folder.locked():
        folder.claim(config)

    run_folder.finetuning_folder(longer, runs.WordData(), "abc").check()
    other = dataclasses.replace(longer, warmup_proportion=0.2)
    with pytest.raises(ValueError, match="num_warmup_steps='0.1 of all'"):
        run_folder.finetuning_folder(other, runs.WordData(), "abc").check()


@pytest.mark.parametrize(
    "left", ["run.json.01234567.partial", "albert_config.json"]
)
def test_a_run_killed_while_it_claimed_its_folder_may_come_again(
    left, tmp_path, claim
):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / left).write_bytes(b'{"rando')
    if left == "albert_config.json":
        written = FINGERPRINT | {"version": 1}
        (folder / "run.json").write_text(json.dumps(written))

    claim(folder)

    config = AlbertConfig.from_json_file(folder / CONFIG_FILE)
    assert config == runs.config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"precision": "float32"}', "belongs to another run"),
        ('{"version": 99}', "of a newer version of albert_tf"),
    ],
)
def test_a_run_of_another_version_is_named_as_such(text, message, tmp_path):
    (tmp_path / "run.json").write_text(text)

    with pytest.raises(ValueError, match=message):
        check(tmp_path, FINGERPRINT)


_EVALUATION = {"scores": {"null_threshold": 2.0}, "step": 7, "data": "a.json"}


@pytest.mark.parametrize("is_own", [True, False])
def test_an_evaluation_is_kept_with_the_weights_if_they_are_the_run_s(
    is_own, tmp_path
):
    path = tmp_path / ("run" if is_own else "other") / "best"
    path.mkdir(parents=True)
    (tmp_path / "run").mkdir(exist_ok=True)
    known = Metadata(task="squad_v2", null_threshold=1.0)
    weights = Checkpoint(path=str(path), metadata=known)
    config = runs.run_config(output_dir=str(tmp_path / "run"))

    result = Result(
        scores=Scores(entries=(Score("f1", 0.5),)), evaluation=_EVALUATION
    )
    written = run_folder.write_results(config, weights, result)

    results = json.loads((tmp_path / "run/eval_results.json").read_text())
    assert results["f1"] == 0.5
    assert results["evaluated"] == {"step": 7, "data": "a.json"}
    assert written.is_current
    wanted = known.measured(_EVALUATION["scores"], _EVALUATION)
    assert Metadata.read(path) == (wanted if is_own else Metadata())


@pytest.mark.parametrize(
    ("trains", "evaluation", "is_reported"),
    [(True, None, True), (True, _EVALUATION, False), (False, None, False)],
)
def test_a_training_without_evaluation_leaves_no_report_of_other_weights(
    trains, evaluation, is_reported, tmp_path
):
    (tmp_path / "best").mkdir()
    config = runs.run_config(
        FinetuningConfig,
        output_dir=str(tmp_path),
        max_seq_length=8,
        do_train=trains,
        do_predict=True,
    )
    known = Metadata(evaluation=evaluation)
    weights = Checkpoint(path=str(tmp_path / "best"), metadata=known)

    written = run_folder.write_results(config, weights, Result())
    assert written.is_current == is_reported
    assert not (tmp_path / "eval_results.json").exists()


def test_what_kills_left_in_a_run_is_put_right_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    kept = ["best.old", "best.partial", "checkpoints/step-00000005"]
    left = [
        *("best.01234567.replaced", "best.89abcdef.partial"),
        "checkpoints/step-00000010.01234567.replaced",
    ]
    for name in (*kept, *left):
        (run / name).mkdir(parents=True)
    for name in ("run.json", "predictions.tsv", "eval/predictions.tsv"):
        (run / f"{name}.01234567.partial").parent.mkdir(exist_ok=True)
        (run / f"{name}.01234567.partial").touch()
    (run / "run.json").write_text('{"seed": 1, "version": 1}')

    with RunFolder(path=str(run), fingerprint={"seed": 1}).locked():
        found = {str(path.relative_to(run)) for path in run.rglob("*")}

    # What was moved away comes back where nothing took its place.
    back = {"best", "checkpoints/step-00000010"}
    others = {"checkpoints", "eval", "run.json"}
    assert found - {run_folder.LOCK_FILE} == {*kept, *back, *others}


def test_a_folder_that_is_locked_is_refused_and_then_free(tmp_path):
    folder = RunFolder(path=str(tmp_path), fingerprint={"seed": 1})
    with (
        folder.locked(),
        pytest.raises(ValueError, match="Another process is training in"),
        folder.locked(),
    ):
        pass

    with folder.locked():
        assert tmp_path.exists()


@pytest.fixture
def trained_folder(tmp_path):
    """The folder of a run that started from weights named `start`."""
    (tmp_path / "run" / "best").mkdir(parents=True)
    values = json.dumps({"init_checkpoint": "start"})
    (tmp_path / "run" / "run.json").write_text(values)
    return tmp_path / "run"


@pytest.mark.parametrize("given", [None, "start", "start/", "run", "run/best"])
def test_in_its_folder_a_run_uses_its_own_weights(
    given, trained_folder, monkeypatch
):
    monkeypatch.chdir(trained_folder.parent)

    assert run_folder.weights_to_use("run", given) == "run/best"


@pytest.mark.parametrize("name", ["other", "run/checkpoints/step-00000005"])
def test_the_results_of_a_run_are_not_overwritten_by_those_of_others(
    name, trained_folder
):
    folder, given = str(trained_folder), str(trained_folder.parent / name)

    with pytest.raises(
        ValueError,
        match="has the results of its own run.* Pass another --output_dir, or "
        "leave --init_checkpoint out",
    ):
        run_folder.weights_to_use(folder, given)
    found = run_folder.weights_to_use(folder)
    assert found == str(trained_folder / "best")


def test_without_trained_weights_the_given_ones_are_used(tmp_path):
    folder = str(tmp_path)

    assert run_folder.weights_to_use(folder, "a") == "a"
    with pytest.raises(ValueError, match="There are no trained weights in"):
        run_folder.weights_to_use(folder)


def test_weights_are_used_for_the_same_model_only(tmp_path):
    config = runs.run_config(output_dir=str(tmp_path))
    run_folder.check_model(config, "cola")
    kept = {"config": config.albert_config.to_dict(), "task": "rte", "seed": 3}
    (tmp_path / "run.json").write_text(json.dumps(kept))
    other_dropout, other_size = (
        dataclasses.replace(config, albert_config=runs.config(**changes))
        for changes in ({"hidden_dropout_prob": 0.25}, {"intermediate_size": 9})
    )

    run_folder.check_model(other_dropout, "rte")
    with pytest.raises(ValueError, match=r"task='rte' \(now 'cola'\)"):
        run_folder.check_model(config, "cola")
    with pytest.raises(ValueError, match=r"with config\.intermediate_size"):
        run_folder.check_model(other_size, "rte")
