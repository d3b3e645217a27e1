"""The preset `budget`: a recipe for a pretraining that has little time.

Found by search with a small model (4 layers, H=256) on 46 MB of text, and not
tried with larger ones: docs/results.md has what was compared. With few updates,
the paper's recipe, whose rate is meant for batches of 4096, has hardly begun to
learn, and a model learns to use the context sooner at half its depth.
"""

from typing import Any

from albert_tf.config import AlbertConfig

PRESETS = ("budget",)
_WARMUP_SHARE = 0.2
_SHALLOW_SHARE = 0.6


def budget_settings(
    config: AlbertConfig, num_train_steps: int
) -> dict[str, Any]:
    """Returns values by name of their flag.

    A model whose layers do not share all their weights has no schedule of
    depths.

    >>> config = AlbertConfig(vocab_size=9, num_hidden_layers=4)
    >>> budget_settings(config, 1000)["depth_schedule"]
    '2@0,4@600'
    """
    found: dict[str, Any] = {
        "optimizer": "adamw",
        "learning_rate": 4e-4,
        "train_batch_size": 32,
        "num_warmup_steps": int(num_train_steps * _WARMUP_SHARE),
    }
    num_layers = config.num_hidden_layers
    num_sets = max(map(config.num_weight_sets, ("attention", "ffn")))
    change = int(num_train_steps * _SHALLOW_SHARE)
    if num_sets == 1 and num_layers > 1 and change:
        found["depth_schedule"] = f"{num_layers // 2}@0,{num_layers}@{change}"
    return found
