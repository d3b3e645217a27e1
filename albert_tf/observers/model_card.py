"""Writes the model card of a run: `README.md` in its output directory."""

import dataclasses

from albert_tf.checkpoints import discovery, model_card, run_checkpoints
from albert_tf.training.callbacks import Callback, Result


class ModelCard(Callback):
    """Describes the best weights of a run, when it has ended."""

    def on_end(
        self, result: Result | None, error: BaseException | None
    ) -> None:
        """Writes the card, unless another run has trained the weights."""
        config = self.run.config
        folder = config.output_dir
        best = run_checkpoints.trained_weights(folder)
        if result and result.weights == best:
            checkpoint = dataclasses.replace(
                discovery.open(best), config=config.albert_config
            )
            model_card.write(folder, checkpoint, run=folder)
