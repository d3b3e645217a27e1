import numpy as np
import pytest

from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)


@pytest.mark.parametrize(
    "name, num_labels", [("classifier", 3), ("regression", 1)]
)
def test_logits_loss_and_gradients_equal_the_recorded_ones(
    recorded_head, name, num_labels
):
    recorded = recorded_head(name)
    model = recorded.load(
        ClassifierModel(recorded.config, num_labels=num_labels)
    )
    sums_of = getattr(losses, f"{_KINDS[name]}_sums")

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


_KINDS = {"classifier": "classification", "regression": "regression"}


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


def test_the_encoder_starts_as_an_albert_model_of_the_same_seed(
    tiny_config, tiny_batch
):
    from albert_tf.modeling.albert_model import AlbertModel

    model = ClassifierModel(tiny_config, num_labels=2, seed=5)

    np.testing.assert_array_equal(
        model.albert(tiny_batch)["pooled_output"],
        AlbertModel(tiny_config, seed=5)(tiny_batch)["pooled_output"],
    )


def test_a_classifier_needs_a_label(tiny_config):
    with pytest.raises(ValueError, match="`num_labels` must be at least 1"):
        ClassifierModel(tiny_config, num_labels=0)


def test_multiple_choice_model_logits_loss_and_gradients_equal_the_recorded_ones(
    recorded_head,
):
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
