"""Settings of a conversion, in plain Python."""

import dataclasses

from albert_tf import checks, registry
from albert_tf.config import SHARING_STRATEGIES
from albert_tf.settings import setting
from albert_tf.text.tokenizer import NewTokens, VocabularyBeside


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionConfig(NewTokens, VocabularyBeside):
    """Settings of one conversion; every field is a flag of the same name."""

    input_path: str = setting(
        None,
        "Checkpoint to read, prefix or folder, in any of the formats: the "
        "format is recognised.",
    )
    output_path: str = setting(
        None, "Folder to write; it must not exist, or be empty."
    )
    output_format: str = setting(
        None,
        "Format to write: tf1 (google-research/albert), keras (the format of "
        "our own runs), huggingface or keras_hub.",
        choices=(*registry.CHECKPOINT_WRITERS,),
    )
    albert_config_file: str | None = setting(
        None,
        "JSON file with the shape of the model, or the name of a published "
        "model; default: the config beside the input.",
    )
    head: str | None = setting(
        None,
        "Head of the checkpoint, if it does not say so, or package.module:SPEC "
        "for a head of another package, which --verify then compares, too.",
    )
    null_from_cls: bool = setting(
        False,
        "The question answering head was trained by transformers on SQuAD "
        "2.0: its logits of [CLS] mean that there is no answer. The output's "
        "metadata.json then says so.",
    )
    num_hidden_layers: int | None = setting(
        None, "Layers of the output; default: as many as the input has."
    )
    num_hidden_groups: int | None = setting(
        None,
        "Groups of layers of the output, all copies of the input's first "
        "group; default: the input's groups.",
    )
    parameter_sharing: str | None = setting(
        None,
        "Weights that the layers of the output share; shared weights are "
        "copied to the layers. Default: as in the input.",
        choices=SHARING_STRATEGIES,
    )
    max_position_embeddings: int | None = setting(
        None,
        "Longest sequence of the output, whose new positions are copies; "
        "default: as the input.",
    )
    attention_window: int | None = setting(
        None,
        "Tokens on either side that a token of the output attends to; 0 for "
        "all. Default: as the input.",
    )
    verify: bool = setting(
        False,
        "Run a fixed batch through the weights of both sides, print the "
        "largest difference of each output, and fail above 1e-5.",
    )

    def __post_init__(self) -> None:
        checks.check_given(self, "input_path", "output_path", "output_format")
        super().__post_init__()
