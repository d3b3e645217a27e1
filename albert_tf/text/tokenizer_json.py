"""Reads and makes the `tokenizer.json` of an ALBERT.

Folders of Hugging Face's transformers may have this file only. It lists the
pieces and scores of the SentencePiece model that it was made of, and the steps
around it. From a file whose steps are all ALBERT's, the model follows.

Source: transformers, `convert_slow_tokenizer.AlbertConverter`, reversed.
"""

import base64
import json
import os
import sys
import unicodedata
from typing import Any

from albert_tf import files
from albert_tf.text import base, vocabulary_file
from albert_tf.text.sentencepiece_tokenizer import is_number_comma, model_class
from albert_tf.text.vocabulary_file import (
    AS_WRITTEN,
    WHOLE_WORD,
    TokenizerSettings,
)

FILE_NAME = "tokenizer.json"
_NORMALIZERS = {"NFKD", "StripAccents", "Lowercase", "Precompiled"}
_SPLITS = ["Metaspace"], ["Metaspace", "WhitespaceSplit"]
_STEPS_OF_BERT = "BertNormalizer", "BertPreTokenizer", "##"
# Patterns that a normalizer may replace, and their replacements.
_REPLACEMENTS = (
    ({"String": "``"}, '"'),
    ({"String": "''"}, '"'),
    ({"Regex": " {2,}"}, " "),
)
# transformers lowers the scores of pieces such as `▁25,` by this much, so that
# the comma stands alone.
_LOWERED_BY = 100.0
# White space, with characters that are a space to Python only.
_SPACES = r"[\s\x0b\x1c-\x1f\x85]"


def read_model(path: files.Path) -> bytes:
    """Returns the SentencePiece model that a `tokenizer.json` was made of."""
    model, _ = read(path, in_folder=False)
    return bytes(model)


def read(
    path: files.Path, *, in_folder: bool = True
) -> tuple[Any, files.JsonObject]:
    """Reads a `tokenizer.json`: its vocabulary, and settings by name.

    The vocabulary is the bytes of a SentencePiece model, or a list of the
    tokens of a WordPiece vocabulary, `""` for an id without a token. If the
    file is `in_folder`, the reader of the folder checks accents and added
    tokens.
    """
    content, name = files.read_json_object(path), os.fspath(path)
    try:
        is_wordpiece = in_folder and content["model"]["type"] == "WordPiece"
        unmet = _unmet_conditions(content, in_folder)
        if not unmet:
            return (_wordpiece if is_wordpiece else _sentencepiece)(content)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
        raise ValueError(
            f"{name!r} is damaged, or not a tokenizer ({type(e).__name__}: "
            f"{e}). Copy it again."
        ) from e
    raise ValueError(
        f"{name!r} is not the tokenizer of an ALBERT: {', '.join(unmet)}. Pass "
        "--spm_model_file (the checkpoint's spiece.model) or --vocab_file."
    )


def _sentencepiece(values: files.JsonObject) -> tuple[bytes, files.JsonObject]:
    kinds = {step["type"] for step in _steps(values, "normalizer")}
    model = _model(values).SerializeToString(deterministic=True)
    return bytes(model), {
        "do_lower_case": "Lowercase" in kinds,
        "keep_accents": None if "NFKD" in kinds else True,
    }


def _wordpiece(values: files.JsonObject) -> tuple[list[str], files.JsonObject]:
    ids: dict[str, int] = values["model"]["vocab"]
    vocabulary_file.check_gap(max(ids.values()) - len(ids), "its vocabulary")
    tokens = [""] * (max(ids.values()) + 1)
    for token, token_id in ids.items():
        tokens[token_id] = token
    normalizer = values["normalizer"]
    strips, chinese = (
        normalizer[n] for n in ("strip_accents", "handle_chinese_chars")
    )
    return tokens, {
        "do_lower_case": normalizer["lowercase"],
        "keep_accents": None if strips is None else not strips,
        "tokenize_chinese_chars": None if chinese else False,
    }


def joins_words(values: files.JsonObject) -> bool:
    """Returns whether a tokenizer does not split text at blanks first.

    Text around an added token is then encoded otherwise than by itself.
    """
    steps = _steps(values, "pre_tokenizer")
    return bool(steps[0]["type"] != "WhitespaceSplit")


def _steps(values: files.JsonObject, name: str) -> list[files.JsonObject]:
    """Returns the steps of a normalizer or pre-tokenizer, one after another."""
    step = values.get(name)
    if step is None:
        return []
    if step["type"] == "Sequence":
        return list(step.get("normalizers") or step["pretokenizers"])
    return [step]


