"""The flags of the head that classification and multiple choice share.

Plain Python, so that the flags are read before any slow import.
"""

import dataclasses

from albert_tf import checks
from albert_tf.config import AlbertConfig
from albert_tf.settings import setting

PATIENCE_HELP = (
    "Early exit: an example leaves the model once its prediction has stayed "
    "the same for this number of layers; 0 for never."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadFlags:
    """Flags of a head over the pooled output.

    Raises:
        ValueError: A value is impossible.
    """

    dropout_prob: float = setting(
        0.1, "Dropout rate of the pooled output.", affects_training=True
    )
    exit_patience: int = setting(
        0,
        f"{PATIENCE_HELP} For the predictions and scores of the final "
        "weights; evaluations during the training use all layers.",
    )
    exit_losses: bool = setting(
        False,
        "Train the head on the output of every layer, for early exit: the "
        "loss is the mean over the layers, with the number of the layer as "
        "its weight.",
        affects_training=True,
    )

    def __post_init__(self) -> None:
        checks.check_number(
            "dropout_prob", self.dropout_prob, at_least=0, below=1
        )
        checks.check_integer("exit_patience", self.exit_patience, at_least=0)


DEFAULT_HEAD = HeadFlags()


def check_patience(
    patience: int, config: AlbertConfig, *, on_tpu: bool = False
) -> None:
    """Checks that examples can leave a model early; 0 is always possible.

    Raises:
        ValueError: The model has too few layers, or the devices cannot drop
            examples.
    """
    if not patience:
        return
    num_layers = config.num_hidden_layers * config.inner_group_num
    if patience >= num_layers:
        raise ValueError(
            "`exit_patience` must be smaller than the number of layers, or no "
            f"example can leave early. Received: exit_patience={patience}, "
            f"{num_layers} layers."
        )
    if on_tpu:
        raise ValueError(
            "`exit_patience` needs batches that shrink, which a TPU does not "
            f"have. Received: exit_patience={patience}. Leave it out, or "
            "predict on other devices."
        )


def check_single_label(patience: int, *, has_one_label: bool) -> None:
    """Checks that an example has one label, which can stay the same.

    Raises:
        ValueError: It is a number or a set of labels.
    """
    if patience and not has_one_label:
        raise ValueError(
            "`exit_patience` compares the labels that layers predict. It "
            "cannot be used for regression and multi-label classification. "
            f"Received: exit_patience={patience}."
        )
