"""A `tokenizer.json` gives what the SentencePiece model gives it is made of."""

import json

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import tokenizer, tokenizer_json
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
    path = tmp_path / "tokenizer.json"
    model = write_tokenizer_json(path, tiny_spm_model, is_old=is_old)

    found = sentencepiece_model_pb2.ModelProto.FromString(
        tokenizer_json.read_model(path)
    )

    pieces, wanted = (
        [(p.piece, p.score, p.type) for p in one.pieces]
        for one in (found, model)
    )
    assert pieces == wanted
    rules, wanted = (
        one.normalizer_spec.precompiled_charsmap for one in (found, model)
    )
    assert rules == wanted
    assert tokenizer_json.read_model(path) == tokenizer_json.read_model(path)


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
    assert tokenizer_json.lower_cases(path) == do_lower_case


def test_texts_have_the_ids_of_the_released_model(shared_data, tmp_path):
    model_file = shared_data / "data" / "spm" / "30k-clean.model"
    path = tmp_path / "tokenizer.json"
    model = write_tokenizer_json(path, model_file)
    golden = shared_data / "golden" / "tokenization" / "sentencepiece.json"
    texts = [
        *_TEXTS,
        *(case["text"] for case in json.loads(golden.read_text())),
    ]

    found = SentencePieceTokenizer(path)

    commas = [p for p in model.pieces if is_number_comma(p.piece)]
    assert len(commas) > 100
    wanted = SentencePieceTokenizer(model_file)
    for ours, theirs in zip(
        found.encode_batch(texts), wanted.encode_batch(texts), strict=True
    ):
        assert ours.tolist() == theirs.tolist()


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

    with pytest.raises(ValueError, match=f"{words}.*Pass the Sen") as caught:
        tokenizer.load_tokenizer(spm_model_file=path)
    assert "\n" not in str(caught.value)
