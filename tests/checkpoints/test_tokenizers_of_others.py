"""Folders of other languages: the ids of transformers, or refused by name."""

import io
import json
import os
import random
import shutil

import pytest
import sentencepiece

from albert_tf.checkpoints import (
    discovery,
    huggingface_tokenizer,
)
from tests import tiny
from tests.checkpoints.weights import run_transformers

_WORDS = {
    "ja": """がっこう へ いく パンを食べる ボール プログラミング 東京都 は
        ガラス ヴァイオリン カ゛ ①番 々 ー。 「はい」""",
    "ko": """안녕하세요 반갑습니다 오늘 날씨가 좋네요. 서울에서 한국어 漢字
        값이 없었다 2024년""",
    "hi": """नमस्ते दुनिया हिन्दी में क़लम ज़रूर पढ़ाई किताबें अच्छी
        हैं। १२३ कि की""",
    "zh": """今天 天气 很好。 我爱北京天安门 繁體字 Hello 世界 ２０２４年
        ，ok？ 〇 ㈱ café""",
    "vi": "má mà mã mả mạ ma Việt Nam Đà Nẵng tiếng nước uống ĐƯỜNG Phố ngõ",
    "de": "Größe Straße ÄRGER über Café naïve Zoë's Der die Haus-Boot İzmir",
    "protein": "M K T A Y I A K Q R Q I S F V K S H F S R Q X B",
}
_ENGLISH = (
    " the a [E1] [/E1] [e1] <user> Covid covid19 x[E1]y 3.5 (so) it's U.S."
)


def texts_of(language, count=200):
    rng = random.Random(language)
    words = (_WORDS[language] + _ENGLISH).split()
    if language == "protein":
        words = _WORDS[language].split()
    return [
        " ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(count)
    ]


def train(language, **options):
    """Returns a SentencePiece model of a language, which no rule changes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts_of(language, 2000)),
        model_writer=model,
        vocab_size=options.pop("vocab_size", 120),
        hard_vocab_limit=False,
        character_coverage=1.0,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def lines_of(language):
    """Returns a WordPiece vocabulary: words, and the characters of them."""
    words = [w for t in (_WORDS[language], _ENGLISH) for w in t.split()]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]"]
    for word in words:
        for one in (word, word.lower()):
            letters = [c for c in one for c in (c, f"##{c}")]
            tokens += [one, f"##{one}", *letters]
    # Some are missing.
    return [t for i, t in enumerate(dict.fromkeys(tokens)) if i < 6 or i % 7]


def spm(language, trained=None, **settings):
    files = {"spiece.model": train(language, **trained or {})}
    return files, {"tokenizer_class": "AlbertTokenizer", **settings}


def wordpiece(language, *changes, end="\n", **settings):
    lines = lines_of(language)
    for change in changes:
        lines = change(lines)
    files = {"vocab.txt": "".join(line + end for line in lines).encode()}
    return files, {"tokenizer_class": "BertTokenizer", **settings}


def repeat(lines):
    return [*lines[:9], "", *lines[9:40], lines[12], "", *lines[40:]]


def mark(lines):
    return ["\ufeff" + lines[0], *lines[1:]]


def added(*names, **options):
    return [{"content": name, "special": False, **options} for name in names]


_MARKS = added("[E1]", "[/E1]", special=True)
_NEW = added("[E1]", "[/E1]", "covid", "<user>")
_UNUSED = added("[unused1]", "ok", special=True)
_WORD, _ACCENT = added("ok", single_word=True), added("caf\u00e9")
_RIGHT = added("ok", rstrip=True)
_LOWER, _CASED = {"do_lower_case": True}, {"do_lower_case": False}
_KEEP, _ACCENTS = {"keep_accents": True}, {"strip_accents": False}
_CHINESE = {"tokenize_chinese_chars": False}
_BYTES = {"vocab_size": 290, "byte_fallback": True}
_SUFFIX = "treat_whitespace_as_suffix"
_JAPANESE = {"tokenizer_class": "BertJapaneseTokenizer"}


def trained(**options):
    return {"trained": options}


# Of each folder: its language, how it is made, the tokens that transformers
# adds before it saves the folder anew (None: it does not), and why it is
# refused.
_CASES = [
    ("ja", wordpiece, [], _CASED, None, ""),
    ("ja", wordpiece, [], _CASED | _CHINESE, [], ""),
    ("ja", wordpiece, [], _JAPANESE, None, "class='BertJapaneseTokenizer' is"),
    ("ja", spm, [], _KEEP | _CASED, None, ""),
    ("ja", spm, [], _LOWER, _MARKS, ""),
    ("ko", wordpiece, [], _LOWER | _ACCENTS, None, ""),
    ("ko", wordpiece, [], _LOWER | _ACCENTS, _NEW, ""),
    ("ko", wordpiece, [], _CASED | {"strip_accents": True}, [], ""),
    ("ko", spm, [], _LOWER | _KEEP, _MARKS, ""),
    ("hi", spm, [], _LOWER | _KEEP, None, ""),
    ("hi", spm, [], _CASED | _KEEP, [], ""),
    ("hi", wordpiece, [], _CASED, None, ""),
    ("zh", wordpiece, [], {}, [], ""),
    ("zh", wordpiece, [repeat], _LOWER, None, ""),
    ("zh", wordpiece, [repeat, mark], {"end": "\r\n"}, None, ""),
    ("zh", wordpiece, [repeat], _LOWER, _MARKS, ""),
    ("zh", wordpiece, [], _LOWER, _NEW, ""),
    ("zh", wordpiece, [], _LOWER, _UNUSED, ""),
    ("zh", wordpiece, [], _LOWER, _WORD, ""),
    ("zh", wordpiece, [], _LOWER, _ACCENT, ""),
    ("vi", spm, [], _LOWER, _WORD, ""),
    ("vi", spm, [], _LOWER, _ACCENT, ""),
    ("vi", spm, [], _LOWER, _RIGHT, "rstrip of 'ok' is not supported"),
    ("vi", spm, [], _LOWER | _KEEP, None, ""),
    ("vi", spm, [], _LOWER, _NEW, ""),
    ("vi", wordpiece, [], _LOWER | _ACCENTS, None, ""),
    ("de", spm, [], _CASED | _KEEP, None, ""),
    ("de", spm, [], _CASED, _NEW, ""),
    ("de", wordpiece, [], _CASED, _MARKS, ""),
    ("de", spm, [], trained(model_type="bpe"), None, "model_type=BPE"),
    ("de", spm, [], trained(**{_SUFFIX: True}), None, _SUFFIX),
    ("protein", spm, [], _CASED | trained(vocab_size=30), None, ""),
    ("protein", spm, [], trained(**_BYTES), None, "byte_fallback=true"),
]
_PEER = """
import json, shutil, sys
from transformers import AddedToken, AutoTokenizer

