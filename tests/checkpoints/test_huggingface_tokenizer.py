"""What a folder of transformers says of its tokenizer is used, or refused."""

import dataclasses
import json

import numpy as np
import pytest
import tokenizers

from albert_tf.checkpoints import (
    compatibility,
    discovery,
    huggingface,
    huggingface_tokenizer,
    token_ids,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.text.base import TokenizerSettings
from albert_tf.text.tokenizer import VocabularyBeside
from tests.checkpoints.weights import convert

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_BERT = {"tokenizer_class": "BertTokenizer"}
_E1 = {"content": "[E1]", "special": True}


@pytest.fixture
def write(source, tmp_path):
    """Writes a folder of the tiny model with other files; gives its path."""

    def write_folder(lines=None, config=None, **files):
        huggingface.write(str(tmp_path), dataclasses.replace(source))
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
        ({"added_tokens": {"[é1]": 6}}, r"normalized of '\[é1\]' is not"),
        ({"added_tokens": {"[E1]": 3}}, r"the id of .*'\[E1\]' is another's"),
    ],
)
def test_what_is_not_supported_is_named_unless_a_vocabulary_is(
    files, message, write
):
    source = discovery.open(write(["a"], **files))

    with pytest.raises(ValueError, match=message):
        compatibility.check_vocabulary(source)
    named = compatibility.with_vocabulary(
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

    assert [str(n).split(":")[1] for n in summary.notes] == [
        " the ids of 0 differ"
    ]
    # As if a setting of the folder were not read.
    monkeypatch.setattr(
        huggingface_tokenizer, "settings_of", lambda *_, **__: {}
    )
    monkeypatch.setattr(token_ids, "_WORDS", "é")
    with pytest.raises(ValueError, match="gives other ids than the checkpoi"):
        convert(folder, tmp_path / "b", "keras", verify=True)


def test_new_tokens_get_rows_that_are_the_mean(source, tiny_spm_model):
    weights = dict(source.arrays)
    rows = np.float32(np.arange(300 * 4).reshape(300, 4))
    weights["bert/embeddings/word_embeddings"] = rows
    config = dataclasses.replace(source.config, vocab_size=300)
    old = dataclasses.replace(
        source, arrays=weights, config=config, vocabulary=str(tiny_spm_model)
    )

    new = compatibility.with_new_tokens(old, ["[E1]", "[/E1]"])

    assert new.config.vocab_size == new.tokenizer.vocab_size == 302
    table = new.arrays["bert/embeddings/word_embeddings"]
    np.testing.assert_array_equal(table[:300], rows)
    np.testing.assert_array_equal(table[300:], [rows.mean(0)] * 2)
    assert new.tokenizer.encode("[E1]") == [300]
    again = compatibility.with_new_tokens(new, ["[E1]"])
    assert again.config.vocab_size == 302


@pytest.mark.parametrize("lines", [None, [*"acdiov", "##o", "##v", "##d"]])
def test_a_new_token_that_looks_like_a_word_is_found_as_written_alone(
    lines, source, tiny_spm_model, write, tmp_path
):
    if lines is None:
        tokenizer = discovery.load_tokenizer(spm_model_file=tiny_spm_model)
    else:
        tokenizer = discovery.load_tokenizer(write(lines))
    tokenizer = tokenizer.with_tokens(["covid", "[E1]"])
    texts = ["covid", "COVID", "a covid, covido [E1]x", "ACOVID"]
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
    theirs = token_ids._their_tokenizer(str(folder))
    for text in texts:
        ids = tokenizer.encode(text)
        assert (tokenizer.token_to_id("covid") in ids) == ("covid" in text)
        assert read.encode(text) == ids
        assert theirs.encode(text, add_special_tokens=False).ids == ids
