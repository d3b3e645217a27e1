"""How large the models of the experiments are, and how long they train."""

import dataclasses

from albert_tf.config import AlbertConfig, published_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """A size at which an experiment is run.

    All its models see the same records in the same order: sequences of
    `short_length` tokens first, of which the context is learnt sooner, then of
    `max_seq_length`.

    Args:
        config: ALBERT-base of this scale; experiments change parts of it.
        short_steps: Updates on short sequences; 0 for none.
        num_seeds: Runs of every model, if the user does not say.
    """

    name: str
    config: AlbertConfig
    vocab_size: int
    short_length: int
    max_seq_length: int
    num_train_steps: int
    short_steps: int
    num_warmup_steps: int
    train_batch_size: int
    learning_rate: float
    optimizer: str
    num_seeds: int


def _model(**sizes: int) -> AlbertConfig:
    # Without dropout, which slows down models that are too small to overfit.
    return AlbertConfig(
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        intermediate_size=4 * sizes["hidden_size"],
        **sizes,
    )


SCALES = {
    "tiny": Scale(
        name="tiny",
        config=_model(
            vocab_size=2000,
            embedding_size=32,
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=64,
        ),
        vocab_size=2000,
        short_length=32,
        max_seq_length=64,
        num_train_steps=600,
        short_steps=450,
        num_warmup_steps=60,
        train_batch_size=32,
        learning_rate=1e-3,
        optimizer="adamw",
        num_seeds=1,
    ),
    "small": Scale(
        name="small",
        config=_model(
            vocab_size=8000,
            embedding_size=64,
            hidden_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=64,
        ),
        vocab_size=8000,
        short_length=32,
        max_seq_length=64,
        num_train_steps=16000,
        short_steps=12000,
        num_warmup_steps=1600,
        train_batch_size=64,
        learning_rate=7e-4,
        optimizer="adamw",
        num_seeds=2,
    ),
    "paper": Scale(
        name="paper",
        config=published_config("base_v1"),
        vocab_size=30000,
        short_length=512,
        max_seq_length=512,
        num_train_steps=125_000,
        short_steps=0,
        num_warmup_steps=3125,
        train_batch_size=4096,
        learning_rate=0.00176,
        optimizer="lamb",
        num_seeds=1,
    ),
}
