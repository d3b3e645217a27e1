"""What a TPU would be given: the functions of replicas, and what is in them.

`SimulatedTpu` calls the function of a replica as `TPUStrategy` does: all of
its arguments become tensors, and XLA compiles it as a whole.

`strategy_of_cores` makes a true `TPUStrategy`. Within a `tf.Graph`, it traces
what its devices would be given, with its own variables and sums over replicas;
nothing of it can be computed.

`problems` finds what a TPU could not compile. TensorFlow's wheel has no TPU
compiler, but it has the kernels of `tf2xla`, which are registered for all
devices alike but for a few: those of the CPU are listed, and those that a TPU
lacks, or whose output has a size that depends on values, are left out. So what
passes can be lowered to XLA's operations with sizes that are all known, which
is what a TPU's compiler starts from. Whether the result fits into the memory of
a TPU, and how fast it is, is not known before there is one.
"""

import functools
import re

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels
from tensorflow.python.tpu import tpu_system_metadata

# Sizes of outputs that depend on values: XLA knows their bounds at most.
_DYNAMIC_OPS = {
    "DynamicPartition",
    "ListDiff",
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "Unique",
    "UniqueV2",
    "Where",
    "XlaSetBound",
    "XlaSetDynamicDimensionSize",
}
# Registered for a CPU and a GPU, but calls of the host or of other libraries.
_HOST_OPS = {
    "CollectiveAssignGroupV2",
    "CollectiveReduceV2",
    "XlaCustomCall",
    "XlaCustomCallV2",
    "XlaRecv",
    "XlaSend",
}
# Parts of a function that are no operations of a device; the sum over the
# devices of a TPU, which no other one has; and what `TPUStrategy` puts around.
_OF_GRAPHS = {"Placeholder", "CrossReplicaSum"}
_OF_REPLICATION = {
    "TPUCompilationResult",
    "TPUReplicateMetadata",
    "TPUReplicatedInput",
    "TPUReplicatedOutput",
}
# `kTpuAllTypes` of TensorFlow, less those of quantization; constants may hold
# text for `Assert`.
_DTYPES = {
    tf.bfloat16,
    tf.bool,
    tf.float32,
    tf.int32,
    tf.int64,
    tf.int8,
    tf.resource,
    tf.uint32,
    tf.uint64,
    tf.uint8,
    tf.variant,
}
_HOST = "/job:localhost/replica:0/task:0"
_SIZE_UNKNOWN = re.compile(r"<=|\?")
_HOST_CALL = re.compile(r"custom-call|infeed|outfeed|\b(send|recv)\(|host")


class _Resolver(tf.distribute.cluster_resolver.TPUClusterResolver):
    """Says that this machine has a TPU of so many cores."""

    task_type = task_id = None

    def __init__(self, num_cores):
        self._num_cores = num_cores

    def get_tpu_system_metadata(self):
        return tpu_system_metadata.TPUSystemMetadata(
            num_cores=self._num_cores,
            num_hosts=1,
            num_of_cores_per_host=self._num_cores,
            topology=None,
            devices=[
                tf.config.LogicalDevice(f"{_HOST}/device:{kind}:{n}", kind)
                for kind, number in (("CPU", 1), ("TPU", self._num_cores))
                for n in range(number)
            ],
        )


def strategy_of_cores(num_cores):
    """Returns a `TPUStrategy` over cores that are not there."""
    places = [[[0, 0, 0, core] for core in range(num_cores)]]
    topology = tf.tpu.experimental.Topology(
        mesh_shape=[1, 1, 1, num_cores],
        device_coordinates=np.array(places, np.int32),
    )
    return tf.distribute.TPUStrategy(
        _Resolver(num_cores),
        experimental_device_assignment=(
            tf.tpu.experimental.DeviceAssignment.build(
                topology, num_replicas=num_cores
            )
        ),
    )


class PerReplica:
    """Yields the same batch for every replica of a strategy, for ever."""

    def __init__(self, strategy, batch):
        self._strategy = strategy
        self._batch = batch

    def __next__(self):
        return self._strategy.experimental_distribute_values_from_function(
            lambda _: {name: tf.constant(v) for name, v in self._batch.items()}
        )


