"""A `tokenizer.json` gives what the SentencePiece model gives it is made of."""

import json

import pytest
import tokenizers
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import (
    tokenizer,
    tokenizer_json,
    vocabulary_file,
)
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from tests.text.tokenizer_files import is_number_comma, write_tokenizer_json

_TEXTS = [
    "",
    " The Snow fell, ALL night.\n",
    "In 1,234 or 25, 25,000 and 1984, Zoë (née) paid £3.50 – €4-5!",
    "½ ﬁ １２３ 漢字 \u200b\x01 A\u0301 ﷺ [CLS] [MASK] <pad> <unk> </s>",
    "“quoted” it's 3,4,5, x25,y 25,, ▁the ▁ .",
]


@pytest.mark.parametrize("is_old", [False, True])
def test_pieces_scores_and_rules_are_those_of_the_model(
    is_old, tiny_spm_model, tmp_path
):
    def facts(model):
        pieces = [(p.piece, p.score, p.type) for p in model.pieces]
        return pieces, model.normalizer_spec.precompiled_charsmap

    path = tmp_path / "tokenizer.json"
    model = write_tokenizer_json(path, tiny_spm_model, is_old=is_old)

    content = tokenizer_json.read_model(path)

    read = sentencepiece_model_pb2.ModelProto.FromString(content)
    assert facts(read) == facts(model)
    assert tokenizer_json.read_model(path) == content


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_texts_have_the_ids_of_the_model(
    do_lower_case, tiny_spm_model, tiny_corpus, tmp_path
):
    path = tmp_path / "tokenizer.json"
    write_tokenizer_json(path, tiny_spm_model, do_lower_case=do_lower_case)
    texts = [*_TEXTS, *tiny_corpus.read_text(encoding="utf-8").splitlines()]
    ours, theirs = (
        tokenizer.load_tokenizer(
            spm_model_file=file, do_lower_case=do_lower_case
        )
        for file in (path, tiny_spm_model)
    )

    for text in texts:
        found = ours.encode_with_offsets(text)
        assert found == theirs.encode_with_offsets(text)
    _, settings = tokenizer_json.read(path)
    assert settings["do_lower_case"] == do_lower_case


def test_texts_have_the_ids_of_the_released_model(shared_data, tmp_path):
    model_file = shared_data / "data/spm/30k-clean.model"
    path = tmp_path / "tokenizer.json"
    model = write_tokenizer_json(path, model_file)
    recorded = shared_data / "golden/tokenization/sentencepiece.json"
    texts = [case["text"] for case in json.loads(recorded.read_text())]

    batch, expected = (
        SentencePieceTokenizer(file).encode_batch([*_TEXTS, *texts])
        for file in (path, model_file)
    )

    assert sum(is_number_comma(p.piece) for p in model.pieces) > 100
    for array, expected_array in zip(batch, expected, strict=True):
        assert array.tolist() == expected_array.tolist()


# What `make` returns.


@pytest.fixture
def make(tmp_path):
    """Writes what `make` returns; gives the path."""

    def write(model_file, *, do_lower_case=True):
        path = tmp_path / "made.json"
        values = tokenizer_json.make(
            vocabulary_file.read(model_file),
            vocabulary_file.TokenizerSettings(do_lower_case=do_lower_case),
        )
        path.write_text(json.dumps(values))
        return path

    return write


def _their_ids(path, text, *pair):
    made = tokenizers.Tokenizer.from_file(str(path))
    return made.encode(text, *pair, add_special_tokens=bool(pair))


_MADE_TEXTS = [
    *("", "  ", " The Snow fell, ALL night.\n", "A (b) c - d."),
    *("\ufefffirst\x1cand\x0blast\x85", "a\u200bb c\u00add \ud55c\uad6d"),
    # A keycap and vowel signs have no combining class, accents do.
    "1\ufe0f\u20e3 \u0939\u093f\u0902 e\u0301 \u00e9 \u0130 ``so''",
]


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_a_made_file_gives_our_ids_and_is_read_back(
    do_lower_case, tiny_spm_model, tiny_corpus, make
):
    path = make(tiny_spm_model, do_lower_case=do_lower_case)
    ours, again = (
        SentencePieceTokenizer(file, do_lower_case=do_lower_case)
        for file in (tiny_spm_model, path)
    )

    lines = tiny_corpus.read_text(encoding="utf-8").splitlines()
    # The tiny model has digits with a comma that start no word.
    for text in [*_MADE_TEXTS, *(one for one in lines if "," not in one)]:
        ids = ours.encode(text)
        assert _their_ids(path, text).ids == ids, text
        assert again.encode(text) == ids
    _, settings = tokenizer_json.read(path)
    assert settings["do_lower_case"] == do_lower_case


