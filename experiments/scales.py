"""How large the models of the experiments are, and how long they train."""

import dataclasses

from albert_tf.config import AlbertConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """A training on sequences of one length, from a rate that falls to 0."""

    max_seq_length: int
    num_train_steps: int
    num_warmup_steps: int
    train_batch_size: int
    learning_rate: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """A size at which an experiment is run.

    Args:
        config: ALBERT-base of this scale; experiments change parts of it.
        ngram: Longest span of words that is masked together. Single words,
            as of BERT, are learnt sooner.
        first: A training on masked words alone, in short sequences, on which
            a model learns sooner to use the context.
        second: The training on pairs of segments.
        finetuning: The training on a task.
        num_seeds: Runs of every model, if the user does not say.
    """

    name: str
    config: AlbertConfig
    optimizer: str
    ngram: int
    first: Phase
    second: Phase
    finetuning: Phase
    num_seeds: int


def _model(**sizes: int) -> AlbertConfig:
    # Without dropout, which slows down models that are too small to overfit.
    return AlbertConfig(
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        intermediate_size=4 * sizes["hidden_size"],
        max_position_embeddings=64,
        **sizes,
    )


SCALES = {
    "tiny": Scale(
        name="tiny",
        config=_model(
            vocab_size=2000,
            embedding_size=64,
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
        ),
        optimizer="adamw",
        ngram=1,
        first=Phase(
            max_seq_length=32,
            num_train_steps=100,
            num_warmup_steps=20,
            train_batch_size=64,
            learning_rate=1e-3,
        ),
        second=Phase(
            max_seq_length=64,
            num_train_steps=40,
            num_warmup_steps=4,
            train_batch_size=32,
            learning_rate=6e-4,
        ),
        finetuning=Phase(
            max_seq_length=64,
            num_train_steps=200,
            num_warmup_steps=20,
            train_batch_size=32,
            learning_rate=3e-4,
        ),
        num_seeds=1,
    ),
    "small": Scale(
        name="small",
        config=_model(
            vocab_size=2000,
            embedding_size=128,
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
        ),
        optimizer="adamw",
        ngram=1,
        first=Phase(
            max_seq_length=32,
            num_train_steps=2500,
            num_warmup_steps=250,
            train_batch_size=128,
            learning_rate=1e-3,
        ),
        second=Phase(
            max_seq_length=64,
            num_train_steps=1500,
            num_warmup_steps=75,
            train_batch_size=64,
            learning_rate=6e-4,
        ),
        finetuning=Phase(
            max_seq_length=64,
            num_train_steps=1000,
            num_warmup_steps=100,
            train_batch_size=32,
            learning_rate=2e-4,
        ),
        num_seeds=2,
    ),
}
