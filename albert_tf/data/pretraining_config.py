"""Settings of a pretraining record build, and the vocabulary it uses.

Floor: data. Plain Python.

Source: google-research/albert, flags of `create_pretraining_data.py`.
"""

import dataclasses

from albert_tf import files
from albert_tf.data import segment_pairs
from albert_tf.text import tokenizer

MASKINGS = ("static", "dynamic")
# A static record shows one draw of masks, so the original makes 40; a dynamic
# one shows other masks each time it is read.
DEFAULT_DUPE_FACTORS = {"static": 40, "dynamic": 1}

_SHORTEST_SEQUENCE = 8
_PAIR_SPECIALS, _SINGLE_SPECIALS = 3, 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Where the tokenizer comes from.

    Args:
        spm_model_file: SentencePiece model; if given, it is used.
        vocab_file: WordPiece vocabulary.
        do_lower_case: Whether letters are made lower case.
    """

    spm_model_file: files.Path | None = None
    vocab_file: files.Path | None = None
    do_lower_case: bool = True

    def load(self) -> tokenizer.Tokenizer:
        """Loads the tokenizer; errors are those of `load_tokenizer`."""
        return tokenizer.load_tokenizer(
            spm_model_file=self.spm_model_file,
            vocab_file=self.vocab_file,
            do_lower_case=self.do_lower_case,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig:
    """How pretraining records are made from documents.

    The defaults are the original's.

    Args:
        masking: `static` (masks are drawn at the build, the original's eight
            features) or `dynamic` (records hold unmasked pairs; masks and the
            order swap are drawn when they are read).
        pair_objective: `sop` (sentence order), `nsp` (next sentence) or `none`
            (single segments).
        max_seq_length: S, special tokens included.
        max_predictions_per_seq: Most tokens masked in a record.
        masked_lm_prob: Share of tokens masked, above 0.
        short_seq_prob: Share of documents cut into shorter sequences.
        ngram: Longest n-gram of words masked together.
        favor_shorter_ngram: Whether p(n) is proportional to 1/n, or reversed.
        do_whole_word_mask: Whether to mask words, or single tokens.
        do_permutation: Whether to shuffle as many further tokens among
            themselves; twice the prediction slots.
        dupe_factor: Passes over the corpus, each with other pairs.
        random_seed: Seed of every draw.
        reference_pairs: Whether a chunk of one sentence makes an unrelated
            pair in `sop`, as in the original, or none.

    Raises:
        ValueError: A value is impossible; the message names the field.
    """

    masking: str = "static"
    pair_objective: str = "sop"
    max_seq_length: int = 512
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    do_permutation: bool = False
    dupe_factor: int = DEFAULT_DUPE_FACTORS["static"]
    random_seed: int = 12345
    reference_pairs: bool = False

    def __post_init__(self) -> None:
        self._check_choice("masking", MASKINGS)
        self._check_choice("pair_objective", segment_pairs.PAIR_OBJECTIVES)
        self._check_range("max_seq_length", _SHORTEST_SEQUENCE)
        self._check_range("ngram", 1)
        self._check_range("dupe_factor", 1)
        self._check_range("random_seed", 0)
        self._check_masked_lm_prob()
        self._check_range("short_seq_prob", 0, 1)
        self._check_range("max_predictions_per_seq", 1, self.token_budget)
        if self.do_permutation and self.masking == "dynamic":
            raise ValueError(
                "`do_permutation` needs masking='static': dynamic masks do "
                "not permute. Received: masking='dynamic'."
            )
        if self.reference_pairs and self.pair_objective != "sop":
            raise ValueError(
                "`reference_pairs` changes sentence-order pairs only, so it "
                "needs pair_objective='sop'. Received: "
                f"pair_objective={self.pair_objective!r}."
            )

    @property
    def token_budget(self) -> int:
        """Tokens that fit into a record beside `[CLS]` and `[SEP]`s."""
        is_single = self.pair_objective == "none"
        num_specials = _SINGLE_SPECIALS if is_single else _PAIR_SPECIALS
        return self.max_seq_length - num_specials

    @property
    def num_prediction_slots(self) -> int:
        """P, the length of the masked_lm fields."""
        return self.max_predictions_per_seq * (2 if self.do_permutation else 1)

    def _check_masked_lm_prob(self) -> None:
        # Differs: the original takes 0, and writes records without a target.
        if not 0 < self.masked_lm_prob <= 1:
            raise ValueError(
                "`masked_lm_prob` must be above 0 and at most 1, because "
                "pretraining learns from what is masked. Received: "
                f"masked_lm_prob={self.masked_lm_prob!r}."
            )

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise ValueError(
                f"`{name}` must be one of {', '.join(choices)}. "
                f"Received: {name}={value!r}."
            )

    def _check_range(
        self, name: str, least: int, most: int | None = None
    ) -> None:
        value = getattr(self, name)
        if not (least <= value and (most is None or value <= most)):
            end = "" if most is None else f" and at most {most}"
            raise ValueError(
                f"`{name}` must be at least {least}{end}. "
                f"Received: {name}={value!r}."
            )
