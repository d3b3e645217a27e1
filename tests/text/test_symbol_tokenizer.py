import json

import pytest

from albert_tf.text import tokenizer, vocabulary_training
from albert_tf.text.base import SENTENCEPIECE_NAMES, encode_pair
from albert_tf.text.vocabulary_training import VocabularyTrainingConfig
from tests.text.symbols import EVENTS, PHONEMES, SYMBOLS, load


def test_each_character_has_one_id_and_nothing_is_normalized(tmp_path):
    phonemes = load(tmp_path, PHONEMES)
    text = " Hə  lˈoʊ t\u0361ʃ ' "

    ids, spans = phonemes.encode_with_offsets(text)

    unknown = SYMBOLS.index("U")
    assert ids == [max(SYMBOLS.rfind(c), 0) or unknown for c in text]
    assert spans == [(i, i + 1) for i in range(len(text))]
    assert phonemes.encode(text) == ids
    assert phonemes.decode(ids) == text.replace("H", "U")


def test_a_special_symbol_in_a_text_is_unknown(tmp_path):
    phonemes = load(tmp_path, PHONEMES)
    special = phonemes.special_ids

    assert (
        phonemes.encode("$aMU")
        == [special.unk, SYMBOLS.index("a")] + [special.unk] * 2
    )
    assert phonemes.encode_with_masks("a[MASK]M", "[MASK]") == [
        SYMBOLS.index("a"),
        special.mask,
        special.unk,
    ]
    # What no text is encoded to replaces no masked symbol.
    assert [SYMBOLS[i] for i in phonemes.forbidden_ids] == [*"$MU'"]


def test_a_word_begins_with_its_border_or_is_a_symbol(tmp_path):
    phonemes, events = load(tmp_path, PHONEMES), load(tmp_path, EVENTS)

    assert phonemes.word_starts.nonzero()[0].tolist() == [SYMBOLS.index(" ")]
    assert events.word_starts.all()


def test_sequences_without_cls_and_sep_are_texts_alone(tmp_path):
    phonemes = load(tmp_path, PHONEMES)
    a, b = phonemes.encode("ab")

    batch = phonemes.batch(["abab", "b", ""], max_seq_length=3)

    assert batch["input_ids"].tolist() == [[a, b, a], [b, 0, 0], [0, 0, 0]]
    assert batch["input_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    with pytest.raises(ValueError, match="no .SEP. between two texts"):
        encode_pair([a], [b], max_seq_length=9, special=phonemes.special_ids)


def test_blanks_may_separate_symbols(tmp_path):
    events = load(tmp_path, EVENTS)

    ids, spans = events.encode_with_offsets("login\u3000sell  buy")

    assert ids == [2, 1, 3]
    assert spans == [(0, 5), (6, 10), (12, 15)]
    assert events.decode(ids) == "login ? buy"
    assert events.batch(["buy"], max_seq_length=5)["input_ids"].tolist() == [
        [4, 3, 5, 0, 0]
    ]


def test_symbols_may_have_ids_and_several_characters(tmp_path):
    ids = {"$": 0, "t": 3, "ʃ": 4, "tʃ": 9, "a": 2, "aɪ": 7, "U": 5, "M": 6}
    special = {"pad": "$", "unk": "U", "mask": "M"}

    found = load(tmp_path, {"symbols": ids, "special": special})

    assert found.vocab_size == 10
    assert found.encode_with_offsets("tʃaɪtaʃ[id1]") == (
        [9, 7, 3, 2, 4, *[5] * 5],
        [(0, 2), (2, 4), *((i, i + 1) for i in range(4, 12))],
    )
    assert found.decode([9, 7, 3]) == "tʃaɪt"
    # No text is encoded to an id without a symbol.
    assert found.forbidden_ids.tolist() == [0, 1, 5, 6, 8]
    longer = found.with_tokens(["ŋg", "a"])
    assert longer.encode("aŋg") == [2, 10]


def test_added_tokens_travel_in_the_list(tmp_path):
    phonemes = load(tmp_path, PHONEMES).with_tokens(["<en-us>"])

    assert phonemes.encode("a<en-us>b")[1] == len(SYMBOLS)
    again = type(phonemes)("", phonemes.vocabulary, **vars(phonemes.settings))
    assert again.fingerprint == phonemes.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"symbols": None}, "a.symbols.json' is no list of symbols.*TypeErr"),
        ({"special": {"pad": "$"}}, "no list of symbols.*build_vocab"),
        ({"special": PHONEMES["special"] | {"cls": "."}}, "cls without sep"),
        ({"special": {"pad": "<pad>", "unk": "U", "mask": "M"}}, "no token <p"),
        ({"word_border": "|"}, "is no list of symbols.*is not in list"),
        ({"word_borders": " "}, r"unknown fields: \['word_borders'\]"),
        ({"symbols": []}, "is no list of symbols"),
        ({"symbols": {"$": 0, "U": 1, "M": 1}}, "are not different numbers"),
        ({"symbols": {"$": 0, "U": 1, "M": "2"}}, "are not different numbers"),
        ({"symbols": {"$": 0, "U": 1, "M": 5_000_000}}, "without a token"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, PHONEMES | changes)


@pytest.mark.parametrize(
    ("kind", "end", "symbols", "word_border"),
    [("char", "", [*"abˈ ə"], " "), ("word", " [MASK]", ["ˈab", "aə"], None)],
)
def test_a_list_is_made_of_the_most_frequent_symbols(
    tmp_path, kind, end, symbols, word_border
):
    path = tmp_path / "a.txt"
    path.write_text(f"ˈab ˈab\nˈab aə{end}\n", encoding="utf-8")
    config = VocabularyTrainingConfig(
        input_file=str(path),
        output_prefix=str(tmp_path / "vocab"),
        model_type=kind,
        vocab_size=100,
    )

    vocabulary_training.list_symbols(config)

    made = json.loads((tmp_path / "vocab.symbols.json").read_text("utf-8"))
    assert made["symbols"] == [*SENTENCEPIECE_NAMES, *symbols]
    assert made["word_border"] == word_border
    found = tokenizer.load_tokenizer(vocab_file=tmp_path / "vocab.symbols.json")
    assert found.special_ids.unk not in found.encode("ˈab aə")
    with pytest.raises(ValueError, match="exists"):
        vocabulary_training.list_symbols(config)
