"""What a folder of transformers says of its tokenizer is used, or refused."""

import dataclasses
import json
import logging
import shutil

import numpy as np
import pytest
import tokenizers
from sentencepiece import sentencepiece_model_pb2

from albert_tf.checkpoints import (
    discovery,
    huggingface,
    huggingface_tokenizer,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.text.tokenizer import VocabularyBeside
from albert_tf.text.vocabulary_file import TokenizerSettings
from tests import tiny
from tests.checkpoints.weights import convert, save, weights_of

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_BERT = {"tokenizer_class": "BertTokenizer"}
_E1 = {"content": "[E1]", "special": True}


@pytest.fixture
def write(source, tmp_path):
    """Writes a folder of the tiny model with other files; gives its path."""

    def write_folder(lines=None, config=None, **files):
        huggingface.write(str(tmp_path), source)
        if lines is not None:
            content = "\n".join([*_SPECIAL, *lines]).encode()
            (tmp_path / "vocab.txt").write_bytes(content)
        files["tokenizer_config"] = config or {}
        for name, values in files.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(values))
        return tmp_path

    return write_folder


def _tokens(folder, text):
    tokenizer = discovery.load_tokenizer(folder)
    return [tokenizer.id_to_token(i) for i in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "config", "tokens"),
    [
        ("Café ボ漢字", {}, ["cafe", "ホ", "漢", "字"]),
        ("Café ボ", {"strip_accents": False}, ["café", "ボ"]),
        ("café", {"do_lower_case": False, "strip_accents": True}, ["cafe"]),
        ("漢字", {"tokenize_chinese_chars": False}, ["漢字"]),
    ],
)
def test_wordpiece_normalizes_as_the_folder_says(text, config, tokens, write):
    lines = ["cafe", "café", "ホ", "ボ", "漢", "字", "漢字"]

    assert _tokens(write(lines, config), text) == tokens


def test_accents_are_kept_as_the_folder_says(write, tiny_spm_model):
    folder = write(config={"keep_accents": True})
    (folder / "spiece.model").write_bytes(tiny_spm_model.read_bytes())

    tokenizer = discovery.load_tokenizer(folder)

    assert tokenizer.encode("Zoë") != tokenizer.encode("Zoe")
    assert tokenizer.encode("Zoë") == tokenizer.encode("zoë")


def test_an_id_is_the_number_of_its_line_wherever_it_goes(write, tmp_path):
    # transformers: of equal lines the last one counts, and empty ones count.
    lines = ["a", "", "b", "a", "", "c d", "e"]
    source = discovery.open(write(lines, _BERT))

    ids = source.tokenizer.encode("a b c e")

    assert ids == [8, 7, 1, 11]
    written = tmp_path / "written"
    written.mkdir()
    huggingface_tokenizer.write(str(written), source)
    again = discovery.load_tokenizer(vocab_file=written / "vocab.txt")
    assert again.encode("a b c e") == ids
    assert again.fingerprint == source.tokenizer.fingerprint


def test_a_byte_order_mark_is_no_part_of_a_token(write):
    folder = write(["a"])
    path = folder / "vocab.txt"
    path.write_bytes(
        b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
    )

    assert discovery.load_tokenizer(folder).encode("a x") == [5, 1]


@pytest.mark.parametrize(
    ("files", "token_id"),
    [
        ({"config": {"added_tokens_decoder": {"6": _E1}}}, 6),
        ({"config": {"additional_special_tokens": ["[E1]"]}}, 7),
        # A gap in the ids is a token that no text has.
        ({"added_tokens": {"[E1]": 9}}, 9),
    ],
)
def test_added_tokens_are_cut_out_of_the_text(files, token_id, write):
    lines = ["a", "[E1]"] if token_id == 6 else ["a", "b"]
    tokenizer = discovery.load_tokenizer(write(lines, **files))

    found = tokenizer.encode_with_offsets("A[E1]  [e1]")

    assert tokenizer.vocab_size == max(7, token_id + 1)
    is_special = "added_tokens" not in files
    ids, spans = [5, token_id], [(0, 1), (1, 5)]
    if is_special:
        assert found == ([*ids, 1, 1, 1], [*spans, (7, 8), (8, 10), (10, 11)])
    else:
        # Of others, transformers looks in the normalized text.
        assert found == ([*ids, token_id], [*spans, (7, 11)])


