"""Makes a SentencePiece vocabulary with ALBERT's settings.

Data flow: corpus files -> normalised lines -> [this file] -> P.model, P.vocab.
Floor: text. Plain Python and the SentencePiece library.

Source: google-research/albert, README, "SentencePiece"; the settings stored in
the released model agree.
"""

import dataclasses
import io
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sentencepiece

from albert_tf import files
from albert_tf.text import lines, normalization, special_tokens

USER_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
MIN_CHARACTER_COVERAGE = 0.98
INPUT_SENTENCE_SIZE = 10_000_000
MAX_SENTENCE_BYTES = 4192

_TRAINER_OPTIONS: Mapping[str, Any] = {
    "model_type": "unigram",
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
    "user_defined_symbols": list(USER_SYMBOLS),
    "normalization_rule_name": "nmt_nfkc",
    # Differs: the sentences are drawn here, because SentencePiece draws
    # others in every process, whatever its seed.
    "input_sentence_size": 0,
    "shuffle_input_sentence": False,
    "max_sentence_length": MAX_SENTENCE_BYTES,
    # The sums over sentences, and so the bytes of the model, depend on the
    # number of threads; it must not depend on the machine.
    "num_threads": 16,
    "minloglevel": 2,
}
_TOO_LARGE = re.compile(r"Vocabulary size too high .* value <= (\d+)")
_TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")
_MAX_BYTES_OF_CHARACTER = 4
_NUM_PROBED_SENTENCES = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What came of a training.

    Args:
        model_file: The SentencePiece model.
        vocab_file: Its pieces and their scores, for people to read.
        vocab_size: Number of pieces.
        num_sentences: Sentences read, empty lines not counted.
        num_long_sentences: Those left out because they are longer than
            `MAX_SENTENCE_BYTES`.
        covered_share: Share of the characters that are part of a known
            piece, in the first 10,000 of the sentences used.
    """

    model_file: str
    vocab_file: str
    vocab_size: int
    num_sentences: int
    num_long_sentences: int
    covered_share: float


def train(
    *,
    input_files: Sequence[files.Path],
    output_prefix: files.Path,
    vocab_size: int = 30000,
    character_coverage: float = 0.99995,
    do_lower_case: bool = True,
    seed: int = 12345,
    input_sentence_size: int = INPUT_SENTENCE_SIZE,
) -> Summary:
    """Trains a vocabulary and writes `<prefix>.model` and `<prefix>.vocab`.

    Both files appear, whole, or neither. The same input gives the same bytes.

    Args:
        input_files: Text, one sentence a line; `.gz` is decompressed.
        output_prefix: Path without ending.
        vocab_size: Number of pieces, special ones included.
        character_coverage: Share of the text that the single characters of
            the vocabulary must cover, 0.98 to 1.
        do_lower_case: Whether letters are made lower case first.
        seed: Chooses the sentences if there are too many.
        input_sentence_size: How many sentences are used at most.

    Returns:
        What was read and written.

    Raises:
        FileNotFoundError: An input file does not exist.
        ValueError: A setting is impossible; the corpus is empty, not UTF-8,
            or too small for `vocab_size`; or `vocab_size` is too small for
            the characters of the corpus.
    """
    _check_settings(vocab_size, character_coverage, input_sentence_size)
    corpus = _Corpus(input_files, do_lower_case=do_lower_case)
    if not corpus.num_usable_sentences:
        raise ValueError(
            f"The corpus has no usable sentence: {corpus.num_sentences} read, "
            f"{corpus.num_long_sentences} of them longer than "
            f"{MAX_SENTENCE_BYTES} bytes. Put one sentence on a line."
        )
    prefix = os.fspath(output_prefix)
    # Opened before the training, which may take hours, so that a folder that
    # cannot be written is found at once.
    with (
        files.atomic_write(f"{prefix}.model") as model_file,
        files.atomic_write(f"{prefix}.vocab") as vocab_file,
    ):
        model = _train_model(
            corpus,
            corpus.sample(input_sentence_size, seed),
            vocab_size=vocab_size,
            character_coverage=character_coverage,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        _check_special_ids(processor)
        model_file.write(model)
        model_file.flush()
        vocab_file.write(_list_pieces(processor).encode())
    return Summary(
        model_file=f"{prefix}.model",
        vocab_file=f"{prefix}.vocab",
        vocab_size=processor.get_piece_size(),
        num_sentences=corpus.num_sentences,
        num_long_sentences=corpus.num_long_sentences,
        covered_share=_covered_share(processor, corpus.first_sentences),
    )


def _check_settings(
    vocab_size: int,
    character_coverage: float,
    input_sentence_size: int,
) -> None:
    num_fixed = len(special_tokens.SENTENCEPIECE_NAMES) + len(USER_SYMBOLS)
    if vocab_size <= num_fixed:
        raise ValueError(
            f"`vocab_size` must be more than {num_fixed}, the number of "
            f"special pieces and fixed symbols. Received: {vocab_size}."
        )
    if not MIN_CHARACTER_COVERAGE <= character_coverage <= 1:
        raise ValueError(
            "`character_coverage` must be a share from "
            f"{MIN_CHARACTER_COVERAGE} to 1. Received: {character_coverage}."
        )
    if input_sentence_size < 1:
        raise ValueError(
            "`input_sentence_size` must be at least 1. Received: "
            f"{input_sentence_size}."
        )


class _Corpus:
    """Normalised sentences of files; they are counted when it is made.

    SentencePiece turns an error of the iterator that feeds it into one of its
    own, so the first is kept in `error`.
    """

    def __init__(
        self, input_files: Sequence[files.Path], *, do_lower_case: bool
    ) -> None:
        self._input_files = input_files
        self._do_lower_case = do_lower_case
        self.num_sentences = 0
        self.num_long_sentences = 0
        for sentence in self._read():
            self.num_sentences += 1
            self.num_long_sentences += _is_long(sentence)
        self.first_sentences: list[str] = []
        self.error: BaseException | None = None

    @property
    def num_usable_sentences(self) -> int:
        """Number of sentences that are not too long."""
        return self.num_sentences - self.num_long_sentences

    def sample(self, size: int, seed: int) -> Iterator[str]:
        """Yields at most `size` usable sentences, drawn without favour."""
        random_numbers = random.Random(seed)
        num_wanted, num_left = size, self.num_usable_sentences
        try:
            for sentence in self._read():
                if _is_long(sentence):
                    continue
                if random_numbers.random() * num_left < num_wanted:
                    num_wanted -= 1
                    if len(self.first_sentences) < _NUM_PROBED_SENTENCES:
                        self.first_sentences.append(sentence)
                    yield sentence
                num_left -= 1
        except (Exception, KeyboardInterrupt) as error:
            self.error = error
            raise

    def _read(self) -> Iterator[str]:
        for path in self._input_files:
            for line in lines.read_lines(path):
                sentence = normalization.normalize(
                    line, do_lower_case=self._do_lower_case
                )
                if sentence:
                    yield sentence


def _is_long(sentence: str) -> bool:
    if len(sentence) * _MAX_BYTES_OF_CHARACTER <= MAX_SENTENCE_BYTES:
        return False
    return len(sentence.encode()) > MAX_SENTENCE_BYTES


def _train_model(
    corpus: _Corpus,
    sentences: Iterator[str],
    *,
    vocab_size: int,
    character_coverage: float,
) -> bytes:
    """Returns the bytes of a model."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            **_TRAINER_OPTIONS,
        )
    except RuntimeError as error:
        if corpus.error is not None:
            raise corpus.error from None
        raise ValueError(_explain(str(error), corpus, vocab_size)) from error
    return model.getvalue()


