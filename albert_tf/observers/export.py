"""Exports the best weights when a fine-tuning has ended."""

from albert_tf import settings
from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig
from albert_tf.metrics.scores import Scores
from albert_tf.text.tokenizer import VocabularyBeside
from albert_tf.training.callbacks import Callback, Result
from albert_tf.training.plan import FinetuningPlan


class Export(Callback):
    """Exports what a plan trains, or uses, into its `export_dir`.

    An export that cannot succeed is refused before the training. The summary is
    `result.created["export"]`.
    """

    def __init__(self, plan: FinetuningPlan) -> None:
        self._plan = plan
        config = self._config(plan.config.output_dir, Scores())
        saved_model.check(config, plan.checkpoint)

    def on_end(
        self, result: Result | None, error: BaseException | None
    ) -> None:
        """Exports the weights of the whole run, not of single seeds."""
        if result and self.run.config is self._plan.config:
            config = self._config(result.weights, result.scores)
            result.created["export"] = saved_model.export(config)

    def _config(self, weights: str, scores: Scores) -> ExportConfig:
        plan = self._plan
        config, sets = plan.config, plan.sets
        head_spec = plan.task_spec.head_spec(plan.task_config)
        # Sets may differ in their number of options: the last set decides.
        known = vars(plan.task_config) | vars(sets.all[-1].data)
        known |= plan.task_spec.chosen(sets.data, scores)
        # The folder of a run that was trained has its config and vocabulary.
        names = [*settings.fields_of(VocabularyBeside), "albert_config_file"]
        return ExportConfig(
            init_checkpoint=weights,
            export_dir=config.export_dir or "",
            **{n: getattr(config, n) for n in names if not config.do_train},
            head=head_spec,
            max_seq_length=config.max_seq_length,
            settings={
                name: known[name]
                for name in head_spec.serving_settings.names()
                if name in known
            },
        )