def _unmet_conditions(values: files.JsonObject, in_folder: bool) -> list[str]:
    model = values["model"]
    if in_folder and model["type"] == "WordPiece":
        before, split = values["normalizer"], values["pre_tokenizer"]["type"]
        steps = before["type"], split, model["continuing_subword_prefix"]
        is_bert = steps == _STEPS_OF_BERT and before["clean_text"]
        return [] if is_bert else [f"its steps are not BERT's, but {steps}"]
    normalizers = _steps(values, "normalizer")
    kinds = [step["type"] for step in normalizers]
    splits = _steps(values, "pre_tokenizer")
    kinds_of_splits = sorted(step["type"] for step in splits)
    if model["type"] != "Unigram":
        return [f"its model is {model['type']} and not Unigram"]
    is_ours = _are_ours(normalizers)
    other = [
        step["type"]
        for step in normalizers
        if not is_ours
        and step["type"] not in _NORMALIZERS
        and (step.get("pattern"), step.get("content")) not in _REPLACEMENTS
    ]
    pieces = {(index, row[0]) for index, row in enumerate(model["vocab"])}
    around = json.dumps(values.get("post_processor") or "[CLS] [SEP]")
    added = {(t["id"], t["content"]) for t in values.get("added_tokens") or ()}
    is_met = {
        "byte_fallback is on": not model.get("byte_fallback"),
        f"it normalizes by {', '.join(other)}": not other,
        "it keeps accents": is_ours
        or {"NFKD", "StripAccents"} <= {*kinds}
        or (in_folder and not {"NFKD", "StripAccents"} & {*kinds}),
        "it lacks the rules of its model (Precompiled)": (
            kinds.count("Precompiled") == 1
        ),
        "it does not split text into words marked by ▁ (Metaspace)": (
            kinds_of_splits in _SPLITS and all(map(_marks_words, splits))
        ),
        "it has tokens outside its vocabulary": in_folder or added <= pieces,
        "it adds no [CLS] or no [SEP]": "[CLS]" in around and "[SEP]" in around,
        "it cuts text on the left": (values.get("truncation") or {}).get(
            "direction"
        )
        != "Left",
    }
    return [problem for problem, is_true in is_met.items() if not is_true]


def _are_ours(steps: list[files.JsonObject]) -> bool:
    """Returns whether `make` wrote them, with any version of Unicode."""
    rules = "".join(s.get("precompiled_charsmap", "") for s in steps)
    patterns = [step.get("pattern", {}).get("Regex", "") for step in steps]
    keeps = {"type": "NFKD"} not in steps
    accents = "" if keeps else "".join(patterns[2:3])
    written = _normalizers(
        rules, accents, do_lower_case={"type": "Lowercase"} in steps
    )
    return steps == written and not any(map(str.isalnum, accents))


def _marks_words(step: files.JsonObject) -> bool:
    return step["type"] != "Metaspace" or (
        step["replacement"] == base.WORD_MARK
        and step.get("add_prefix_space") is not False
        and step.get("prepend_scheme") != "never"
        and step.get("split") is not False
    )


def _model(values: files.JsonObject) -> Any:
    rows, unk_id = values["model"]["vocab"], values["model"]["unk_id"]
    added = values.get("added_tokens") or ()
    special = {token["content"] for token in added if token.get("special")}
    special &= {piece for piece, score in rows if not score}
    control = {*base.SENTENCEPIECE_NAMES, *special, rows[unk_id][0]}
    lowest = min(
        score
        for piece, score in rows
        if score and piece not in control and not is_number_comma(piece)
    )
    model, types = model_class()(), model_class().SentencePiece
    for piece, score in rows:
        # Only a user-defined piece has score 0.
        kind = types.NORMAL if score else types.USER_DEFINED
        kind = types.CONTROL if piece in control else kind
        if is_number_comma(piece) and score < lowest - _LOWERED_BY / 2:
            score += _LOWERED_BY
        model.pieces.add(piece=piece, score=score, type=kind)
    model.pieces[unk_id].type = types.UNKNOWN
    for step in _steps(values, "normalizer"):
        if step["type"] == "Precompiled":
            charsmap = base64.b64decode(step["precompiled_charsmap"])
            model.normalizer_spec.precompiled_charsmap = charsmap
    model.normalizer_spec.name = "nmt_nfkc"
    model.trainer_spec.model_type = model.trainer_spec.UNIGRAM
    model.trainer_spec.vocab_size = len(rows)
    model.trainer_spec.unk_id = unk_id
    # Stored here, so that the ids of other tokens are not taken for them.
    model.trainer_spec.bos_id = model.trainer_spec.eos_id = -1
    return model