def test_a_made_file_is_read_back_after_their_library_has_saved_it(
    tiny_spm_model, make
):
    path = make(tiny_spm_model)
    expected = tokenizer_json.read_model(path)

    tokenizers.Tokenizer.from_file(str(path)).save(str(path))

    assert tokenizer_json.read_model(path) == expected


def test_other_marks_of_another_unicode_are_read_back(tiny_spm_model, make):
    path = make(tiny_spm_model)
    expected = tokenizer_json.read_model(path)
    values = json.loads(path.read_text())
    accents = values["normalizer"]["normalizers"][2]["pattern"]

    accents["Regex"] = accents["Regex"].replace("\u0300", "")
    path.write_text(json.dumps(values))
    assert tokenizer_json.read_model(path) == expected

    accents["Regex"] = "[a]"
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="it normalizes by Replace"):
        tokenizer_json.read_model(path)


def test_special_tokens_go_around_a_pair_and_are_found_in_text(
    tiny_spm_model, make
):
    path = make(tiny_spm_model)

    pair = _their_ids(path, "the snow", "fell")

    special = SentencePieceTokenizer(tiny_spm_model).special_ids
    first = pair.ids.index(special.sep)
    assert [pair.ids[0], pair.ids[-1]] == [special.cls, special.sep]
    assert pair.type_ids == [0] * (first + 1) + [1] * (len(pair) - first - 1)
    tokens = _their_ids(path, "the [MASK]. [MASK] snow").tokens
    assert "".join(tokens) == "▁the [MASK]. [MASK]▁snow"
    assert _their_ids(path, "<pad>").ids == [special.pad]


def test_a_model_without_rules_has_no_step_for_them(
    tiny_spm_model, change_model, make
):
    def remove_rules(model):
        model.normalizer_spec.precompiled_charsmap = b""

    path = change_model(tiny_spm_model, remove_rules)

    ids = _their_ids(make(path), "the snow").ids

    assert ids == SentencePieceTokenizer(path).encode("the snow")


def test_a_made_file_gives_the_ids_of_the_released_model(shared_data, make):
    model_file = shared_data / "data/spm/30k-clean.model"
    text = (shared_data / "data/squad/dev-v1.1.json").read_text("utf-8")
    texts = [
        paragraph["context"]
        for article in json.loads(text)["data"]
        for paragraph in article["paragraphs"]
    ][:200]
    made = tokenizers.Tokenizer.from_file(str(make(model_file)))

    ids, lengths = SentencePieceTokenizer(model_file).encode_batch(texts)

    encodings = made.encode_batch(texts, add_special_tokens=False)
    assert [*map(len, encodings)] == lengths.tolist()
    assert sum((row.ids for row in encodings), []) == ids.tolist()


# Refused.


def _without(kind):
    def edit(values):
        steps = values["normalizer"]["normalizers"]
        steps[:] = [step for step in steps if step["type"] != kind]

    return edit


def _add(**step):
    return lambda v: v["normalizer"]["normalizers"].append(step)


def _set(part, **fields):
    return lambda v: v[part].update(fields)


def _add_token(values):
    values["added_tokens"].append({"id": 300, "content": "new"})


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_set("model", type="BPE"), "model is BPE and not Unig"),
        (_set("model", byte_fallback=True), "byte_fallback is"),
        (_add(type="NFC"), "it normalizes by NFC"),
        (_without("StripAccents"), "it keeps accents"),
        (_without("Precompiled"), r"lacks the rules of its model \(Pre"),
        (_set("pre_tokenizer", prepend_scheme="never"), r"by ▁ \(Metaspace\)"),
        (_add_token, "it has tokens outside its vocabulary"),
    ],
)
def test_the_tokenizer_of_another_model_is_refused(
    edit, words, tiny_spm_model, tmp_path
):
    path = tmp_path / "tokenizer.json"
    write_tokenizer_json(path, tiny_spm_model)
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))

    with pytest.raises(ValueError, match=f"{words}.*Pass --spm_mod") as caught:
        tokenizer.load_tokenizer(spm_model_file=path)
    assert "\n" not in str(caught.value)
