import numpy as np
import pytest

from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)


@pytest.mark.parametrize(
    ("name", "num_labels", "sums_of"),
    [
        ("classifier", 3, losses.classification_sums),
        ("regression", 1, losses.regression_sums),
    ],
)
def test_classifiers_equal_the_recorded_numbers(
    recorded_head, name, num_labels, sums_of
):
    recorded = recorded_head(name)
    model = recorded.load(
        ClassifierModel(recorded.config, num_labels=num_labels)
    )

    def loss():
        logits = model(recorded.batch)["logits"]
        sums = sums_of(logits, recorded.batch["label_ids"], np.ones(3, "f"))
        return sums.loss / sums.weight

    logits = model(recorded.batch)["logits"]
    recorded.assert_close(
        logits[:, 0] if name == "regression" else logits, "logits"
    )
    recorded.assert_close(loss(), "loss")
    recorded.assert_gradients(model, loss)


def test_only_training_drops_values_and_the_seed_decides_which(
    tiny_config, tiny_batch
):
    model = ClassifierModel(tiny_config, num_labels=2, dropout_prob=0.5)

    def logits(**arguments):
        return np.asarray(model(tiny_batch, **arguments)["logits"])

    first = logits(training=True, seed=np.array([1, 2], "int32"))
    again = logits(training=True, seed=np.array([1, 2], "int32"))
    other = logits(training=True, seed=np.array([3, 4], "int32"))

    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0
    np.testing.assert_array_equal(logits(), logits())


def test_multiple_choice_equals_the_recorded_numbers(recorded_head):
    recorded = recorded_head("race")
    model = recorded.load(MultipleChoiceModel(recorded.config))
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {n: recorded.batch[n].reshape(2, 4, 24) for n in names}

    def loss():
        sums = losses.classification_sums(
            model(batch)["logits"],
            recorded.batch["label_ids"],
            np.ones(2, "f"),
        )
        return sums.loss / sums.weight

    recorded.assert_close(model(batch)["logits"], "logits")
    recorded.assert_close(loss(), "loss")
    recorded.assert_gradients(model, loss)


def test_a_choice_is_scored_alike_wherever_it_stands(tiny_config, tiny_batch):
    model = MultipleChoiceModel(tiny_config)
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: tiny_batch[name][None] for name in names}
    swapped = {name: values[:, ::-1] for name, values in batch.items()}

    np.testing.assert_allclose(
        model(batch)["logits"],
        np.asarray(model(swapped)["logits"])[:, ::-1],
        rtol=1e-5,
        atol=1e-6,
    )