def pieces(model: bytes) -> dict[str, bool]:
    """Returns whether each piece is a user-defined mark, by piece."""
    kind = model_class().SentencePiece.USER_DEFINED
    return {
        row.piece: row.type == kind and not any(map(str.isalnum, row.piece))
        for row in model_class().FromString(model).pieces
    }


def make(model_bytes: bytes, settings: TokenizerSettings) -> files.JsonObject:
    """Returns the content of a `tokenizer.json` that gives a model's ids.

    docs/differences.md lists the texts that have other ids there. Settings of
    the model that it cannot express are an error.
    """
    model = model_class().FromString(model_bytes)
    if other := other_settings(model_bytes):
        raise ValueError(
            f"transformers cannot express a SentencePiece model with "
            f"{', '.join(other)}. Pass --output_format=keras or tf1."
        )
    ids = {row.piece: index for index, row in enumerate(model.pieces)}
    # Added tokens at the end are no pieces in transformers.
    rows = [*model.pieces]
    names = settings.added_tokens
    while rows[-1].piece in names and rows[-1].type == rows[-1].UNUSED:
        rows.pop()
    rules = base64.b64encode(model.normalizer_spec.precompiled_charsmap)
    accents = ""
    if not settings.keep_accents:
        every_character = map(chr, range(sys.maxunicode + 1))
        accents = f"[{''.join(filter(unicodedata.combining, every_character))}]"
    added = {**dict.fromkeys(base.SENTENCEPIECE_NAMES, AS_WRITTEN), **names}
    steps = _normalizers(
        rules.decode(), accents, do_lower_case=settings.do_lower_case
    )
    # "first": text after a special token may continue its word.
    marks: files.JsonObject = {
        "type": "Metaspace",
        "replacement": base.WORD_MARK,
        "prepend_scheme": "first",
    }
    split = marks
    if settings.added_tokens:
        # Text between them is encoded on its own.
        marks["prepend_scheme"] = "always"
        both = [{"type": "WhitespaceSplit"}, marks]
        split = {"type": "Sequence", "pretokenizers": both}
    return {
        "version": "1.0",
        # The user-defined pieces, such as the full stop, are not among them:
        # added tokens are cut out of the text before it is normalized.
        "added_tokens": [
            {"id": ids[name], **added_token(name, added[name])}
            for name in sorted(added, key=ids.__getitem__)
        ],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": split,
        "decoder": marks,
        "post_processor": {
            "type": "BertProcessing",
            "cls": ["[CLS]", ids["[CLS]"]],
            "sep": ["[SEP]", ids["[SEP]"]],
        },
        "model": {
            "type": "Unigram",
            "unk_id": ids["<unk>"],
            "vocab": [
                [p.piece, p.score - _LOWERED_BY * is_number_comma(p.piece)]
                for p in rows
            ],
        },
    }


def added_token(name: str, kind: bool | str) -> files.JsonObject:
    """Returns the settings of an added token, as transformers writes them."""
    return {
        "content": name,
        "special": kind is AS_WRITTEN,
        "normalized": kind is not AS_WRITTEN,
        "single_word": kind == WHOLE_WORD,
        "lstrip": name == "[MASK]",
        "rstrip": False,
    }


def other_settings(model: bytes) -> list[str]:
    """Returns the settings of a model that its pieces do not show."""
    message = model_class().FromString(model)
    trainer, normalizer = message.trainer_spec, message.normalizer_spec
    kind = trainer.ModelType.Name(trainer.model_type)
    is_expected = {
        f"model_type={kind}": trainer.model_type == trainer.UNIGRAM,
        "byte_fallback=true": not trainer.byte_fallback,
        "add_dummy_prefix=false": normalizer.add_dummy_prefix,
        "escape_whitespaces=false": normalizer.escape_whitespaces,
    }
    return [name for name, is_true in is_expected.items() if not is_true]


def _normalizers(
    rules: str, accents: str, *, do_lower_case: bool
) -> list[files.JsonObject]:
    precompiled = {"type": "Precompiled", "precompiled_charsmap": rules}
    removal: list[files.JsonObject] = [
        {"type": "NFKD"},
        # StripAccents would remove vowel signs of Indian scripts, too.
        {"type": "Replace", "pattern": {"Regex": accents}, "content": ""},
    ]
    return [
        {"type": "Replace", "pattern": {"Regex": _SPACES}, "content": " "},
        *(removal if accents else []),
        *([{"type": "Lowercase"}] if do_lower_case else []),
        # SentencePiece's rules compose Korean; Precompiled fails to.
        {"type": "NFC"},
        *([precompiled] if rules else []),
        {"type": "Replace", "pattern": {"Regex": " +(?= |$)"}, "content": ""},
    ]
