"""The config of a model: the fields of `albert_config.json`, checked once.

Source: Lan et al. 2020, table 1; field names and inert keys of
google-research/albert, `modeling.AlbertConfig`.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import checks, files

# Name of the config file in the folders of runs, checkpoints and exports.
CONFIG_FILE = "albert_config.json"
ACTIVATIONS = ("gelu", "gelu_erf", "relu", "silu", "tanh", "linear")
# Needed because more blocks with shared weights take no more memory.
_MOST_BLOCKS = 10_000
SHARING_STRATEGIES = ("all", "attention", "ffn", "none")
# Fields that the paper does not have; written only where they have an effect.
_EXTENSIONS = ("attention_window", "always_projects")

# Keys of the released JSON files that no code ever read, with the only value
# that is accepted: any other would promise a behaviour that does not exist.
# None accepts any value: sizes in the configs of BERT and albert_zh.
INERT_KEYS: Mapping[str, Any] = {
    "down_scale_factor": 1,
    "gap_size": 0,
    "layers_to_keep": [],
    "net_structure_type": 0,
    "num_memory_blocks": 0,
    "layer_norm_eps": 1e-12,
    "ln_type": "postln",
    "directionality": "bidi",
    "pooler_type": "first_token_transform",
    "pooler_fc_size": None,
    "pooler_num_attention_heads": None,
    "pooler_num_fc_layers": None,
    "pooler_size_per_head": None,
    "adapter_rank": 0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig:
    """Describes the shape of an ALBERT, or of a BERT if nothing is shared.

    The defaults are for ALBERT-xxlarge, as in google-research/albert.

    Args:
        vocab_size: Number of tokens, V.
        embedding_size: Width of the token embeddings, E. If it equals
            `hidden_size` there is no projection from E to H, but see
            `always_projects`.
        hidden_size: Width of the encoder, H.
        num_hidden_layers: Number of encoder layers; each runs one group.
        num_hidden_groups: Number of sets of shared weights; at most
            `num_hidden_layers`. Layer `l` uses group
            `l * num_hidden_groups // num_hidden_layers`.
        inner_group_num: Number of distinct blocks in a group.
        num_attention_heads: Number of heads, N; must divide `hidden_size`.
        intermediate_size: Width of the feed-forward layer, F.
        hidden_act: One of `gelu` (the tanh form), `gelu_erf` (the exact one),
            `relu`, `silu`, `tanh`, `linear`.
        hidden_dropout_prob: Dropout of embeddings and sublayer outputs.
        attention_probs_dropout_prob: Dropout of the attention probabilities.
        max_position_embeddings: Longest sequence.
        type_vocab_size: Number of segment types.
        initializer_range: Standard deviation of the initial weights.
        parameter_sharing: Weights that layers of one group share: `all`,
            `attention`, `ffn` (feed-forward), `none`; Lan et al. 2020, table 4.
        attention_window: Number of tokens on either side that a token attends
            to, W, in addition to a few global tokens, see `modeling.windows`;
            0 for full attention. Not in the paper.
        always_projects: Whether to project from E to H even if they are equal,
            as in transformers and KerasHub. Not in the paper.
    """

    vocab_size: int
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    parameter_sharing: str = "all"
    attention_window: int = 0
    always_projects: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type is int:
                value = getattr(self, field.name)
                least = 0 if field.name in _EXTENSIONS else 1
                checks.check_integer(field.name, value, at_least=least)
        dropouts = "hidden_dropout_prob", "attention_probs_dropout_prob"
        checks.check_numbers(self, *dropouts, at_least=0, below=1)
        checks.check_numbers(self, "initializer_range", at_least=0)
        checks.check_choice("hidden_act", self.hidden_act, ACTIVATIONS)
        checks.check_choice(
            "parameter_sharing", self.parameter_sharing, SHARING_STRATEGIES
        )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_attention_heads`. "
                f"Received: hidden_size={self.hidden_size}, "
                f"num_attention_heads={self.num_attention_heads}."
            )
        layers, groups = self.num_hidden_layers, self.num_hidden_groups
        checks.check_integer(
            "num_hidden_layers * inner_group_num",
            layers * self.inner_group_num,
            at_most=_MOST_BLOCKS,
        )
        # A group without a layer would never be used.
        checks.check_integer(
            "num_hidden_groups", groups, at_least=1, at_most=layers
        )

    @property
    def has_projection(self) -> bool:
        """Whether the embeddings are projected from E to H."""
        return self.embedding_size != self.hidden_size or self.always_projects

    def group_of_layer(self, layer: int) -> int:
        """Returns the index of the group whose weights `layer` uses.

        >>> AlbertConfig(vocab_size=9, num_hidden_groups=3).group_of_layer(8)
        2
        """
        # Differs: google-research/albert computes int(layer / L * G), L layers
        # and G groups, in floating point, which gives a wrong group for L = G =
        # 22, among others.
        return layer * self.num_hidden_groups // self.num_hidden_layers

    def is_shared(self, half: str) -> bool:
        """Returns whether layers of a group share `attention` or `ffn`."""
        return self.parameter_sharing in ("all", half)

    def weight_set(self, half: str, layer: int) -> int:
        """Returns the index of the weight set of one half of a layer."""
        return self.group_of_layer(layer) if self.is_shared(half) else layer

    def num_weight_sets(self, half: str) -> int:
        """Returns the number of weight sets of one half, for all layers.

        A half that is shared has one set for each group, else one for each
        layer; each set has the weights of `inner_group_num` blocks.
        """
        if self.is_shared(half):
            return self.num_hidden_groups
        return self.num_hidden_layers

    def check_shared(self, name: str) -> None:
        """Checks that layers share all weights, which setting `name` needs."""
        num_sets = max(map(self.num_weight_sets, ("attention", "ffn")))
        if num_sets > 1:
            raise ValueError(
                f"`{name}` needs a model whose layers share all their weights. "
                f"Received: parameter_sharing={self.parameter_sharing!r}, "
                f"num_hidden_groups={self.num_hidden_groups}."
            )

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], *, where: files.Path | None = None
    ) -> "AlbertConfig":
        """Builds a config from the keys of an `albert_config.json`.

        Args:
            values: Fields by name; inert keys may be among them.
            where: Path of the file, to begin error messages with.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        fields = {key: values[key] for key in values if key in known}
        if fields.get("hidden_act", "gelu") in ("", None):
            fields["hidden_act"] = "linear"
        try:
            if unknown := sorted({*values} - known - {*INERT_KEYS}):
                raise ValueError(
                    f"Unknown config key {', '.join(map(repr, unknown))}. "
                    f"Remove it. Known keys: {', '.join(sorted(known))}."
                )
            for key, neutral in INERT_KEYS.items():
                if neutral is not None and values.get(key, neutral) != neutral:
                    raise ValueError(
                        f"Models with another {key!r} than {neutral!r} are not "
                        f"supported. Received: {key}={values[key]!r}."
                    )
            if "vocab_size" not in values:
                raise ValueError("The config has no 'vocab_size'. Add it.")
            return cls(**fields)
        except ValueError as error:
            if where is None:
                raise
            raise ValueError(f"{os.fspath(where)}: {error}") from error

    @classmethod
    def from_json_file(cls, path: files.Path) -> "AlbertConfig":
        """Reads an `albert_config.json`; errors name the file."""
        return cls.from_dict(files.read_json_object(path), where=path)

    def to_dict(self) -> files.JsonObject:
        """Returns the fields by name; `from_dict` reads them back.

        Fields that the paper does not have are left out where they are 0.
        """
        fields = dataclasses.asdict(self)
        return {n: v for n, v in fields.items() if v or n not in _EXTENSIONS}

    def to_json_file(self, path: files.Path) -> None:
        """Writes an `albert_config.json`."""
        files.write_json(path, self.to_dict())
