"""Graph and Python give the same ids and offsets: on everything."""

import json

import pytest
import tensorflow as tf

from albert_tf.export import exported_text
from albert_tf.export.exported_text import ExportedText

TEXTS = tf.constant(["The house.", "", "Café ½"])


def test_the_tokens_are_the_same(tiny):
    served = ExportedText(tiny.graph)

    for with_offsets in (False, True):
        found = served(TEXTS, with_offsets=with_offsets)
        expected = tiny.graph(TEXTS, with_offsets=with_offsets)
        for name in ("ids", "row_ids", "num_rows", "starts", "ends"):
            ours, theirs = getattr(found, name), getattr(expected, name)
            if theirs is None:
                assert ours is None
            else:
                assert ours.numpy().tolist() == theirs.numpy().tolist()
    assert served.tokens == tiny.graph.tokens
    assert served.special_ids == tiny.graph.special_ids


def test_a_graph_that_uses_it_twice_has_it_once(tiny):
    def num_nodes(times):
        served = ExportedText(tiny.graph)

        @tf.function(autograph=False)
        def call(texts):
            return [served(texts).ids for _ in range(times)]

        spec = tf.TensorSpec([None], tf.string)
        graph = call.get_concrete_function(spec).graph.as_graph_def()
        return sum(len(f.node_def) for f in graph.library.function)

    assert num_nodes(2) == num_nodes(1)


# To trace one takes seconds; ids of the cased ones are compared below, too.
VOCABULARIES = [
    "english",
    "chinese",
    pytest.param("cased_english", marks=pytest.mark.slow),
    pytest.param("cased_chinese", marks=pytest.mark.slow),
]
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
def test_hard_cases(name, request):
    assert request.getfixturevalue(name).differences(HARD_CASES) == []


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_random_texts(name, request, text_maker):
    texts = text_maker.many("hard", 2_000, seed=1)
    texts += text_maker.many("plain", 1_000, seed=2)

    assert request.getfixturevalue(name).differences(texts) == []


@pytest.mark.parametrize("name", ["english", "chinese", "cased_chinese"])
def test_every_assigned_code_point(name, request, text_maker):
    assigned = "".join(text_maker.pools[0])
    texts = [assigned[i : i + 64] for i in range(0, len(assigned), 64)]

    assert request.getfixturevalue(name).id_differences(texts) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cased_english", "cased_chinese"])
def test_random_cased_texts(name, request, text_maker):
    texts = text_maker.many("hard", 20_000, seed=3)

    assert request.getfixturevalue(name).differences(texts) == []


@pytest.mark.parametrize(
    ("names", "file"),
    [
        (("cased_english", "english"), "sentencepiece.json"),
        (("cased_chinese", "chinese"), "wordpiece_zh.json"),
    ],
)
def test_what_the_original_gave(names, file, request, shared_data):
    path = shared_data / "golden" / "tokenization" / file
    recorded = json.loads(path.read_text())

    for do_lower_case, name in enumerate(names):
        cases = [c for c in recorded if c["do_lower_case"] == do_lower_case]
        found = request.getfixturevalue(name).encode(
            [case["text"] for case in cases]
        )
        assert cases
        assert found == [case["ids"] for case in cases]


def test_a_vocabulary_of_ones_own(tiny, text_maker):
    texts = HARD_CASES + text_maker.many("hard", 500, seed=4)

    assert tiny.differences(texts) == []


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_bytes_that_are_not_utf_8_count_as_replacements(name, request):
    graph = request.getfixturevalue(name)
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
def test_texts_of_100_000_characters(name, request):
    texts = [character * 100_000 for character in "e 漢\u0301"]
    texts += ["short", "", "the end " * 12_500]

    assert request.getfixturevalue(name).differences(texts) == []


def test_no_texts(tiny):
    assert tiny.encode([]) == []
    assert tiny.encode_with_offsets([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["english", "chinese"])
def test_a_million_random_and_20_000_hard_texts(
    name, request, text_maker, all_code_points
):
    graph = request.getfixturevalue(name)

    for seed in range(50):
        texts = text_maker.many("plain", 20_000, seed=1_000 + seed)
        assert graph.differences(texts) == []
    hard_texts = text_maker.many("hard", 20_000, seed=2_000)
    assert graph.differences(hard_texts) == []
    assert graph.differences(all_code_points) == []


def test_no_vocabulary():
    with pytest.raises(ValueError, match="No vocabulary is given. Pass"):
        exported_text.load_text_graph()