def test_a_wordpiece_tokenizer_json_is_a_vocabulary(write):
    made = tokenizers.BertWordPieceTokenizer(
        {token: i for i, token in enumerate([*_SPECIAL, "b", "é", "e"])},
        strip_accents=False,
    )
    made.add_special_tokens(["[E1]"])
    folder = write(tokenizer=json.loads(made.to_str()))

    source = discovery.open(folder)

    text = "É[E1]b"
    expected = made.encode(text, add_special_tokens=False).ids
    assert source.tokenizer.encode(text) == expected == [6, 8, 5]
    settings = TokenizerSettings(
        keep_accents=True, added_tokens={"[E1]": False}
    )
    assert source.tokenizer.settings == settings


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"config": {"tokenizer_class": "BertJapaneseTokenizer"}},
            "tokenizer_class='BertJapaneseTokenizer' is not supported",
        ),
        ({"config": {"do_basic_tokenize": False}}, "do_basic_tokenize=False"),
        ({"config": {"cls_token": {"content": "<s>"}}}, "cls_token=.*<s>"),
        (
            {"config": {"added_tokens_decoder": {"6": _E1 | {"rstrip": True}}}},
            r"rstrip of '\[E1\]' is not supported",
        ),
        (
            {
                "config": {
                    "added_tokens_decoder": {"6": _E1 | {"single_word": True}}
                }
            },
            r"single_word without normalized of '\[E1\]' is not supported",
        ),
        ({"added_tokens": {"[E1]": 3}}, r"the id of .*'\[E1\]' is another's"),
    ],
)
def test_what_is_not_supported_is_named_unless_a_vocabulary_is(
    files, message, write
):
    source = discovery.open(write(["a"], **files))

    with pytest.raises(ValueError, match=message):
        source.tokenizer  # noqa: B018
    named = vocabularies.with_vocabulary(
        dataclasses.replace(
            source, config=dataclasses.replace(source.config, vocab_size=6)
        ),
        VocabularyBeside(vocab_file=f"{source.path}/vocab.txt"),
    )
    assert named.tokenizer.vocab_size == 6


def test_a_refused_tokenizer_is_not_converted_unless_one_is_named(
    write, tmp_path
):
    config = {"tokenizer_class": "BertJapaneseTokenizer"}
    folder, written = write(["a"], config), tmp_path / "written"

    with pytest.raises(ValueError, match="BertJapaneseTokenizer' is not supp"):
        convert(folder, written, "keras")

    assert not written.exists()


def test_verified_are_the_ids_of_the_folder_as_it_came(
    write, tmp_path, monkeypatch
):
    size = discovery.open(write()).config.vocab_size
    lines = [f"w{i}" for i in range(size - 7)]
    folder = write([*lines, "w1", "é"], {"strip_accents": False} | _BERT)

    summary = convert(folder, tmp_path / "a", "keras", verify=True)

    (note,) = summary.notes
    assert note.kind == "compared"
    # As if a setting of the folder were not read.
    monkeypatch.setattr(
        huggingface_tokenizer, "settings_of", lambda *_, **__: {}
    )
    monkeypatch.setattr(huggingface_tokenizer, "_WORDS", "é")
    with pytest.raises(ValueError, match="transformers gives other ids"):
        convert(folder, tmp_path / "b", "keras", verify=True)


def test_a_symbol_of_the_model_that_is_an_added_token_stays_one(
    source, tiny_spm_model, tmp_path
):
    model = sentencepiece_model_pb2.ModelProto.FromString(
        tiny_spm_model.read_bytes()
    )
    for index, name in ((20, "[E1]"), (21, "·"), (-1, "<x1>")):
        piece = model.pieces[index]
        piece.piece, piece.type, piece.score = name, piece.USER_DEFINED, 0
    last = str(len(model.pieces) - 1)
    path = tmp_path / "own.model"
    path.write_bytes(model.SerializeToString())
    decoder = {
        "20": _E1,
        **{
            index: {"content": content, "normalized": False}
            for index, content in (("21", "·"), (last, "<x1>"))
        },
    }
    huggingface.write(
        str(tmp_path), dataclasses.replace(source, vocabulary=str(path))
    )
    config = json.dumps({"added_tokens_decoder": decoder})
    (tmp_path / "tokenizer_config.json").write_text(config)

    found = discovery.open(tmp_path)

    assert found.tokenizer.encode("snow [E1]")[-1] == 20
    # Marks are those of the original.
    [note] = found.notes
    assert "(those of the original; others in transformers: · cut" in note.text
    written = tmp_path / "written"
    written.mkdir()
    huggingface_tokenizer.write(str(written), found)
    theirs = huggingface_tokenizer._tokenizer_of(str(written))
    for text in ("the [E1] snow", "x[E1]snow", "snow <x1>", "snow <X1>"):
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert found.tokenizer.encode(text) == ids


