"""Trains a SentencePiece vocabulary with ALBERT's settings, or lists symbols.

Data flow: documents -> normalized sentences -> [this file] -> P.model, P.vocab;
or documents -> [this file] -> P.symbols.json.
Plain Python and the SentencePiece library.

Source: google-research/albert, README, "SentencePiece"; the settings stored in
the released model are the same.
"""

import collections
import dataclasses
import functools
import io
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sentencepiece

from albert_tf import checks, files, folders
from albert_tf.settings import setting
from albert_tf.text import base, documents, normalization, vocabulary_file
from albert_tf.text.documents import CorpusSettings, Documents

USER_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
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
    # different ones in every process, whatever its seed.
    "input_sentence_size": 0,
    "shuffle_input_sentence": False,
    "max_sentence_length": MAX_SENTENCE_BYTES,
    # Sums over sentences, and so the bytes of the model, depend on the number
    # of threads, so it must not depend on the machine.
    "num_threads": 16,
    "minloglevel": 2,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyTrainingConfig(CorpusSettings):
    """How to train a vocabulary; every field is a flag of `build_vocab.py`."""

    output_prefix: str | None = setting(
        None,
        "Path, without extension, of the two files to write: P.model and "
        "P.vocab; or, of symbols, P.symbols.json.",
    )
    model_type: str = setting(
        "unigram",
        "unigram: a SentencePiece model of words. char, word: a list of "
        "symbols that nothing normalizes, the most frequent ones: the "
        "characters of the text, or its parts between blanks.",
        choices=("unigram", "char", "word"),
    )
    vocab_size: int = setting(
        30000,
        "Number of tokens, special tokens included.",
        at_least=len(base.SENTENCEPIECE_NAMES) + len(USER_SYMBOLS) + 1,
    )
    character_coverage: float = setting(
        0.99995,
        "Share of the text that the single characters of the vocabulary "
        "cover, 0.98 to 1.",
        at_least=0.98,
        at_most=1,
    )
    do_lower_case: bool = setting(True, "Whether text is lower-cased first.")
    keep_accents: bool = setting(False, "Whether letters keep their accents.")
    input_sentence_size: int = setting(
        10_000_000,
        "Largest number of sentences to train on; they are chosen at random.",
        at_least=1,
    )
    random_seed: int = setting(
        12345, "Seed of the choice of sentences, if there are too many."
    )


def list_symbols(config: VocabularyTrainingConfig) -> str:
    """Writes `<prefix>.symbols.json`; returns a summary to print."""
    checks.check_given(config, "input_file", "output_prefix")
    path = f"{config.output_prefix}.{vocabulary_file.SYMBOLS_FILE}"
    _check_free([path])
    are_separated = config.model_type == "word"
    special = base.SENTENCEPIECE_NAMES
    roles = vocabulary_file.SpecialIds.__dataclass_fields__
    counts: collections.Counter[str] = collections.Counter()
    for document in Documents(config):
        for text in document.sentences():
            counts.update(text.split() if are_separated else text)
    frequent = sorted(counts.keys() - special, key=lambda x: (-counts[x], x))
    symbols = [*special, *frequent[: config.vocab_size - len(special)]]
    content = {
        "symbols": symbols,
        "special": dict(zip(roles, special, strict=True)),
        "are_separated": are_separated,
        "word_border": None if are_separated or " " not in symbols else " ",
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    files.write_text(path, f"{text}\n")
    return _summary({"symbols": f"{len(symbols):,}", "written": path})


def _summary(rows: Mapping[str, Any]) -> str:
    return "\n".join(f"{name:20}{rows[name]}" for name in rows if rows[name])


def train(config: VocabularyTrainingConfig) -> str:
    """Trains a vocabulary and writes `<prefix>.model` and `<prefix>.vocab`.

    The latter has pieces and scores, for people to read. Both files appear,
    whole, or neither. The same input gives the same bytes. Returns a summary
    to print.
    """
    checks.check_given(config, "input_file", "output_prefix")
    paths = [f"{config.output_prefix}{end}" for end in (".model", ".vocab")]
    _check_free(paths)
    normalize = functools.partial(
        normalization.normalize,
        do_lower_case=config.do_lower_case,
        keep_accents=config.keep_accents,
    )
    corpus = Documents(config)
    are_long = collections.Counter(map(_is_long, _sentences(corpus, normalize)))
    num_read, num_long = are_long.total(), are_long[True]
    if num_read == num_long:
        raise ValueError(
            f"The corpus has no usable sentence: {num_read} were read, "
            f"{num_long} of them longer than {MAX_SENTENCE_BYTES} bytes. Put "
            "one sentence on a line."
        )
    # Opened before the training, which may take hours, so that a folder that
    # cannot be written to is found at once.
    message = (
        f"Another process is training {paths[0]!r}. Wait until it ends, or "
        "choose another `output_prefix`."
    )
    with (
        folders.locked(folders.lock_path(paths[0]), message),
        files.atomic_write(paths[0]) as model_file,
        files.atomic_write(paths[1]) as vocab_file,
    ):
        _check_free(paths)  # Another process may have ended meanwhile.
        sentences = _sentences(corpus, normalize)
        model = _train_model(
            _sample(sentences, are_long[False], config), config
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        model_file.write(model)
        model_file.flush()
        for i in range(len(processor)):
            piece, score = processor.id_to_piece(i), processor.get_score(i)
            vocab_file.write(f"{piece}\t{score:.6g}\n".encode())
    num_bad, limit = corpus.num_bad_lines, MAX_SENTENCE_BYTES
    share = documents.merged_share(Documents(config), normalize)
    rows = {
        "tokens": f"{len(processor):,}",
        "sentences read": f"{num_read:,}",
        "bad lines skipped": num_bad and f"{num_bad:,}",
        "  left out": num_long and f"{num_long:,} longer than {limit:,} bytes",
        "merged by accents": share and f"{share:.1%} of words",
        "written": ", ".join(paths),
    }
    return _summary(rows)


def _check_free(paths: Sequence[str]) -> None:
    for path in map(files.check_local, paths):
        if os.path.lexists(path):
            raise ValueError(
                f"{path!r} exists. Choose another `output_prefix`."
            )


def _sentences(
    documents: Documents, normalize: Callable[[str], str]
) -> Iterator[str]:
    for document in documents:
        for text in document.sentences():
            if sentence := normalize(text):
                yield sentence


def _sample(
    sentences: Iterator[str], num_usable: int, config: VocabularyTrainingConfig
) -> Iterator[str]:
    """Yields usable sentences, a uniform random sample if there are many."""
    random_numbers = random.Random(config.random_seed)
    num_wanted, num_left = config.input_sentence_size, num_usable
    for sentence in sentences:
        if _is_long(sentence):
            continue
        if random_numbers.random() * num_left < num_wanted:
            num_wanted -= 1
            yield sentence
        num_left -= 1


def _is_long(sentence: str) -> bool:
    return len(sentence.encode()) > MAX_SENTENCE_BYTES


def _train_model(
    sentences: Iterator[str], config: VocabularyTrainingConfig
) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            **_TRAINER_OPTIONS,
        )
    except RuntimeError as error:
        raise ValueError(f"SentencePiece could not train: {error}") from error
    return model.getvalue()
