"""The templates for clusters: what they call exists, and finds its place."""

import os
import pathlib
import re
import subprocess

import pytest
import yaml

from albert_tf.cli import run_pretraining
from albert_tf.devices import workers
from tests.training import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "cluster"
NUM_WORKERS = 4


def shell_of(path):
    """The text of a script; of Kubernetes, that of its container."""
    text = path.read_text("utf-8")
    if path.suffix == ".yaml":
        [text] = container(text)["args"]
    return text


def container(text):
    _, job = yaml.safe_load_all(text)
    [found] = job["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize(
    "name", ["kubernetes.yaml", "mpi.sh", "slurm.sh", "tpu_vm.sh"]
)
def test_the_flags_exist_and_the_shell_parses(name, parse):
    text = shell_of(FOLDER / name)
    [command] = re.findall(r"run_pretraining\.py((?:.*\\\n)*.*)", text)
    flags = re.findall(r"\s(--\w+)(=\S+)?", command.replace("\\\n", " "))
    # What the shell fills in is a text.
    flags = [f"{name}{value}" for name, value in flags]

    assert len(flags) > 5
    parse(run_pretraining.define_flags, *flags)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_every_template_is_in_the_readme():
    names = {path.name for path in FOLDER.iterdir()} - {"README.md"}

    assert names <= set(
        re.findall(r"\]\((\S+)\)", (FOLDER / "README.md").read_text())
    )


@pytest.fixture
def addresses_of(tmp_path, monkeypatch):
    """The addresses that a command gives to a training, and its index."""

    def run(command, environment, **stubs):
        # In place of the training.
        stubs[".venv/bin/python"] = 'echo "$TF_CONFIG"'
        for name, line in stubs.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"#!/bin/bash\n{line}\n")
            (tmp_path / name).chmod(0o755)
        done = subprocess.run(
            command,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        monkeypatch.setenv("TF_CONFIG", done.stdout)
        return workers.find_addresses(runs.run_config())

    return run


@pytest.mark.parametrize("index", range(NUM_WORKERS))
def test_the_pods_find_one_another(index, addresses_of):
    text = (FOLDER / "kubernetes.yaml").read_text("utf-8")
    service, job = yaml.safe_load_all(text)
    name = job["metadata"]["name"]
    pod = job["spec"]["template"]["spec"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    variables = {one["name"]: one["value"] for one in container(text)["env"]}
    assert variables == {"NUM_WORKERS": str(job["spec"]["completions"])}

    variables |= {"JOB_COMPLETION_INDEX": str(index)}
    command = [
        *container(text)["command"],
        shell_of(FOLDER / "kubernetes.yaml"),
    ]

    addresses, own = addresses_of(command, os.environ | variables)

    [port] = container(text)["ports"]
    assert own == index
    assert addresses == [
        f"{name}-{i}.{pod['subdomain']}:{port['containerPort']}"
        for i in range(NUM_WORKERS)
    ]


def test_the_ranks_of_mpirun_find_one_another(addresses_of, tmp_path):
    # Starts the command that follows the options, as the second rank.
    mpirun = 'printf "%s\\n" "$@" > said; while [ "$1" != bash ]; do '
    mpirun += 'shift; done; OMPI_COMM_WORLD_RANK=1 exec "$@"'

    found = addresses_of(
        [FOLDER / "mpi.sh", "node1", "node2"],
        {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        mpirun=mpirun,
    )

    said = (tmp_path / "said").read_text().splitlines()
    assert said[said.index("--host") + 1] == "node1:1,node2:1"
    assert said[said.index("-np") + 1] == "2"
    assert found == (["node1:2222", "node2:2222"], 1)
