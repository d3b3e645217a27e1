import numpy as np
import pytest

from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from tests.modeling.recorded import Recorded


@pytest.mark.parametrize(
    ("name", "num_labels", "sums_of"),
    [
        ("classifier", 3, losses.weighted_sums),
        ("regression", 1, losses.regression_sums),
    ],
)
def test_classifiers_equal_the_recorded_numbers(
    name, num_labels, sums_of, fusion
):
    recorded = Recorded(name)
    model = recorded.load(
        ClassifierModel(recorded.config, num_labels=num_labels)
    )

    def loss():
        logits = model(recorded.batch, fusion=fusion)["logits"]
        sums = sums_of(logits, recorded.batch["label_ids"], np.ones(3, "f"))
        return sums.loss / sums.weight

    logits = model(recorded.batch, fusion=fusion)["logits"]
    recorded.assert_close(
        logits[:, 0] if name == "regression" else logits, "logits"
    )
    recorded.assert_close(loss(), "loss")
    recorded.assert_gradients(model, loss)


def test_multiple_choice_equals_the_recorded_numbers(fusion):
    recorded = Recorded("race")
    model = recorded.load(MultipleChoiceModel(recorded.config))
    batch = recorded.inputs

    def loss():
        sums = losses.weighted_sums(
            model(batch, fusion=fusion)["logits"],
            recorded.batch["label_ids"],
            np.ones(2, "f"),
        )
        return sums.loss / sums.weight

    recorded.assert_close(model(batch, fusion=fusion)["logits"], "logits")
    recorded.assert_close(loss(), "loss")
    recorded.assert_gradients(model, loss)
