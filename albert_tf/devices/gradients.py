"""Gradients that TensorFlow forgets together with the graph of their call."""

import weakref

import tensorflow as tf
from tensorflow.python.framework import ops


@tf.autograph.experimental.do_not_convert
def give_to_graph(output: tf.Tensor) -> None:
    """Gives the gradient of a call in a graph to the graph; takes an output.

    `tf.custom_gradient` registers the gradient of each call for good, and with
    it the graph, the model and the optimizer. Eager calls register nothing.
    """
    if not tf.is_symbolic_tensor(output):
        return
    name = output.op.get_attr("_gradient_op_type").decode()
    registered = ops.gradient_registry._registry
    gradient = registered[name]["type"]
    graph = output.graph
    graph.gradients = [*getattr(graph, "gradients", ()), gradient]
    registered[name]["type"] = weakref.proxy(gradient)
    weakref.finalize(gradient, registered.pop, name)
