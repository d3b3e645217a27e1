from albert_tf.export.tokens import TextGraph, Tokens


def test_both_kinds_of_graph_offer_what_the_interface_names(english, chinese):
    for graph in (english.graph, chinese.graph):
        tokenizer = (
            english.tokenizer if graph is english.graph else chinese.tokenizer
        )
        for name in TextGraph.__annotations__:
            if name != "tokens":
                assert getattr(graph, name) == getattr(tokenizer, name)
        assert graph.tokens[1234] == tokenizer.id_to_piece(1234)
        assert len(graph.tokens) == tokenizer.vocab_size


def test_offsets_are_absent_unless_asked_for(tiny):
    tokens = tiny.graph(["a"])

    assert isinstance(tokens, Tokens)
    assert tokens.starts is None
    assert tokens.ends is None
    assert tiny.graph(["a"], with_offsets=True).ends.shape == [1]
