import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.serving import exported_encoder
from albert_tf.serving.exported_encoder import ExportedEncoder, ExportedWeights
from tests import tiny


@pytest.fixture
def layer():
    made = keras.layers.Dense(3)
    made.build((None, 2))
    made.bias.assign([1.001, 2.0, 3.0])
    return made


def test_within_the_scope_the_layer_reads_the_copies(layer):
    weights = ExportedWeights(layer.weights, precision="float32")
    values = tf.ones((1, 2))
    expected = layer(values).numpy()
    for variable in layer.weights:
        variable.assign(variable * 0)

    with weights.scope():
        inside = layer(values).numpy()

    np.testing.assert_array_equal(inside, expected)
    assert not layer(values).numpy().any()


def test_a_graph_reads_nothing_else(layer):
    weights = ExportedWeights(layer.weights, precision="float32")

    @tf.function(autograph=False)
    def call(values):
        with weights.scope():
            return layer(values)

    graph = call.get_concrete_function(tf.TensorSpec((None, 2))).graph
    assert {v.ref() for v in graph.variables} == {
        copy.ref() for copy in weights.copies
    }


def make(global_segment=None, **values):
    model = AlbertModel(
        tiny.config(
            **{"num_hidden_layers": 2, "initializer_range": 0.02} | values
        ),
        global_segment=global_segment,
    )
    weights = ExportedWeights(model.weights, precision="float32")
    return model, ExportedEncoder(model, weights)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
        {"parameter_sharing": "ffn"},
        {"parameter_sharing": "none", "embedding_size": 8},
        {"hidden_act": "gelu_erf", "embedding_size": 8},
        {"type_vocab_size": 1},
        {"attention_window": 2},
        {"attention_window": 2, "global_segment": 1},
        # Three passes of one group, two of the other.
        {"num_hidden_layers": 5, "num_hidden_groups": 2},
        {"parameter_sharing": "ffn", "inner_group_num": 2},
    ],
)
def test_the_graph_gives_what_the_model_gives(values):
    model, encoder = make(**values)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 11, (3, 7)).astype(np.int32)
    mask = (np.arange(7) < [[7], [4], [1]]).astype(np.int32)
    segments = (np.arange(7) > 2).astype(np.int32) * mask
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}

    sequence, pooled = encoder(**{n: tf.constant(v) for n, v in inputs.items()})

    expected = model(inputs)
    np.testing.assert_allclose(
        sequence, expected["sequence_output"] * mask[:, :, None], atol=1e-6
    )
    np.testing.assert_allclose(pooled, expected["pooled_output"], atol=1e-6)
    alone = encoder.pooled(**{n: tf.constant(v) for n, v in inputs.items()})
    np.testing.assert_allclose(alone, expected["pooled_output"], atol=1e-6)


def num_nodes(**values):
    _, encoder = make(**values)

    @tf.function(autograph=False)
    def call(ids):
        return encoder(ids, ids, ids)

    spec = tf.TensorSpec((None, None), tf.int32)
    graph = call.get_concrete_function(spec).graph.as_graph_def()
    return sum(len(f.node_def) for f in graph.library.function)


def test_a_deeper_model_that_shares_has_hardly_more_operations():
    assert num_nodes(num_hidden_layers=10) < num_nodes() + 12


def test_inputs_of_different_shapes():
    same, others = (2, 4), [(1, 4), (2, 1), (3, 4), (2, 5)]
    _, encoder = make()

    for shapes in [
        (other if i == place else same for i in range(3))
        for other in others
        for place in range(3)
    ]:
        inputs = [tf.zeros(shape, tf.int32) for shape in shapes]
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="the same shape"
        ):
            encoder(*inputs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_ids": -1}, "input_ids must be from 0 to 12"),
        ({"input_ids": 13}, "input_ids must be from 0 to 12"),
        ({"input_mask": 2}, "input_mask must be from 0 to 1"),
        ({"segment_ids": -1}, "segment_ids must be from 0 to 1"),
    ],
)
def test_values_that_the_model_does_not_know(changes, message):
    _, encoder = make()
    inputs = {
        name: np.ones((2, 4), np.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    for name, value in changes.items():
        inputs[name][1, 2] = value

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        encoder(**inputs)


def test_sequences_without_places():
    _, encoder = make()
    empty = tf.zeros((2, 0), tf.int32)

    with pytest.raises(tf.errors.InvalidArgumentError, match="1 to .* tokens"):
        encoder(empty, empty, empty)


@pytest.mark.parametrize("lengths", [[60, 5, 4, 6], [9, 9, 9], [1, 64, 20, 40]])
def test_rows_of_any_length_give_what_they_give_alone(lengths):
    _, encoder = make(max_position_embeddings=64)
    rng = np.random.default_rng(0)
    mask = (np.arange(64) < np.array(lengths)[:, None]).astype(np.int32)
    ids = rng.integers(0, 11, mask.shape).astype(np.int32) * mask
    inputs = [ids, mask, ids % 2]

    sequence, pooled = encoder(*map(tf.constant, inputs))

    assert sequence.shape[:2] == mask.shape
    for row, length in enumerate(lengths):
        alone = encoder(
            *(tf.constant(one[row : row + 1, :length]) for one in inputs)
        )
        np.testing.assert_allclose(
            sequence[row, :length], alone[0][0], atol=1e-6
        )
        np.testing.assert_allclose(pooled[row], alone[1][0], atol=1e-6)
        assert not np.any(sequence[row, length:])


# Groups of rows.


def test_the_length_of_a_row_is_the_place_of_its_last_token():
    mask = [[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]

    found = exported_encoder.row_lengths(tf.constant(mask))

    # A row without a token is left as it is.
    assert found.numpy().tolist() == [2, 3, 4, 4]


@pytest.mark.parametrize(
    ("lengths", "width", "shapes"),
    [
        ([3], 3, [(1, 3)]),
        ([5, 5, 5], 5, [(3, 5)]),
        # Rows that a client has padded to a fixed length.
        ([5, 4, 5], 64, [(3, 5)]),
        # The allowance is 16, more than an eighth of 110.
        ([10, 70, 11, 10, 9], 70, [(1, 70), (4, 11)]),
        # An eighth of 800 is 100.
        ([250, 150, 200, 200], 250, [(3, 250), (1, 150)]),
        ([], 5, []),
    ],
)
def test_rows_are_grouped_by_length_and_returned_in_order(
    lengths, width, shapes
):
    values = tf.reshape(tf.range(len(lengths) * width), [-1, width])
    found_shapes = []

    def first_column(own_lengths, own_values):
        found_shapes.append(tuple(own_values.shape))
        return [own_values[:, 0], own_lengths]

    nothing = tf.zeros([0], tf.int32)
    first, found_lengths = exported_encoder.run_in_groups(
        first_column, [values], tf.constant(lengths, tf.int32), [nothing] * 2
    )

    assert found_shapes == shapes
    np.testing.assert_array_equal(first, values[:, 0])
    assert found_lengths.numpy().tolist() == lengths
