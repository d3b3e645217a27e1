"""Workers from environments as schedulers make them, and from wrong ones."""

import json
import socket

import pytest

from albert_tf.training import cluster
from albert_tf.training.cluster import Cluster

SLURM = {
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NODELIST": "n[9-10]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_JOB_ID": "1251",
}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2"}


def tf_config(cluster, kind="worker", index=0):
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


@pytest.mark.parametrize(
    ("source", "environment", "addresses", "index"),
    [
        (
            "tf_config",
            tf_config({"worker": ["a:2", "b:2"]}, index=1),
            ("a:2", "b:2"),
            1,
        ),
        # A chief is the first worker.
        (
            "tf_config",
            tf_config({"worker": ["b:2", "c:2"], "chief": ["a:2"]}, index=1),
            ("a:2", "b:2", "c:2"),
            2,
        ),
        (
            "tf_config",
            tf_config({"chief": ["a:2"], "worker": ["b:2"]}, "chief"),
            ("a:2", "b:2"),
            0,
        ),
        # Some systems write the index as a text.
        ("tf_config", tf_config({"worker": ["a:2"]}, index="0"), ("a:2",), 0),
        # Two tasks on the first node; n9 is before n10.
        ("slurm", SLURM, ("n9:12016", "n9:12017", "n10:12016"), 2),
        (
            "slurm",
            SLURM
            | {
                "SLURM_PROCID": "0",
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_NODELIST": "gpu[01-02],big",
                "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
            },
            ("gpu01:12112", "gpu02:12112", "big:12112"),
            0,
        ),
        ("mpi", OPEN_MPI, ("a:2", "b:2"), 1),
        ("mpi", MPICH, ("a:2", "b:2"), 0),
        # Open MPI's own count where a scheduler has set the other.
        ("mpi", MPICH | OPEN_MPI, ("a:2", "b:2"), 1),
    ],
)
def test_workers_are_found(source, environment, addresses, index):
    found = cluster.resolve(source, ["a:2", "b:2"], environment)

    assert found == Cluster(addresses=addresses, index=index)


@pytest.mark.parametrize(
    ("source", "environment", "message"),
    [
        ("tf_config", {}, "TF_CONFIG, which is not set"),
        ("tf_config", {"TF_CONFIG": "{junk"}, "must be a JSON object such as"),
        ("tf_config", {"TF_CONFIG": "[1]"}, "must be a JSON object such as"),
        ("tf_config", {"TF_CONFIG": "{}"}, "must be a JSON object such as"),
        (
            "tf_config",
            tf_config({"worker": ["a:2"]}, "evaluator"),
            "of the type 'evaluator' in a cluster of worker",
        ),
        (
            "tf_config",
            tf_config({"worker": ["a:2"], "ps": ["b:2"]}),
            "must be of the type `worker`, but for one `chief`",
        ),
        (
            "tf_config",
            tf_config({"worker": ["a:2", "b:2"]}, index=2),
            "worker 2, but there are addresses of 2 workers",
        ),
        (
            "tf_config",
            tf_config({"worker": ["a:2"]}, index=-1),
            "worker -1, but there are addresses of 1 workers",
        ),
        (
            "tf_config",
            tf_config({"worker": ["a:2", "a:2"]}),
            "Two workers have the same address",
        ),
        (
            "tf_config",
            tf_config({"worker": ["a"]}),
            "a host and a port, such as node1:2222. Received: 'a'",
        ),
        ("tf_config", tf_config({"worker": ["a:65536"]}), "a host and a port"),
        ("slurm", {}, "SLURM_PROCID is not set. Start the command with srun"),
        # In a batch script, before srun.
        (
            "slurm",
            {k: v for k, v in SLURM.items() if "STEP" not in k},
            "SLURM_STEP_NUM_TASKS is not set",
        ),
        (
            "slurm",
            {k: v for k, v in SLURM.items() if k != "SLURM_STEP_NODELIST"},
            "SLURM_STEP_NODELIST is not set",
        ),
        ("slurm", SLURM | {"SLURM_PROCID": "x"}, "must be a number"),
        ("slurm", SLURM | {"SLURM_PROCID": "3"}, "worker 3, but there are"),
        (
            "slurm",
            SLURM | {"SLURM_STEP_NODELIST": "n[9-"},
            r"SLURM_STEP_NODELIST is not understood: 'n\[9-'",
        ),
        (
            "slurm",
            SLURM | {"SLURM_STEP_TASKS_PER_NODE": "many"},
            "SLURM_STEP_TASKS_PER_NODE is not understood: 'many'",
        ),
        (
            "slurm",
            SLURM | {"SLURM_STEP_NUM_TASKS": "4"},
            r"contradict one another: 4 tasks, on 2 nodes with \[2, 1\] tasks",
        ),
        (
            "slurm",
            SLURM
            | {
                "SLURM_STEP_NUM_TASKS": "18",
                "SLURM_STEP_TASKS_PER_NODE": "17,1",
            },
            "17 tasks on a node, at most 16 are possible",
        ),
        ("mpi", {}, "OMPI_COMM_WORLD_RANK is not set. Start .* with mpirun"),
        ("mpi", {"PMI_RANK": "0"}, "PMI_SIZE is not set"),
        (
            "mpi",
            OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "3"},
            "started 3 processes, but --worker_hosts has 2 addresses",
        ),
        ("mpi", OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "2"}, "worker 2, but"),
    ],
)
def test_an_environment_that_makes_no_sense_is_an_error(
    source, environment, message
):
    with pytest.raises(ValueError, match=message):
        cluster.resolve(source, ["a:2", "b:2"], environment)


def test_the_address_of_this_worker_must_be_one_of_this_machine():
    for host in ("localhost", "127.0.0.1", socket.gethostname()):
        cluster.check_own_address(Cluster(addresses=(f"{host}:2",), index=0))

    # An address that is reserved for documentation.
    other = Cluster(addresses=("localhost:2", "192.0.2.7:2"), index=1)
    with pytest.raises(
        ValueError,
        match=r"Worker 1 \(192.0.2.7:2\) runs on .*, which does not have this",
    ):
        cluster.check_own_address(other)


def test_a_name_that_is_not_known_is_an_error():
    unknown = Cluster(addresses=("no-such-host.invalid:2",), index=0)

    with pytest.raises(ValueError, match="its machine is not known by that"):
        cluster.check_own_address(unknown)
