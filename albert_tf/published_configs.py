"""The configs of published models, by name.

Source: Lan et al. 2020, table 1; configs and release notes of
google-research/albert.
"""

import os
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig


def _size(hidden_size: int, num_layers: int, num_heads: int) -> dict[str, Any]:
    # Paper: section 3.1, F is 4 H.
    return {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "intermediate_size": 4 * hidden_size,
    }


_SIZES = {
    "base": _size(768, num_layers=12, num_heads=12),
    "large": _size(1024, num_layers=24, num_heads=16),
    "xlarge": _size(2048, num_layers=24, num_heads=16),
    "xxlarge": _size(4096, num_layers=12, num_heads=64),
}
# TF1: the released xxlarge_zh has 16 heads (google-research/albert, issue 153).
_CHINESE_SIZES = _SIZES | {"xxlarge": _size(4096, num_layers=12, num_heads=16)}
_ENGLISH = {"vocab_size": 30000}
_CHINESE = {"vocab_size": 21128, "hidden_act": "relu"}
_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_V1 = _ENGLISH | _DROPOUT
_BERT = _V1 | {"parameter_sharing": "none"}
PUBLISHED_SIZES: Mapping[str, Mapping[str, Any]] = {
    # The paper's v1 models up to xlarge were trained with dropout; v2 and both
    # xxlarge models without (google-research/albert, release notes, issue 23).
    **{f"{name}_v1": _V1 | sizes for name, sizes in _SIZES.items()},
    "xxlarge_v1": _ENGLISH | _SIZES["xxlarge"],
    **{f"{name}_v2": _ENGLISH | sizes for name, sizes in _SIZES.items()},
    **{f"{name}_zh": _CHINESE | s for name, s in _CHINESE_SIZES.items()},
    # Paper: table 1, the baselines that ALBERT is compared with.
    "bert_base": _BERT | _SIZES["base"] | {"embedding_size": 768},
    "bert_large": _BERT | _SIZES["large"] | {"embedding_size": 1024},
}


def load_config(name: str) -> AlbertConfig:
    """Returns the config of a JSON file, or of a published model by name.

    >>> load_config("base_v2").hidden_size
    768

    The names are `base`, `large`, `xlarge` or `xxlarge`, followed by `_v1`,
    `_v2` or `_zh`; or `bert_base`, `bert_large` (the paper's baselines).
    """
    if name in PUBLISHED_SIZES:
        return AlbertConfig(**PUBLISHED_SIZES[name])
    if not os.path.exists(name):
        raise FileNotFoundError(
            f"--albert_config_file={name} is neither a file nor a published "
            f"model. The published models are {', '.join(PUBLISHED_SIZES)}."
        )
    return AlbertConfig.from_json_file(name)
