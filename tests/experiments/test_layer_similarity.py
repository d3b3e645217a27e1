import numpy as np
import pytest

from albert_tf.modeling.albert_model import AlbertModel
from experiments import layer_similarity
from tests import tiny


def test_means_are_those_of_all_tokens_and_of_no_padding():
    model = AlbertModel(tiny.config(), output_hidden_states=True)
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: tiny.batch()[name] for name in names}
    # As in records.
    labels = {"masked_lm_ids": batch["input_ids"]}

    # Batches of five and of three tokens.
    curves = layer_similarity.measure_layers(
        model,
        [{k: v[[row]] for k, v in (batch | labels).items()} for row in (0, 1)],
    )

    states = [np.asarray(x, "float64") for x in model(batch)["hidden_states"]]
    tokens = [*zip(*np.nonzero(batch["input_mask"]), strict=True)]
    assert len(tokens) == 8
    for layer in range(3):
        pairs = [(states[layer][t], states[layer + 1][t]) for t in tokens]
        distances = [np.linalg.norm(y - x) for x, y in pairs]
        angles = [
            np.degrees(np.arccos(x @ y / np.sqrt((x @ x) * (y @ y))))
            for x, y in pairs
        ]
        assert curves.l2_distance[layer] == pytest.approx(np.mean(distances))
        assert curves.degrees[layer] == pytest.approx(np.mean(angles))
        assert np.std(angles) > 1
