"""How large the models of the experiments are, and how long they train."""

import dataclasses

from albert_tf.config import AlbertConfig


@dataclasses.dataclass(frozen=True)
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
        lengthened: Trainings on longer sequences: with full attention, and
            within a window.
        num_seeds: Runs of every model, if the user does not say.
    """

    name: str
    config: AlbertConfig
    optimizer: str = "adamw"
    precision: str = "float32"
    ngram: int = 1
    first: Phase
    second: Phase
    finetuning: Phase
    lengthened: tuple[Phase, Phase]
    num_seeds: int

    def with_width(self, hidden_size: int) -> AlbertConfig:
        """Returns the config with another H, and heads of the same size."""
        head_size = self.config.hidden_size // self.config.num_attention_heads
        return dataclasses.replace(
            self.config,
            hidden_size=hidden_size,
            intermediate_size=4 * hidden_size,
            num_attention_heads=hidden_size // head_size,
        )


def _model(embedding_size: int) -> AlbertConfig:
    # Without dropout, which slows down models that are too small to overfit.
    return AlbertConfig(
        vocab_size=2000,
        embedding_size=embedding_size,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


# Phases: length, steps, steps of the warm-up, sequences a batch, rate.
SCALES = {
    "tiny": Scale(
        name="tiny",
        config=_model(embedding_size=64),
        first=Phase(32, 100, 20, 64, 1e-3),
        second=Phase(64, 40, 4, 32, 6e-4),
        finetuning=Phase(64, 200, 20, 32, 3e-4),
        lengthened=(Phase(64, 20, 2, 16, 6e-4), Phase(256, 20, 2, 4, 6e-4)),
        num_seeds=1,
    ),
    "small": Scale(
        name="small",
        config=_model(embedding_size=128),
        first=Phase(32, 2500, 250, 128, 1e-3),
        second=Phase(64, 1500, 75, 64, 6e-4),
        finetuning=Phase(64, 1000, 100, 32, 2e-4),
        lengthened=(
            Phase(512, 300, 30, 32, 6e-4),
            Phase(4096, 300, 30, 4, 6e-4),
        ),
        num_seeds=2,
    ),
}
