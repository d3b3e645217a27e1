import numpy as np

from albert_tf.modeling.heads import OutputLayer
from albert_tf.modeling.pretraining_model import PretrainingModel


def test_first_values_are_those_of_the_original_whatever_the_config():
    layer = OutputLayer(500, hidden_size=80, seed=0, name="head")

    # A normal distribution of deviation 0.02, cut at two deviations.
    deviation = np.asarray(layer.output_weights).std()
    assert abs(deviation - 0.02 * 0.8796) < 3e-4


def test_the_sentence_order_head_starts_by_the_config(tiny_config):
    head = PretrainingModel(tiny_config).sentence_order_head

    assert head.output_weights.shape == (2, 8)
    # `initializer_range` is 0.5, not the 0.02 of the tasks.
    assert np.abs(head.output_weights).max() > 0.1