def _explain(message: str, corpus: _Corpus, vocab_size: int) -> str:
    """Says in our words what SentencePiece could not do."""
    if found := _TOO_LARGE.search(message):
        return (
            f"The corpus ({corpus.num_sentences} sentences) is too small for "
            f"`vocab_size`={vocab_size}. Add text, or pass at most "
            f"{found[1]}."
        )
    if found := _TOO_SMALL.search(message):
        return (
            f"`vocab_size`={vocab_size} is too small for the characters of "
            f"the corpus. Pass at least {found[1]}, or a lower "
            "`character_coverage`."
        )
    return f"SentencePiece could not make a vocabulary: {message}"


def _check_special_ids(
    processor: sentencepiece.SentencePieceProcessor,
) -> None:
    names = special_tokens.SENTENCEPIECE_NAMES
    found = tuple(processor.id_to_piece(i) for i in range(len(names)))
    if found != names:
        raise ValueError(
            f"SentencePiece gave the first ids to {found}, wanted {names}. "
            "Use another version of sentencepiece."
        )


def _list_pieces(processor: sentencepiece.SentencePieceProcessor) -> str:
    """Returns a line for each piece: the piece, a tab, its score."""
    return "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):.6g}\n"
        for i in range(processor.get_piece_size())
    )


def _covered_share(
    processor: sentencepiece.SentencePieceProcessor, sentences: list[str]
) -> float:
    """Returns the share of characters that are not in an unknown piece."""
    unknown_size = 0
    for found in processor.encode(sentences, return_type="offset_mapping"):
        unknown_size += sum(
            end - start
            for token_id, (start, end) in zip(
                found["ids"], found["offsets"], strict=True
            )
            if token_id == processor.unk_id()
        )
    return 1 - unknown_size / sum(map(len, sentences))
