import numpy as np

from albert_tf.modeling import finetuning_losses
from albert_tf.modeling.multiple_choice_model import MultipleChoiceModel


def test_logits_loss_and_gradients_equal_the_recorded_ones(recorded_head):
    recorded = recorded_head("race")
    model = recorded.load(MultipleChoiceModel(recorded.config))
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {n: recorded.batch[n].reshape(2, 4, 24) for n in names}

    def loss():
        sums = finetuning_losses.classification_sums(
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
