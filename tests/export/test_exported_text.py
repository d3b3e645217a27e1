"""Graph and Python give the same ids and offsets on everything; packing."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import exported_text, signature
from albert_tf.export.exported_text import Tokens
from albert_tf.text import normalization
from albert_tf.text.special_tokens import SpecialIds

# Tracing one takes seconds; ids of the cased ones are also compared below.
VOCABULARIES = [
    "english",
    "chinese",
    pytest.param("cased_english", marks=pytest.mark.slow),
    pytest.param("cased_chinese", marks=pytest.mark.slow),
]
# Of 40,000 texts; 28 were found.
MAX_TIES = 40
HARD_CASES = [
    "",
    " ",
    "\t\n",
    "\x01",
    "▁",
    "a▁",
    "▁ ▁a",
    "Hello, World!",
    "Café ﬁ １２３ ½",
    "25, 1,234, x25,",
    "ΑΣ ΑΣ'Α Σ ΣΑΣ. ΑΣ\u0301Α",
    "İstanbul Iİ",
    "한국어 \u1112\u1161\u11ab",
    "a\u0327\u0301 \U0001d165\u302e\U0001d16d",
    "¨¨ a ¨",
    "\u200b \ufeff x \u2028",
    "eee eeee eeeeeee",
    '(e-£e) "eee" – €eee',
    "[MASK] [CLS] <pad> <unk> ##ing",
    "a\0b",
    "👩‍👩‍👧‍👦 🇩🇪 ﷺ",
    "w" * 199 + " " + "w" * 201,
    "漢字かな交じり文，你好！",
]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_hard_cases(name, graph_of):
    assert graph_of(name).differences(HARD_CASES) == []


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_random_texts(name, graph_of, text_maker):
    texts = text_maker.many("hard", 2_000, seed=1)
    texts += text_maker.many("plain", 1_000, seed=2)

    assert graph_of(name).differences(texts) == []


def in_texts_of_64(characters):
    joined = "".join(characters)
    return [joined[i : i + 64] for i in range(0, len(joined), 64)]


@pytest.mark.parametrize("name", ["english", "chinese", "cased_chinese"])
def test_every_assigned_code_point(name, graph_of, text_maker):
    texts = in_texts_of_64(text_maker.assigned)

    assert graph_of(name).id_differences(texts) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cased_english", "cased_chinese"])
def test_random_cased_texts(name, graph_of, text_maker):
    texts = text_maker.many("hard", 20_000, seed=3)

    assert graph_of(name).differences(texts) == []


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
        assert cases
        assert found == [case["ids"] for case in cases]


def test_a_vocabulary_of_ones_own(tiny, text_maker):
    texts = HARD_CASES + text_maker.many("hard", 500, seed=4)

    assert tiny.differences(texts) == []


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_bytes_that_are_not_utf_8_count_as_replacements(name, graph_of):
    graph = graph_of(name)
    texts = [
        b"\xff\xfea",
        b"a\xe2\x82",
        b"\xed\xa0\x80x",
        b"\xf5\x80\x80\x80",
        b"\xc0\xaf b",
        b"\xf0\x9f\x98 \xe2\x28\xa1",
    ]

    assert graph.encode(texts) == [
        graph.tokenizer.encode(text.decode(errors="replace")) for text in texts
    ]


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_texts_of_100_000_characters(name, graph_of):
    texts = [character * 100_000 for character in "e 漢\u0301"]
    texts += ["short", "", "the end " * 12_500]

    assert graph_of(name).differences(texts) == []


def test_no_texts(tiny):
    assert tiny.encode([]) == []
    assert tiny.encode_with_offsets([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["english", "chinese"])
def test_a_million_random_and_20_000_hard_texts(name, graph_of, text_maker):
    graph = graph_of(name)

    for seed in range(50):
        texts = text_maker.many("plain", 20_000, seed=1_000 + seed)
        assert graph.differences(texts) == []
    hard_texts = text_maker.many("hard", 20_000, seed=2_000)
    assert graph.differences(hard_texts) == []
    is_surrogate = range(0xD800, 0xE000).__contains__
    code_points = [c for c in range(0x110000) if not is_surrogate(c)]
    assert graph.differences(in_texts_of_64(map(chr, code_points))) == []


@pytest.mark.slow
def test_tf_text_differs_in_ties_alone(graph_of, text_maker, shared_data):
    tf_text = pytest.importorskip("tensorflow_text")
    model = shared_data / "data/spm/30k-clean.model"
    witness = tf_text.SentencepieceTokenizer(model.read_bytes())
    english = graph_of("english")
    replacements = english.tokenizer.replacements
    texts = text_maker.many("hard", 20_000, seed=12)
    texts += text_maker.many("plain", 20_000, seed=11)
    normalized = [normalization.normalize(t, do_lower_case=True) for t in texts]

    rows = witness.tokenize(tf.constant(normalized)).to_list()

    expected = [
        [new for i in row for new in replacements.get(i, (i,))] for row in rows
    ]
    pairs = zip(english.encode(texts), expected, strict=True)
    different = [(one, other) for one, other in pairs if one != other]
    # Pieces of two kinds whose order does not change the sum of their scores.
    assert len(different) < MAX_TIES
    assert all(sorted(one) == sorted(other) for one, other in different)


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_the_graph_knows_what_the_tokenizer_knows(name, graph_of):
    graph, tokenizer = graph_of(name).graph, graph_of(name).tokenizer

    assert graph.special_ids == tokenizer.special_ids
    assert len(graph.tokens) == tokenizer.vocab_size
    assert graph.tokens[1234] == tokenizer.id_to_token(1234)


def test_offsets_are_absent_unless_requested(tiny):
    found = tiny.graph(tf.constant(["a"]))

    assert (found.starts, found.ends) == (None, None)


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_the_graph_is_made_of_allowed_operations_once(name, graph_of):
    graph = graph_of(name).graph

    def trace(times, with_offsets):
        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )
        def call(texts):
            found = [
                graph(texts, with_offsets=with_offsets) for _ in range(times)
            ]
            return [one.ids for one in found]

        return call.get_concrete_function()

    for with_offsets in (False, True):
        once, twice = trace(1, with_offsets), trace(2, with_offsets)
        signature.check_operations(once, name)
        assert num_nodes(once) == num_nodes(twice)


def num_nodes(function):
    library = function.graph.as_graph_def().library.function
    return sum(len(one.node_def) for one in library)


SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)


def pack(texts_a, texts_b, max_seq_length):
    rows = [*texts_a, *texts_b]
    tokens = Tokens(
        ids=tf.constant([i for row in rows for i in row], tf.int32),
        row_ids=tf.repeat(
            tf.range(len(rows)), tf.constant([*map(len, rows)], tf.int32)
        ),
        num_rows=tf.constant(len(rows)),
    )
    packed = exported_text.pack_pairs(
        tokens, max_seq_length=max_seq_length, special=SPECIAL
    )
    return {name: values.numpy().tolist() for name, values in packed.items()}


def test_a_pair_and_a_single_text():
    packed = pack([[7, 8], [9]], [[5], []], 16)

    assert packed == {
        "input_ids": [[2, 7, 8, 3, 5, 3], [2, 9, 3, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]],
    }


@pytest.mark.parametrize(
    ("texts_a", "texts_b", "max_seq_length", "input_ids"),
    [
        ([[], []], [[], [6]], 16, [[2, 3, 0, 0], [2, 3, 6, 3]]),
        ([], [], 8, []),
        ([[7, 8, 9, 10]], [[]], 5, [[2, 7, 8, 9, 3]]),
    ],
)
def test_empty_and_long_texts(texts_a, texts_b, max_seq_length, input_ids):
    assert pack(texts_a, texts_b, max_seq_length)["input_ids"] == input_ids


@pytest.mark.parametrize("max_seq_length", range(5, 14))
def test_the_longer_text_loses_tokens_first(max_seq_length):
    sizes = np.array([(a, b) for a in range(12) for b in range(1, 12)])

    found = exported_text.truncated_sizes(
        tf.constant(sizes[:, 0], tf.int32),
        tf.constant(sizes[:, 1], tf.int32),
        max_seq_length,
    )

    expected = [pop_longest(a, b, max_seq_length - 3) for a, b in sizes]
    assert np.stack(found, 1).tolist() == expected


def pop_longest(size_a, size_b, room):
    """The loop of the original."""
    while size_a + size_b > room:
        if size_a > size_b:
            size_a -= 1
        else:
            size_b -= 1
    return [int(size_a), int(size_b)]
