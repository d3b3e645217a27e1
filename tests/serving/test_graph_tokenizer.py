"""Graph and Python give the same ids and offsets, but for ties."""

import json
import random
import string
import time

import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.serving.graph_tokenizer import make
from tests import tiny as tiny_models
from tests.text import symbols, tokenizer_files

PIECES = sentencepiece_model_pb2.ModelProto.SentencePiece
# Of 20,000 texts: real ones and random characters, and hard ones.
MAX_TIES, MAX_TIES_OF_HARD_TEXTS = 10, 40
MAX_SECONDS = 5
HARD_CASES = [
    *("", " ", "\t\n", "\x01", "▁", "a▁", "▁ ▁a", "Hello, World!", "a\0b"),
    *("Café ﬁ １２３ ½", "25, 1,234, x25,", "¨¨ a ¨", "\u200b \ufeff x \u2028"),
    "on \u200b25, 1990 \ufeff1,234, \ufffd12345, ▁5, \u200b\u200b6,",
    *("ΑΣ ΑΣ'Α Σ ΣΑΣ. ΑΣ\u0301Α", "İstanbul Iİ", "한국어 \u1112\u1161\u11ab"),
    "a\u0327\u0301 \U0001d165\u302e\U0001d16d",
    *("[MASK] [CLS] <pad> <unk> ##ing", "👩‍👩‍👧‍👦 🇩🇪 ﷺ"),
    *("w" * 199 + " " + "w" * 201, "漢字かな交じり文，你好！", "漢" * 250),
    # Long runs of unknown characters.
    "漢" * 5_000 + " a" + "漢\x07" * 1_000 + " " + "漢" * 3_000,
    "a" + "\u1112\u1161\u11ab" * 3_000,
]
VOCABULARIES = ["english", "chinese", "cased_english", "cased_chinese"]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_hard_cases(name, graph_of):
    assert graph_of(name).differences(HARD_CASES) == []


@pytest.mark.parametrize(
    "values", [symbols.PHONEMES, symbols.EVENTS, symbols.LONG]
)
@pytest.mark.parametrize("new_tokens", [[], ["<en>", "<en-us>"]])
def test_symbols_that_are_no_words(
    values, new_tokens, graph_tokenizer, tmp_path
):
    path = symbols.write(tmp_path, values)
    both = graph_tokenizer(vocab_file=str(path))
    if new_tokens:
        both.tokenizer = both.tokenizer.with_tokens(new_tokens)
        both.graph = make(both.tokenizer)
    alphabet = [*values["symbols"], *new_tokens, *" \t\n\x1c\x85\u3000漢😀"]
    rng = random.Random(0)
    lengths = [0, *(rng.randrange(40) for _ in range(2_000))]

    texts = ["".join(rng.choices(alphabet, k=length)) for length in lengths]

    assert both.differences([*texts, " "]) == []


@pytest.mark.parametrize("name", VOCABULARIES)
def test_random_texts(name, graph_of, text_maker):
    texts = text_maker.many("hard", 1_000, seed=1)
    texts += text_maker.many("plain", 500, seed=2)

    assert graph_of(name).differences(texts, max_ties=6) == []


def in_texts_of_64(characters):
    joined = "".join(characters)
    return [joined[i : i + 64] for i in range(0, len(joined), 64)]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_assigned_code_point(name, graph_of, text_maker):
    texts = in_texts_of_64(text_maker.assigned)

    # Letters that become `eee`.
    assert graph_of(name).differences(texts, max_ties=6) == []


@pytest.mark.parametrize(
    ("names", "file"),
    [
        (("cased_english", "english"), "sentencepiece.json"),
        (("cased_chinese", "chinese"), "wordpiece_zh.json"),
    ],
)
def test_what_the_original_gave(names, file, graph_of, shared_data):
    path = shared_data / "golden" / "tokenization" / file
    recorded = json.loads(path.read_text())

    for do_lower_case, name in enumerate(names):
        cases = [c for c in recorded if c["do_lower_case"] == do_lower_case]
        found = graph_of(name).encode([case["text"] for case in cases])
        pairs = [
            (row[:, 0].tolist(), case["ids"])
            for row, case in zip(found, cases, strict=True)
        ]
        different = [pair for pair in pairs if pair[0] != pair[1]]
        assert len(pairs) > 100
        # "EEE(electrical)" has two segmentations of equal score.
        assert len(different) <= 1
        assert all(sorted(one) == sorted(other) for one, other in different)


