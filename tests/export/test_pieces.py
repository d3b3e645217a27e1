from albert_tf.export.pieces import Pieces, TextGraph


def test_both_kinds_of_graph_offer_what_the_interface_names(english, chinese):
    for graph in (english.graph, chinese.graph):
        tokenizer = (
            english.tokenizer if graph is english.graph else chinese.tokenizer
        )
        for name in TextGraph.__annotations__:
            if name != "pieces":
                assert getattr(graph, name) == getattr(tokenizer, name)
        assert graph.pieces[1234] == tokenizer.id_to_piece(1234)
        assert len(graph.pieces) == tokenizer.vocab_size


def test_offsets_are_absent_unless_asked_for(tiny):
    pieces = tiny.graph(["a"])

    assert isinstance(pieces, Pieces)
    assert pieces.starts is None
    assert pieces.ends is None
    assert tiny.graph(["a"], with_offsets=True).ends.shape == [1]