def test_new_tokens_get_rows_that_are_means(source, tiny_spm_model, caplog):
    weights = dict(source.arrays)
    rows = np.float32(np.arange(300 * 4).reshape(300, 4))
    weights["bert/embeddings/word_embeddings"] = rows
    weights["cls/predictions/output_bias"] = rows[:, 0]
    config = dataclasses.replace(source.config, vocab_size=300)
    old = dataclasses.replace(
        source, arrays=weights, config=config, vocabulary=str(tiny_spm_model)
    )

    caplog.set_level(logging.INFO)

    new = vocabularies.with_new_tokens(old, ["[E1]", "Falkon", "the"])

    assert new.config.vocab_size == new.tokenizer.vocab_size == 302
    table = new.arrays["bert/embeddings/word_embeddings"]
    np.testing.assert_array_equal(table[:300], rows)
    pieces = rows[old.tokenizer.encode("falkon")]
    assert len(pieces) > 1
    np.testing.assert_array_equal(table[300:], [rows.mean(0), pieces.mean(0)])
    assert new.tokenizer.encode("[E1]") == [300]
    # "the" is one piece, and stays it.
    assert new.tokenizer.encode("the") == old.tokenizer.encode("the")
    expected = "2 new tokens: [E1], falkon. Left out, tokens already: the"
    assert expected in caplog.text
    again = vocabularies.with_new_tokens(new, ["[E1]", "falkon"])
    assert again.config.vocab_size == 302


@pytest.mark.parametrize("lines", [None, [*"acdiov", "##o", "##v", "##d"]])
def test_a_new_word_is_found_as_a_whole_word_by_both(
    lines, source, tiny_spm_model, write, tmp_path
):
    if lines is None:
        tokenizer = discovery.load_tokenizer(spm_model_file=tiny_spm_model)
    else:
        tokenizer = discovery.load_tokenizer(write(lines))
    tokenizer = tokenizer.with_tokens(["COVID", "[E1]", "dó-d"])
    named = dataclasses.replace(
        source,
        vocabulary=str(tiny_spm_model if lines is None else "vocab.txt"),
        content=tokenizer.vocabulary,
        metadata=Metadata(**tokenizer.settings.stated()),
    )
    folder = tmp_path / "written"
    folder.mkdir()
    huggingface_tokenizer.write(str(folder), named)

    facts, fields = huggingface_tokenizer.read(str(folder))

    read = Checkpoint(metadata=Metadata(**facts), **fields).tokenizer
    assert read.fingerprint == tokenizer.fingerprint
    theirs = huggingface_tokenizer._tokenizer_of(str(folder))
    new = tokenizer.token_to_id("covid")
    texts = {"Covid": 1, "a covíd, covido [E1]covid-x": 2, "acovid_covid": 0}
    texts |= {"DO-D xdo-d": 0, "[E1] [e1] (covid)'s Covids": 1}
    for text, count in texts.items():
        ids = tokenizer.encode(text)
        assert ids.count(new) == count
        assert read.encode(text) == ids
        assert theirs.encode(text, add_special_tokens=False).ids == ids


# Ids of a written folder are compared with ours.


@pytest.fixture
def english(source, tiny_spm_model):
    return dataclasses.replace(source, vocabulary=str(tiny_spm_model))


def test_sentences_are_the_same_each_time_and_many(english):
    texts = huggingface_tokenizer.sentences(english.tokenizer)

    assert len({*texts}) == 300
    assert texts == huggingface_tokenizer.sentences(english.tokenizer)
    letters = " ".join(texts)
    assert all(one in letters for one in ("ï", "漢", "😀", "(ABBA),", "U.S."))
    assert "[CLS]" not in letters


def test_sentences_with_other_ids_are_refused(english, tmp_path, monkeypatch):
    huggingface.write(str(tmp_path), english)
    written = discovery.open(tmp_path)
    texts = ["The snow fell.", "a day"]
    monkeypatch.setattr(
        huggingface_tokenizer, "sentences", lambda tokenizer: texts
    )

    (note,) = huggingface_tokenizer.compare(written)

    assert str(note) == "compared  the ids of 2 sentences are equal"
    texts.append("x25, the [CLS]")
    with pytest.raises(ValueError, match="other ids .* to 'x25, the "):
        huggingface_tokenizer.compare(written)


def test_added_tokens_are_compared_in_capitals_too(english):
    tokenizer = english.tokenizer.with_tokens(["covid"])
    words = " ".join(huggingface_tokenizer.sentences(tokenizer)).split()

    assert {"covid", "COVID", "Covid"} <= {*words}


def test_a_verified_conversion_compares_ids(tiny_spm_model, tmp_path):
    config = tiny.config(vocab_size=300, max_position_embeddings=32)
    model = PretrainingModel(config, seed=1)
    ours = save(tmp_path / "ours", config, weights_of(model))
    shutil.copy(tiny_spm_model, ours)

    summary = convert(ours, tmp_path / "theirs", "huggingface", verify=True)

    (note,) = summary.notes
    assert str(note) == "compared  the ids of 300 sentences are equal"
