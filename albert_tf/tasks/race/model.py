"""Multiple choice, the model half.

Source: Lan et al. 2020, appendix A.3; google-research/albert, `race_utils`.
"""

from albert_tf.config import AlbertConfig
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.tasks import head_flags
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.label_task import LabelTask


class MultipleChoiceTask(LabelTask):
    """Predicts which of any number of choices is right.

    Sequences are `[B, C, S]`, `label_ids` int32 `[B]`. The outputs are
    `logits`, float32 `[B, C]`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        head: HeadFlags = head_flags.DEFAULT_HEAD,
        **options: object,
    ) -> None:
        super().__init__(head)
        self.model = MultipleChoiceModel(
            config, dropout_prob=head.dropout_prob, **options
        )
