"""Writes the model card of a run: `README.md` in its output directory."""

import dataclasses

from albert_tf.checkpoints import discovery, model_card, run_checkpoints
from albert_tf.training.callbacks import Callback, Result
from albert_tf.training.run_config import FinetuningConfig


class ModelCard(Callback):
    """Describes the best weights of a run, when it has ended."""

    def on_end(
        self, result: Result | None, error: BaseException | None
    ) -> None:
        """Writes the card, unless another run has trained the weights."""
        config = self.run.config
        folder = config.output_dir
        folds = []
        if isinstance(config, FinetuningConfig):
            folds = config.fold_configs()
        best = run_checkpoints.trained_weights(
            folds[0].output_dir if folds else folder
        )
        if not (result and best) or not (folds or result.weights == best):
            return
        checkpoint = dataclasses.replace(
            discovery.open(best), config=config.albert_config
        )
        if folds:
            # Each fold has a model; the scores are of all folds together.
            metadata = dataclasses.replace(
                checkpoint.metadata,
                evaluation=result.evaluation,
                thresholds=None,
                temperature=None,
            )
            checkpoint = dataclasses.replace(checkpoint, metadata=metadata)
        model_card.write(folder, checkpoint, run=folder)
