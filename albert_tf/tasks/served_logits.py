"""The logits of an exported head over the pooled output, made of ids.

Data flow: ids -> `ExportedEncoder` -> pooled output -> [this file] -> logits.
"""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.serving import exported_encoder
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.signature import Tensors
from albert_tf.tasks import early_exit
from albert_tf.tasks.spec import Exported


def logits_of_ids(
    exported: Exported, num_choices: int = 1
) -> Callable[..., Tensors]:
    """Returns a function from ids `[B x C, S]` to `logits`, `[B, C x K]`.

    C is `num_choices`. The settings are `EarlyExitSettings`: with
    `exit_patience` it also returns `num_layers`, int32 `[B]`, as
    `tasks.early_exit.run` does.
    """
    patience = exported.settings.exit_patience
    encoder = ExportedEncoder(exported.model.albert, exported.weights)
    head = exported.model.task_head
    num_logits = num_choices * head.output_bias.shape[0]

    def logits_of(pooled: tf.Tensor) -> tf.Tensor:
        with exported.weights.scope():
            return tf.reshape(head(pooled), [-1, num_logits])

    def classify(**ids: tf.Tensor) -> Tensors:
        return {"logits": logits_of(encoder.pooled(**ids))}

    if not patience:
        return classify

    def run_group(_: tf.Tensor, *ids: tf.Tensor) -> list[tf.Tensor]:
        length = tf.shape(ids[0])[2]
        hidden, mask = encoder.embed(
            *(tf.reshape(values, [-1, length]) for values in ids)
        )
        outputs = early_exit.run(
            encoder.blocks_to_first,
            lambda hidden: logits_of(encoder.pool(hidden)),
            hidden,
            mask,
            patience=patience,
            blocks_per_layer=exported.model.config.inner_group_num,
            num_choices=num_choices,
        )
        return [outputs["logits"], outputs["num_layers"]]

    def run(*ids: tf.Tensor) -> Tensors:
        shape = [-1, num_choices, tf.shape(ids[0])[1]]
        rows = [tf.reshape(values, shape) for values in ids]
        logits, num_layers = exported_encoder.run_in_groups(
            run_group,
            rows,
            tf.reduce_max(exported_encoder.row_lengths(rows[1]), axis=1),
            [tf.zeros([0, num_logits]), tf.zeros([0], tf.int32)],
        )
        return {"logits": logits, "num_layers": num_layers}

    traced: Callable[..., Tensors] = encoder.trace(run)
    return traced
