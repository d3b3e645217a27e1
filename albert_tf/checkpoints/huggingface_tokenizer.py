"""The tokenizer of a folder of transformers: read, written, compared.

Source: transformers 5, `tokenization_utils_base`, `AlbertTokenizer` and
`BertTokenizer`.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints import foreign_keys, vocabularies
from albert_tf.checkpoints.checkpoint import (
    DIFFERS,
    REFUSED,
    VOCABULARY,
    Checkpoint,
    Note,
)
from albert_tf.text import (
    base,
    sentencepiece_tokenizer,
    tokenizer_json,
    vocabulary_file,
)
from albert_tf.text.base import Tokenizer
from albert_tf.text.vocabulary_file import (
    AS_WRITTEN,
    NORMALIZED,
    SENTENCEPIECE,
    SYMBOLS_FILE,
    WHOLE_WORD,
    WORDPIECE,
    kind_of,
)

CONFIG_FILE = "tokenizer_config.json"
_VOCABULARIES = (*vocabularies.FILE_NAMES.values(), tokenizer_json.FILE_NAME)
# Classes that read `tokenizer.json` alone, whatever is beside it.
_OF_JSON = "PreTrainedTokenizerFast", "TokenizersBackend"
# Settings for a tokenizer.json, of which AlbertTokenizer would take a part.
_WRITTEN = {
    "keep_accents": False,
    "remove_space": True,
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "bos_token": "[CLS]",
    "cls_token": "[CLS]",
    "eos_token": "[SEP]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}

_NUM_SENTENCES = 300
_NUM_WORDS = 6  # of each kind, in a sentence
# Words that are normalized, or cut at marks, one way or another.
_WORDS = """
The U.S. naïve Zoë's (ABBA), half-time e.g. x25 ``so'' “no” "yes" it's — 15–1
$10 £3.5 €5 ½ ﬁne １２ 漢字。 한국어 हिन्दी Größe Ёлка ΣΑ 😀 1️⃣ a​b c­d
a_b@c.org #1 & ボール がっこう mạ İzmir
"""
# Such as a token `25,`: docs/differences.md.
_NUMBER_COMMA = re.compile(r"\S*\d,\S*")


def settings_of(folder: str, vocabulary_kind: str) -> files.JsonObject:
    """Returns the settings that `tokenizer_config.json` states, by name."""
    config = _object(folder, CONFIG_FILE)
    keeps = config.get("keep_accents") or None
    if vocabulary_kind == WORDPIECE:
        strips = config.get("strip_accents")
        keeps = None if strips is None else not strips
    chinese = config.get("tokenize_chinese_chars")
    return {
        "do_lower_case": config.get("do_lower_case"),
        "keep_accents": keeps,
        "tokenize_chinese_chars": None if chinese else chinese,
    }


def read(folder: str) -> tuple[files.JsonObject, files.JsonObject]:
    """Returns facts for the metadata, and fields of a `Checkpoint`, by name.

    A tokenizer that is not supported is a note of the kind `refused`.
    """
    paths = (os.path.join(folder, name) for name in _VOCABULARIES)
    path = next(filter(os.path.isfile, paths), "")
    facts = settings_of(folder, kind_of(path))
    if not path:
        return facts, {}
    if path.endswith(SYMBOLS_FILE):
        return {}, {"vocabulary": path}
    try:
        return _read(folder, path, facts)
    except ValueError as error:
        note = Note(REFUSED, f"{VOCABULARY} ({error})")
        return facts, {"notes": (note,)}


def _read(
    folder: str, path: str, facts: files.JsonObject
) -> tuple[files.JsonObject, files.JsonObject]:
    config, listed = _config(folder), None
    entries = _added_tokens(folder, config)
    content: Any = files.read_bytes(path)
    json_file = os.path.join(folder, tokenizer_json.FILE_NAME)
    values = _object(folder, tokenizer_json.FILE_NAME)
    foreign_keys.refused(json_file, values)
    if config.get("tokenizer_class") in _OF_JSON and values:
        listed, facts = tokenizer_json.read(json_file)
        if not values.get("post_processor"):
            raise ValueError(f"{json_file!r} adds no [CLS] and no [SEP]")
    if path.endswith(".json"):
        content, facts = tokenizer_json.read(path)
    elif path.endswith(".txt"):
        text = files.read_text(path).removeprefix("\ufeff")
        content = re.sub("\r\n?", "\n", text).removesuffix("\n").split("\n")
    if isinstance(content, list):
        tokens = _with_added(_numbered(content), entries)
        content = "".join(f"{token}\n" for token in tokens).encode()
        path = os.path.join(folder, vocabularies.FILE_NAMES[WORDPIECE])
        reserved, notes = {*base.WORDPIECE_NAMES}, []
    else:
        pieces = tokenizer_json.pieces(content)
        # The original has marks such as the full stop, too.
        marks = (piece for piece, is_mark in pieces.items() if is_mark)
        reserved = {*base.SENTENCEPIECE_NAMES, *marks}
        names = [*tokenizer_json.pieces(listed)] if listed else []
        if names != [*pieces][: len(names)]:
            raise ValueError(f"{json_file!r} has other pieces than {path!r}")
        has_new = bool(listed and entries.keys() - reserved)
        joins = has_new and tokenizer_json.joins_words(values)
        notes = _other_ids(content, reserved & entries.keys(), joins=joins)
        added = _with_added([*pieces], entries)[len(pieces) :]
        content = sentencepiece_tokenizer.extended(content, added)
    facts["added_tokens"] = {
        name: _kind(name, entry)
        for name, entry in entries.items()
        if name not in reserved
    } or None
    fields = {"vocabulary": path, "content": content, "notes": tuple(notes)}
    return facts, fields


def _config(folder: str) -> files.JsonObject:
    """Returns the settings of several files, which are all supported."""
    names = "config.json", "special_tokens_map.json", CONFIG_FILE
    config = {n: v for name in names for n, v in _object(folder, name).items()}
    path, stated = (
        os.path.join(folder, CONFIG_FILE),
        _object(folder, CONFIG_FILE),
    )
    neutral = foreign_keys.tables()[CONFIG_FILE]["refused unless"]
    stated |= {name: config[name] for name in config.keys() & neutral.keys()}
    if other := foreign_keys.refused(path, stated):
        raise ValueError(f"{checks.listed(other)} is not supported")
    return config


def _numbered(lines: Sequence[str]) -> list[str]:
    """Returns tokens whose ids are the numbers of their lines.

    Of equal lines, the last line counts; the others give placeholders, which
    no text is encoded to.
    """
    ids = {line: i for i, line in enumerate(lines)}
    return [
        line if ids[line] == i and line.split() == [line] else _placeholder(i)
        for i, line in enumerate(lines)
    ]


def _placeholder(token_id: int) -> str:
    return f"[id{token_id}]"


def _with_added(
    tokens: list[str], entries: Mapping[str, files.JsonObject]
) -> list[str]:
    """Returns tokens by id, with the added tokens that are missing."""
    ids = {token: i for i, token in enumerate(tokens)}
    for name, entry in entries.items():
        if name not in ids:
            missing = range(len(tokens), entry.get("id", 0))
            vocabulary_file.check_gap(len(missing), name)
            tokens += [*map(_placeholder, missing), name]
            ids[name] = len(tokens) - 1
        if entry.get("id", ids[name]) != ids[name]:
            raise ValueError(f"the id of the added token {name!r} is another's")
    return tokens


def _other_ids(
    model: bytes, reserved: Collection[str], *, joins: bool
) -> list[Note]:
    """Returns a note if transformers may give other ids than the model."""
    reasons = tokenizer_json.other_settings(model)
    if cut := {*reserved}.difference(base.SENTENCEPIECE_NAMES):
        reasons.append(f"{' '.join(sorted(cut))} cut out of the text first")
    if joins:
        reasons.append("words beside added tokens begin without ▁, or with two")
    text = ", ".join(reasons)
    text = f"token ids (those of the original; others in transformers: {text})"
    return [Note(DIFFERS, text)] if reasons else []


def _added_tokens(
    folder: str, config: files.JsonObject
) -> dict[str, files.JsonObject]:
    """Returns the settings of each added token, in the order of their ids."""
    names = ("additional_special_tokens", "extra_special_tokens")
    lists: list[Any] = [config.get(name) or [] for name in names]
    # A newer version gives names to the tokens.
    lists = [t.values() if isinstance(t, dict) else t for t in lists]
    special = [*map(foreign_keys.text, itertools.chain(*lists))]
    entries = [
        {**entry, "id": int(i)}
        for i, entry in (config.get("added_tokens_decoder") or {}).items()
    ]
    if not entries:
        added = _object(folder, "added_tokens.json").items()
        entries = [
            {"content": n, "id": i, "special": n in special} for n, i in added
        ]
        tokenizer = _object(folder, tokenizer_json.FILE_NAME)
        entries += tokenizer.get("added_tokens") or []
    entries.sort(key=lambda entry: entry["id"])
    stated = {entry["content"]: entry for entry in entries}
    return stated | {n: {"special": True} for n in special if n not in stated}


def _kind(name: str, entry: files.JsonObject) -> bool | str:
    """Returns how an added token is found; see `added_tokens`."""
    is_whole = bool(entry.get("single_word"))
    is_normalized = entry.get("normalized", not entry.get("special"))
    if entry.get("rstrip") or (is_whole and not is_normalized):
        cause = "single_word without normalized" if is_whole else "rstrip"
        raise ValueError(f"{cause} of {name!r} is not supported")
    kind = WHOLE_WORD if is_whole else NORMALIZED
    return kind if is_normalized else AS_WRITTEN


def _object(folder: str, name: str) -> files.JsonObject:
    return files.read_json_object(os.path.join(folder, name), missing_ok=True)


def write(folder: str, checkpoint: Checkpoint) -> None:
    """Writes the tokenizer of a checkpoint that has one."""
    tokenizer = checkpoint.tokenizer
    settings = tokenizer.settings
    ids = {name: tokenizer.token_to_id(name) for name in settings.added_tokens}
    values: files.JsonObject = {
        "do_lower_case": settings.do_lower_case,
        "model_max_length": checkpoint.max_seq_length,
    }
    if checkpoint.vocabulary_kind == WORDPIECE:
        name = vocabularies.FILE_NAMES[WORDPIECE]
        if tokenizer.num_own < tokenizer.vocab_size:
            lines = tokenizer.vocabulary.decode().split("\n")
            content = "\n".join(lines[: tokenizer.num_own]).encode()
            checkpoint = dataclasses.replace(checkpoint, content=content)
        values["tokenizer_class"] = "BertTokenizer"
        if settings.keep_accents is not None:
            values["strip_accents"] = not settings.keep_accents
        if not settings.tokenize_chinese_chars:
            values["tokenize_chinese_chars"] = False
    else:
        name = vocabularies.FILE_NAMES[SENTENCEPIECE]
        values |= _WRITTEN
        if settings.keep_accents:
            values["keep_accents"] = True
        path = os.path.join(folder, tokenizer_json.FILE_NAME)
        made = tokenizer_json.make(tokenizer.vocabulary, settings)
        files.write_json(path, made)
    if ids:
        values["added_tokens_decoder"] = {
            str(ids[name]): tokenizer_json.added_token(name, kind)
            for name, kind in settings.added_tokens.items()
        }
    vocabularies.write(checkpoint, folder, name)
    files.write_json(os.path.join(folder, CONFIG_FILE), values)


def write_for_javascript(folder: str, checkpoint: Checkpoint) -> None:
    """Writes the tokenizer of a checkpoint as transformers.js reads it.

    It needs a `tokenizer.json`, and a class that makes `token_type_ids`.
    """
    write(folder, checkpoint)
    path = os.path.join(folder, CONFIG_FILE)
    values = {**_WRITTEN, **_object(folder, CONFIG_FILE)}
    if checkpoint.vocabulary_kind == WORDPIECE:
        values |= {"pad_token": "[PAD]", "unk_token": "[UNK]"}
        json_file = os.path.join(folder, tokenizer_json.FILE_NAME)
        _tokenizer_of(folder).save(json_file)
    else:
        values["tokenizer_class"] = "AlbertTokenizer"
        # It would remove the space after a [MASK].
        values["remove_space"] = False
    files.write_json(path, values)


def compare(checkpoint: Checkpoint) -> list[Note]:
    """Checks that transformers gives the same ids as a folder's tokenizer here.

    Returns a note if the folder says how to make ids.
    """
    # Ids that are known to differ are the ids of the original.
    is_known = any(note.kind == DIFFERS for note in checkpoint.notes)
    tokenizer = None if is_known else _tokenizer_of(checkpoint.path)
    if tokenizer is None or checkpoint.vocabulary is None:
        return []
    texts = sentences(checkpoint.tokenizer)
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if checkpoint.tokenizer.encode(text) != ids:
            raise ValueError(
                "transformers gives other ids than ours in "
                f"{checkpoint.path!r}, such as to {text!r}."
            )
    return [Note("compared", f"the ids of {len(texts)} sentences are equal")]


def _tokenizer_of(folder: str) -> Any:
    """Returns the tokenizer of transformers, unless it is SentencePiece."""
    import tokenizers

    path = os.path.join(folder, tokenizer_json.FILE_NAME)
    if os.path.isfile(path):
        return tokenizers.Tokenizer.from_file(path)
    path = os.path.join(folder, vocabularies.FILE_NAMES[WORDPIECE])
    if not os.path.isfile(path):
        return None
    config = _object(folder, CONFIG_FILE)
    tokenizer = tokenizers.BertWordPieceTokenizer(
        path,
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    for token in config.get("added_tokens_decoder", {}).values():
        tokenizer.add_tokens([tokenizers.AddedToken(**token)])
    return tokenizer


def sentences(tokenizer: Tokenizer) -> list[str]:
    """Returns sentences of `_WORDS` and of words of the vocabulary."""
    rng = np.random.default_rng(0)
    starts = np.flatnonzero(tokenizer.word_starts)
    starts = np.setdiff1d(starts, tokenizer.forbidden_ids)
    special_words = _WORDS.split()
    for name in tokenizer.settings.added_tokens:
        special_words += [name, name.upper(), name.capitalize()]
        special_words += [
            f"({name}),",
            f"{name}s",
            f"x{name}",
            f"{name}-{name}",
        ]
    texts = []
    for _ in range(_NUM_SENTENCES):
        tokens = map(tokenizer.id_to_token, rng.choice(starts, _NUM_WORDS))
        words = rng.permutation(
            [*tokens, *rng.choice(special_words, _NUM_WORDS)]
        )
        text = " ".join(words).replace("▁", "")
        texts.append(_NUMBER_COMMA.sub("", text))
    return texts
