import pytest

from albert_tf.config import AlbertConfig
from albert_tf.export import allowed_operations, encoder_signatures
from albert_tf.export.exported_encoder import ExportedWeights
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel

CONFIG = AlbertConfig(
    vocab_size=300,
    embedding_size=6,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=9,
)


def signatures_of(model, tiny):
    weights = ExportedWeights(model.weights, precision="float32")
    found = encoder_signatures.make_signatures(
        model, weights, tiny.graph, max_seq_length=9
    )
    return {one.name: one for one in found}


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (AlbertModel, ["serving_default", "tokens"]),
        (
            lambda config: PretrainingModel(config, objectives=["sop"]),
            ["serving_default", "tokens", "sop"],
        ),
    ],
)
def test_a_model_is_asked_only_what_it_has_a_head_for(make, names, tiny):
    assert list(signatures_of(make(CONFIG), tiny)) == names


def test_warming_up_asks_every_signature_with_its_own_inputs(tiny):
    for name, one in signatures_of(PretrainingModel(CONFIG), tiny).items():
        inputs = one.function.function_type.parameters
        assert one.warmup, name
        for request in one.warmup:
            assert set(request) == set(inputs), name


@pytest.mark.parametrize("vocabulary", ["english", "chinese"])
def test_the_text_half_is_made_of_allowed_operations(vocabulary, request):
    graph = request.getfixturevalue(vocabulary)
    for with_offsets in (False, True):
        graph.run(["a"], with_offsets=with_offsets)
        function = graph.functions[with_offsets]
        allowed_operations.check(function.get_concrete_function(), vocabulary)
