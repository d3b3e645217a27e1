"""The wheel: its commands work where only it and what `--help` needs exist."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What an import of a command needs; everything else, TensorFlow above all, is
# imported only once the flags are known to be good.
_NEEDED = (
    "absl",
    "numpy",
    "sentencepiece",
    "google_crc32c",
    "safetensors",
    "tqdm",
)


def _run(*command, **settings):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, **settings
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _copy_sources(target):
    """Copies what an installation needs, so that the repository stays clean."""
    target.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    shutil.copytree(
        ROOT / "albert_tf",
        target / "albert_tf",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return target


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An empty environment with the wheel; returns its folder of commands.

    It is installed without its dependencies, which are gigabytes; the few that
    `--help` needs are linked to the packages of this environment.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source = _copy_sources(folder / "source")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--no-index")
    _run(*pip, "wheel", *options, "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "empty", symlinks=True)
    python = folder / "empty" / "bin" / "python"
    _run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    packages = pathlib.Path(
        _run(
            python, "-c", "import sysconfig as s; print(s.get_path('purelib'))"
        ).strip()
    )
    ours = pathlib.Path(sysconfig.get_path("purelib"))
    for name in _NEEDED:
        (packages / name).symlink_to(ours / name)
    return python.parent, packages


def test_the_wheel_installs_every_script_as_a_command(environment):
    commands, packages = environment

    scripts = {
        f"albert-{path.stem.replace('_', '-')}"
        for path in ROOT.glob("*.py")
        if path.stem != "run_experiment"  # runs the other scripts
    }
    programs = {path.name for path in commands.glob("albert-*")}
    assert programs == scripts | {
        "albert-compare",
        "albert-explain",
        "albert-predict",
    }
    # Not only the modules: templates of pages, types, the mark of typed code.
    card = "checkpoints/model_card.md.jinja2"
    keys, keywords = "checkpoints/foreign_keys.json", "training/keywords.pyi"
    report = "observers/report.html.jinja2"
    for name in (card, keys, keywords, report, "py.typed"):
        assert (packages / "albert_tf" / name).is_file()
    assert not (packages / "tests").exists()


def test_a_command_answers_help_and_reports_a_wrong_flag(environment):
    command = environment[0] / "albert-run-pretraining"

    shown = _run(command, "--help", env={}, cwd="/")
    done = subprocess.run(
        [command, "--no_such_flag"], env={}, capture_output=True, text=True
    )

    assert shown.startswith("Pretrains ALBERT on the records")
    assert "--num_train_steps: " in shown
    assert done.returncode == 1
    assert done.stderr.startswith("error: Unknown command line flag")


@pytest.mark.slow
def test_an_editable_install_is_found_from_the_folder_above(tmp_path):
    clone = _copy_sources(tmp_path / "above" / "albert_tf")
    venv.create(tmp_path / "empty", symlinks=True)
    python = tmp_path / "empty" / "bin" / "python"
    get_path = "import sysconfig as s; print(s.get_path('purelib'))"
    packages = pathlib.Path(_run(python, "-c", get_path).strip())
    for path in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
        if "albert_tf" not in path.name:
            (packages / path.name).symlink_to(path)
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    options = ("--no-deps", "--no-build-isolation", "--no-index")
    _run(*pip, *options, "--editable", clone)
    script = clone.parent / "script.py"
    script.write_text("import albert_tf\nreveal_type(albert_tf.finetune)\n")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    options = {"cwd": clone.parent, "env": environment}

    code = "import albert_tf; print(albert_tf.AlbertConfig.__module__)"
    assert _run(python, "-c", code, **options) == "albert_tf.config\n"
    shown = _run(python, "-m", "mypy", script, **options)
    assert "learning_rate" in shown
    assert "RunResult" in shown