class SimulatedTpu:
    """The default strategy, whose replica is compiled as that of a TPU.

    `functions` are those that were traced, with the arguments' specs.
    """

    def __init__(self):
        self._strategy = tf.distribute.get_strategy()
        self.functions = []

    def __getattr__(self, name):
        return getattr(self._strategy, name)

    def run(self, function, args=()):
        """Runs a function of a replica; as `tpu.replicate`, see there."""
        # Only None stays what it is.
        tensors = [
            None if x is None else tf.convert_to_tensor(x)
            for x in tf.nest.flatten(args)
        ]
        given = [x for x in tensors if x is not None]

        @functools.partial(tf.function, jit_compile=True, autograph=False)
        def compiled(*values):
            left = iter(values)
            flat = [None if x is None else next(left) for x in tensors]
            return function(*tf.nest.pack_sequence_as(args, flat))

        specs = [tf.TensorSpec(x.shape, x.dtype) for x in given]
        self.functions.append((compiled, specs))
        return compiled(*given)

    def problems(self):
        """Returns what a TPU could not compile of what was traced."""
        assert self.functions
        return sorted(
            {
                problem
                for compiled, specs in self.functions
                for problem in problems(compiled, specs)
            }
        )


@functools.cache
def compilable_ops():
    """Returns the names of the operations that a TPU can compile."""
    # XLA registers its kernels when it is first used.
    tf.function(tf.identity, jit_compile=True)(tf.zeros([]))
    registered = kernels.get_all_registered_kernels().kernel
    found = {k.op for k in registered if k.device_type == "XLA_CPU_JIT"}
    return found - _DYNAMIC_OPS - _HOST_OPS | _OF_GRAPHS | _OF_REPLICATION


def nodes_of(graph, *, of_tpu=False):
    """Yields the nodes of a `tf.Graph`, and of all functions they call.

    With `of_tpu`, only those that a `TPUStrategy` has given to its devices.
    """
    definition = graph.as_graph_def()
    library = {f.signature.name: f for f in definition.library.function}
    waiting, seen = [(definition.node, not of_tpu)], set()
    while waiting:
        nodes, are_wanted = waiting.pop()
        for node in nodes:
            is_wanted = are_wanted or "_tpu_replicate" in node.attr
            if is_wanted:
                yield node
            for value in node.attr.values():
                for called in [value.func, *value.list.func]:
                    key = called.name, is_wanted
                    if called.name in library and key not in seen:
                        seen.add(key)
                        body = library[called.name].node_def
                        waiting.append((body, is_wanted))


def problems(compiled, specs):
    """Returns what a TPU could not compile of a function, as texts.

    Args:
        compiled: A `tf.function` with `jit_compile`.
        specs: Those of its arguments.
    """
    found = set()
    for spec in specs:
        if not spec.shape.is_fully_defined():
            found.add(f"argument of shape {spec.shape}")
    graph = compiled.get_concrete_function(*specs).graph
    found.update(problems_of_nodes(nodes_of(graph)))
    if not found:
        found.update(_problems_of_hlo(compiled, specs))
    return sorted(found)


def problems_of_nodes(nodes):
    """Returns which operations and types a TPU could not compile."""
    found = set()
    for node in nodes:
        if node.op not in compilable_ops():
            found.add(f"operation {node.op}")
        for value in node.attr.values():
            is_text = value.type == tf.string.as_datatype_enum
            if is_text and node.op in ("Const", "Assert"):
                continue
            dtypes = [value.type, *value.list.type]
            for dtype in filter(None, dtypes):
                if tf.as_dtype(dtype) not in _DTYPES:
                    found.add(f"{tf.as_dtype(dtype).name} in {node.op}")
    return sorted(found)


def _problems_of_hlo(compiled, specs):
    arguments = [tf.zeros(spec.shape, spec.dtype) for spec in specs]
    text = compiled.experimental_get_compiler_ir(*arguments)(stage="hlo")
    for line in text.splitlines():
        # Names and sources of operations may contain anything.
        line = re.sub(r'metadata=\{.*|"[^"]*"', "", line)
        if _SIZE_UNKNOWN.search(line.split(" = ")[-1].split("(")[0]):
            yield f"unknown size: {line.strip()}"
        if _HOST_CALL.search(line):
            yield f"call of the host: {line.strip()}"
