import tensorflow as tf

from albert_tf.export.served_text import ServedText

TEXTS = tf.constant(["The house.", "", "Café ½"])


def test_the_pieces_are_the_same(tiny):
    served = ServedText(tiny.graph)

    for with_offsets in (False, True):
        found = served(TEXTS, with_offsets=with_offsets)
        expected = tiny.graph(TEXTS, with_offsets=with_offsets)
        for name in ("ids", "row_ids", "num_rows", "starts", "ends"):
            ours, theirs = getattr(found, name), getattr(expected, name)
            if theirs is None:
                assert ours is None
            else:
                assert ours.numpy().tolist() == theirs.numpy().tolist()
    assert served.pieces == tiny.graph.pieces
    assert served.special_ids == tiny.graph.special_ids


def test_a_graph_that_uses_it_twice_has_it_once(tiny):
    def num_nodes(times):
        served = ServedText(tiny.graph)

        @tf.function(autograph=False)
        def call(texts):
            return [served(texts).ids for _ in range(times)]

        spec = tf.TensorSpec([None], tf.string)
        graph = call.get_concrete_function(spec).graph.as_graph_def()
        return sum(len(f.node_def) for f in graph.library.function)

    assert num_nodes(2) == num_nodes(1)
