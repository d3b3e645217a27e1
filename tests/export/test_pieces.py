from albert_tf.export.pieces import Pieces, TextGraph


def test_both_kinds_of_graph_offer_what_the_interface_names(english, chinese):
    for graph in (english.graph, chinese.graph):
        for name in TextGraph.__annotations__:
            assert getattr(graph, name) == getattr(
                english.tokenizer
                if graph is english.graph
                else chinese.tokenizer,
                name,
            )


def test_offsets_are_absent_unless_asked_for(tiny):
    pieces = tiny.graph(["a"])

    assert isinstance(pieces, Pieces)
    assert pieces.starts is None
    assert pieces.ends is None
    assert tiny.graph(["a"], with_offsets=True).ends.shape == [1]
