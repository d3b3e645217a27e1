"""The workers of a run on several machines: their addresses, and which is this.

They come from the environment that a scheduler makes: `TF_CONFIG`, the
variables of a Slurm step, or those of `mpirun` with a list of hosts. What does
not fit together is refused, because a wrong address makes all workers wait.

Plain Python, but for TensorFlow's parser of Slurm's lists.
"""

import dataclasses
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TF_CONFIG, SLURM, MPI = CLUSTERS = ("tf_config", "slurm", "mpi")
# Rank and size of Open MPI; of MPICH, Intel MPI and others.
_MPI_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
# Jobs of the same machine, also those that follow at once, use other ports:
# below those that systems give to clients.
_FIRST_PORT, _PORTS_A_JOB, _NUM_JOBS = 12_000, 16, 1250


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """The workers of a run.

    Args:
        addresses: `host:port` of each; the first one is the chief.
        index: Which of them this process is.
    """

    addresses: tuple[str, ...]
    index: int

    def name_of(self, index: int) -> str:
        """Returns what a message calls a worker.

        >>> Cluster(addresses=("a:1", "b:1"), index=0).name_of(1)
        'Worker 1 (b:1)'
        """
        return f"Worker {index} ({self.addresses[index]})"


def resolve(
    source: str, worker_hosts: Sequence[str], environment: Mapping[str, str]
) -> Cluster:
    """Returns the workers that the environment names.

    Args:
        source: One of `CLUSTERS`.
        worker_hosts: `host:port` of all ranks in their order, for `mpi` alone.
        environment: As `os.environ`.

    Raises:
        ValueError: A variable is missing or makes no sense, or they
            contradict one another.
    """
    if source == SLURM:
        found = _of_slurm(environment)
    elif source == MPI:
        found = _of_mpi(worker_hosts, environment)
    else:
        found = _of_tf_config(environment)
    for address in found.addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ValueError(
                "The address of a worker must be a host and a port, such as "
                f"node1:2222. Received: {address!r}."
            )
    if len(set(found.addresses)) < len(found.addresses):
        raise ValueError(
            "Two workers have the same address. Give each worker of a machine "
            f"a port of its own. Received: {', '.join(found.addresses)}."
        )
    if not 0 <= found.index < len(found.addresses):
        raise ValueError(
            f"This process is worker {found.index}, but there are addresses of "
            f"{len(found.addresses)} workers, counted from 0: "
            f"{', '.join(found.addresses)}."
        )
    return found


def _of_tf_config(environment: Mapping[str, str]) -> Cluster:
    text = environment.get("TF_CONFIG")
    if text is None:
        raise ValueError(
            "The strategy 'multi_worker' reads the addresses of its workers "
            "from TF_CONFIG, which is not set. Set it, or pass "
            "--cluster=slurm or mpi, or --strategy=one or mirrored without "
            "--cluster."
        )
    try:
        values = json.loads(text)
        jobs, task = values["cluster"], values["task"]
        kind, index = task["type"], int(task["index"])
        addresses = {name: tuple(jobs[name]) for name in jobs}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(
            'TF_CONFIG must be a JSON object such as {"cluster": {"worker": '
            '["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: {text[:60]!r}. Correct it, or unset it and pass "
            "--strategy=one."
        ) from None
    # An evaluator is no part of the cluster, but some systems start one.
    if kind not in addresses or not addresses.keys() <= {"chief", "worker"}:
        raise ValueError(
            "All tasks of TF_CONFIG must be of the type `worker`, but for one "
            "`chief` perhaps. Received: a task of the type "
            f"{kind!r} in a cluster of {', '.join(addresses) or 'none'}."
        )
    chief = addresses.get("chief", ())
    if kind == "worker":
        index += len(chief)
    return Cluster(
        addresses=(*chief, *addresses.get("worker", ())), index=index
    )