def test_a_vocabulary_of_ones_own(tiny, text_maker):
    texts = HARD_CASES + text_maker.many("hard", 500, seed=4)

    assert tiny.differences(texts, max_ties=9) == []


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_bytes_that_are_not_utf_8_count_as_replacements(name, graph_of):
    texts = [
        *(b"\xff\xfea", b"a\xe2\x82", b"\xed\xa0\x80x", b"\xf5\x80\x80\x80"),
        *(b"\xc0\xaf b", b"\xf0\x9f\x98 \xe2\x28\xa1"),
    ]
    decoded = [text.decode(errors="replace") for text in texts]

    encoded, expected = (graph_of(name).encode(t) for t in (texts, decoded))

    for row, expected_row in zip(encoded, expected, strict=True):
        assert row.tolist() == expected_row.tolist()
    assert graph_of(name).differences(decoded) == []


@pytest.mark.parametrize("name", ["english", "chinese"])
@pytest.mark.parametrize(
    "text", ["e", "漢", "\u0301", "\0", "a ", "漢e", "\u1112"]
)
def test_a_million_characters_take_little_time(text, name, graph_of):
    text = tf.constant([text * (1_000_000 // len(text))])
    graph_of(name).graph(tf.constant(["traced"]))
    start = time.process_time()

    graph_of(name).graph(text)

    assert time.process_time() - start < MAX_SECONDS


def test_characters_that_grow_too_long_are_an_invalid_argument(graph_of):
    graph = graph_of("english").graph
    pious = "\ufdfa"  # 18 characters.

    assert len(graph(tf.constant([pious * 4_000])).ids) > 4 * 4_000
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 times its len"):
        graph(tf.constant([pious * 20_000]))


def test_no_texts(tiny):
    tokens = tiny.graph(tf.constant([], tf.string))

    assert tokens.ids.shape == [0]
    assert tokens.row_splits.numpy().tolist() == [0]


def real_texts(shared_data):
    """Yields the lines of every text file, in lists of 20,000."""
    paths = sorted((shared_data / "data").rglob("*.t[xs][tv]"))
    lines = [
        line
        for path in paths
        for line in path.read_text(errors="replace").split("\n")
    ]
    assert len(lines) > 100_000
    return [lines[i : i + 20_000] for i in range(0, len(lines), 20_000)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["english", "chinese"])
def test_a_million_random_and_all_real_texts(
    name, graph_of, text_maker, shared_data
):
    both = graph_of(name)

    for seed in range(50):
        texts = text_maker.many("plain", 20_000, seed=1_000 + seed)
        assert both.differences(texts, MAX_TIES) == []
    for texts in real_texts(shared_data):
        assert both.differences(texts, MAX_TIES) == []
    hard_texts = text_maker.many("hard", 20_000, seed=2_000)
    assert both.differences(hard_texts, MAX_TIES_OF_HARD_TEXTS) == []
    is_surrogate = range(0xD800, 0xE000).__contains__
    code_points = [c for c in range(0x110000) if not is_surrogate(c)]
    texts = in_texts_of_64(map(chr, code_points))
    assert both.differences(texts, MAX_TIES) == []


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_the_graph_knows_what_the_tokenizer_knows(name, graph_of):
    graph, tokenizer = graph_of(name).graph, graph_of(name).tokenizer

    assert graph.special_ids == tokenizer.special_ids
    assert len(graph.tokens) == tokenizer.vocab_size
    assert graph.tokens[1234] == tokenizer.id_to_token(1234)


def test_it_is_traced_once(tiny):
    def num_nodes(times):
        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )
        def call(texts):
            return [tiny.graph(texts).ids for _ in range(times)]

        graph = call.get_concrete_function().graph.as_graph_def()
        return sum(len(one.node_def) for one in graph.library.function)

    assert num_nodes(1) == num_nodes(2)


NUMBERS = ["▁1,", "2,", "▁1974,", "x3,", "³,", "▁9,9,"]
USER_DEFINED = ["ee(", "\u1112\u1161", "the", "½½", "e 1"]
TEXTS = [
    # Numbers are cut from commas.
    *("1,", "a 1, 2,", "¨ 1,", "1974,x3, 9,9,", "12,2,", "1 ,2,\u0301,"),
    # User-defined pieces of several characters.
    *("the eee( other", "\u1112\u1161\u11ab", "e 1 the½½½"),
    # A special piece that text could become.
    "[mask] [MASK] x",
    *HARD_CASES,
]


def add_pieces(model):
    for pieces, kind in (
        (NUMBERS, PIECES.NORMAL),
        (USER_DEFINED, PIECES.USER_DEFINED),
    ):
        for piece in pieces:
            model.pieces.add(piece=piece, score=-1.0, type=kind)
    for piece in model.pieces:
        if piece.piece == "[MASK]":
            piece.type = PIECES.USER_DEFINED


def set_normalizer(**values):
    def change(model):
        for name, value in values.items():
            setattr(model.normalizer_spec, name, value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        add_pieces,
        set_normalizer(add_dummy_prefix=False),
        set_normalizer(remove_extra_whitespaces=False),
        set_normalizer(precompiled_charsmap=b""),
    ],
)
def test_a_model_of_another_kind(
    change, tiny_spm_model, graph_tokenizer, text_maker, change_model
):
    path = change_model(tiny_spm_model, change)

    both = graph_tokenizer(spm_model_file=str(path))

    texts = TEXTS + text_maker.many("hard", 300, 5)
    assert both.differences(texts, max_ties=9) == []


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_model_whose_unknown_characters_are_bytes(
    model_type, graph_tokenizer, text_maker, tmp_path
):
    texts = text_maker.many("hard", 300, 7)
    rng = random.Random(0)
    path = tokenizer_files.train_with_bytes(
        tmp_path / "bytes.model",
        [
            "".join(rng.choices(string.ascii_lowercase + "  é", k=80))
            for _ in range(200)
        ],
        model_type=model_type,
        vocab_size=400,
        hard_vocab_limit=False,
    )

    both = graph_tokenizer(spm_model_file=path)

    assert both.differences(texts, max_ties=9) == []


# İ grows when it is lower-cased, ς ends a word, ﾊﾟ is two characters.
ACCENTED = [
    *("ボール がっこう ﾊﾟ", "Việt Nam, mã má", "한국어 각", "İstanbul Iİ[E1]İ"),
    *("[E1] a [e1]b[/E1]", "[E1][E1]", " x [E1] ", "E1]"),
    *("ΑΣ[E1]ΑΣ [/e1] 漢字漢", *HARD_CASES),
]
ADDED = {"added_tokens": {"[E1]": True, "[/E1]": False}}


def add_tokens(model):
    for piece in ADDED["added_tokens"]:
        model.pieces.add(piece=piece, type=PIECES.UNUSED)


@pytest.mark.parametrize(
    "settings",
    [
        {"keep_accents": True, "do_lower_case": False},
        {"keep_accents": True, **ADDED},
    ],
)
def test_other_settings_of_sentencepiece(
    settings, tiny_spm_model, graph_tokenizer, text_maker, change_model
):
    path = change_model(tiny_spm_model, add_tokens)

    both = graph_tokenizer(spm_model_file=str(path), **settings)

    texts = ACCENTED + text_maker.many("hard", 200, 6)
    assert both.differences(texts, max_ties=9) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"keep_accents": False, "do_lower_case": False},
        {"keep_accents": True, "tokenize_chinese_chars": False, **ADDED},
    ],
)
def test_other_settings_of_wordpiece(
    settings, graph_tokenizer, text_maker, tmp_path
):
    letters = dict.fromkeys("".join(ACCENTED).replace(" ", "").lower())
    tokens = [t for c in letters for t in (c, f"##{c}") if t.strip() == t]
    path = tiny_models.write_vocabulary(
        tmp_path / "vocab.txt", [*ADDED["added_tokens"], *tokens]
    )

    both = graph_tokenizer(vocab_file=path, **settings)

    texts = ACCENTED + text_maker.many("hard", 200, 8)
    assert both.differences(texts) == []


def test_random_texts_of_a_small_vocabulary(
    graph_tokenizer, text_maker, tmp_path
):
    # With an empty and a repeated line.
    tokens = "un ##aff  un ##able ##a a b 你 ! ## ab "
    path = tiny_models.write_vocabulary(tmp_path / "vocab", tokens.split(" "))
    texts = [
        *("unaffable", "ab aab", "UNAFFA你 b!", "unaffx a", "##a", "[MASK]"),
        *("", "a" * 200, "a" * 201 + " b"),
        *text_maker.many("hard", 500, seed=9),
    ]

    assert graph_tokenizer(vocab_file=path).differences(texts) == []
