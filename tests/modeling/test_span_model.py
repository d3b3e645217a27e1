import numpy as np

from albert_tf.modeling import finetuning_losses
from albert_tf.modeling.span_model import SpanModel


def test_logits_loss_and_gradients_equal_the_recorded_ones(recorded_head):
    recorded = recorded_head("squad_v1")
    model = recorded.load(SpanModel(recorded.config))

    def loss():
        sums = finetuning_losses.span_sums(
            model(recorded.batch),
            recorded.batch["start_positions"],
            recorded.batch["end_positions"],
            np.ones(4, "f"),
        )
        return sums.loss / sums.weight

    outputs = model(recorded.batch)
    recorded.assert_close(outputs["start_logits"], "start_logits")
    recorded.assert_close(outputs["end_logits"], "end_logits")
    recorded.assert_close(loss(), "loss")
    recorded.assert_gradients(model, loss)