def _of_slurm(environment: Mapping[str, str]) -> Cluster:
    # TensorFlow's SlurmClusterResolver sorts the hosts by name, so n10 before
    # n9, where Slurm does not, and needs nvidia-smi.
    from tensorflow.python.distribute.cluster_resolver import (
        slurm_cluster_resolver as slurm,
    )

    rank = _integer(environment, "SLURM_PROCID", _NO_SLURM)
    size = _integer(environment, "SLURM_STEP_NUM_TASKS", _NO_SLURM)
    job = _integer(environment, "SLURM_JOB_ID", _NO_SLURM)
    hosts = _parsed(slurm.expand_hostlist, environment, "SLURM_STEP_NODELIST")
    counts = _parsed(
        slurm.expand_tasks_per_node, environment, "SLURM_STEP_TASKS_PER_NODE"
    )
    if len(hosts) != len(counts) or sum(counts) != size:
        raise ValueError(
            f"Slurm's variables contradict one another: {size} tasks, on "
            f"{len(hosts)} nodes with {counts} tasks. Start the command with "
            "srun."
        )
    if max(counts) > _PORTS_A_JOB:
        raise ValueError(
            f"Slurm starts {max(counts)} tasks on a node, at most "
            f"{_PORTS_A_JOB} are possible. A task can use several GPUs: pass "
            "--ntasks-per-node=1 to srun."
        )
    first = _FIRST_PORT + job % _NUM_JOBS * _PORTS_A_JOB
    return Cluster(
        addresses=tuple(
            f"{host}:{first + task}"
            for host, count in zip(hosts, counts, strict=True)
            for task in range(count)
        ),
        index=rank,
    )


_NO_SLURM = "Start the command with srun, or pass another --cluster."
_NO_MPI = "Start the command with mpirun, or pass another --cluster."


def _parsed(
    parse: Callable[[str], Any], environment: Mapping[str, str], name: str
) -> Any:
    text = environment.get(name)
    if not text:
        raise ValueError(f"{name} is not set. {_NO_SLURM}")
    try:
        return parse(text)
    except ValueError:
        raise ValueError(f"{name} is not understood: {text!r}.") from None


def _integer(environment: Mapping[str, str], name: str, advice: str) -> int:
    text = environment.get(name)
    if text is None:
        raise ValueError(f"{name} is not set. {advice}")
    if not text.isdecimal():
        raise ValueError(f"{name} must be a number. Received: {text!r}.")
    return int(text)


def _of_mpi(
    worker_hosts: Sequence[str], environment: Mapping[str, str]
) -> Cluster:
    names = [pair for pair in _MPI_VARIABLES if pair[0] in environment]
    rank, size = (
        _integer(environment, name, _NO_MPI)
        for name in (names or _MPI_VARIABLES)[0]
    )
    if size != len(worker_hosts):
        raise ValueError(
            f"mpirun has started {size} processes, but --worker_hosts has "
            f"{len(worker_hosts)} addresses. Pass host:port of every rank, in "
            "their order, separated by commas."
        )
    return Cluster(addresses=tuple(worker_hosts), index=rank)


def check_own_address(cluster: Cluster) -> None:
    """Checks that the address of this worker is one of this machine.

    Raises:
        ValueError: It is not, or has no such name.
    """
    name = cluster.name_of(cluster.index)
    host = cluster.addresses[cluster.index].rpartition(":")[0]
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise ValueError(
            f"{name} runs here, but its machine is not known by that name: "
            f"{error.strerror}."
        ) from error
    if not any(_is_own(one[0], one[4]) for one in found):
        raise ValueError(
            f"{name} runs on {socket.gethostname()}, which does not have this "
            "address. The addresses must be in the order of the ranks: list "
            "--worker_hosts so, or pass --distribution=block to srun."
        )


def _is_own(family: int, address: Any) -> bool:
    # A system gives a port only of its own addresses.
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        try:
            one.bind(address)
        except OSError:
            return False
    return True