answers = []
for case in json.load(open(sys.argv[1], encoding="utf-8")):
    tokenizer = AutoTokenizer.from_pretrained(case["folder"])
    if case["added"] is not None:
        tokenizer.add_tokens([AddedToken(**one) for one in case["added"]])
        for name in ("vocab.txt", "spiece.model"):
            shutil.rmtree(case["folder"] + "/" + name, ignore_errors=True)
        tokenizer.save_pretrained(case["folder"])
    answers.append([tokenizer(text)["input_ids"] for text in case["texts"]])
print(json.dumps(answers))
"""


def _ask(tmp_path, cases):
    """Returns the ids that transformers gives to the texts of each case."""
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    return json.loads(run_transformers(_PEER, tmp_path / "cases.json"))


def _make(folder, language, make, changes, settings):
    folder.mkdir()
    files, stated = make(language, *changes, **settings)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    config = tiny.config(vocab_size=2000).to_dict() | {"model_type": "albert"}
    del config["hidden_act"], config["parameter_sharing"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").touch()


def _differences(tokenizer, texts, expected):
    special = tokenizer.special_ids
    found = [[special.cls, *tokenizer.encode(t), special.sep] for t in texts]
    rows = zip(texts, found, expected, strict=True)
    return [row for row in rows if row[1] != row[2]]


@pytest.mark.slow
def test_ids_are_those_of_transformers_or_refused(tmp_path, caplog):
    cases = []
    for i, (language, *how, new, _) in enumerate(_CASES):
        folder = tmp_path / str(i)
        _make(folder, language, *how)
        texts = texts_of(language)
        cases.append({"folder": str(folder), "added": new, "texts": texts})
    written = []

    for case, row, expected in zip(
        cases, _CASES, _ask(tmp_path, cases), strict=True
    ):
        what, kind = [row[0], row[1].__name__, *row[2:-1]], row[-1]
        caplog.clear()
        source = discovery.open(case["folder"])
        try:
            source.tokenizer  # noqa: B018
            tokenizer = source.tokenizer
        except ValueError as error:
            assert kind and kind in str(error), what
            continue
        folder = f"{case['folder']}-written"
        os.mkdir(folder)
        if kind:
            assert kind in caplog.text
            with pytest.raises(ValueError, match=kind):
                huggingface_tokenizer.write(folder, source)
            continue
        assert not caplog.text, what
        assert not _differences(tokenizer, case["texts"], expected), what
        huggingface_tokenizer.write(folder, source)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(f"{case['folder']}/{name}", folder)
        written.append(
            (what, tokenizer, case | {"folder": folder, "added": None})
        )

    answers = _ask(tmp_path, [case for _, _, case in written])
    for (what, tokenizer, case), expected in zip(written, answers, strict=True):
        assert not _differences(tokenizer, case["texts"], expected), what
        again = discovery.load_tokenizer(case["folder"])
        assert again.fingerprint == tokenizer.fingerprint, what
