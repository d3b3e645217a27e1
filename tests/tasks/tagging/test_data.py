import functools
import json

import numpy as np
import pytest

from albert_tf.metrics.entities import entity_scores
from albert_tf.metrics.scores import Scores
from albert_tf.observers import simple_alternative
from albert_tf.tasks.tagging import data as data_lib
from albert_tf.tasks.tagging import decoding
from albert_tf.tasks.tagging import words as words_lib
from albert_tf.tasks.task_data import ExampleSet
from albert_tf.text.base import WORDPIECE_NAMES
from albert_tf.text.tokenizer import load_tokenizer
from tests.tasks.writing import write_predictions

LABELS = ("O", "B-PER", "I-PER", "B-LOC")


@pytest.fixture(scope="module")
def tokenizer(tiny_spm_model):
    return load_tokenizer(spm_model_file=str(tiny_spm_model))


@pytest.fixture(scope="module")
def tiny_wordpiece(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    letters = [*"abcdefghijklmnopqrstuvwxyz½人"]
    pieces = letters + [f"##{letter}" for letter in letters]
    path.write_text("\n".join([*WORDPIECE_NAMES, *pieces]), encoding="utf-8")
    return load_tokenizer(vocab_file=str(path))


@pytest.fixture(scope="module")
def make_data(tokenizer):
    return functools.partial(
        data_lib.TaggingData,
        tokenizer=tokenizer,
        max_seq_length=16,
        labels=LABELS,
        words=words_lib.SPACED,
    )


def outputs_of(data, examples, tag_ids):
    """Outputs that give each word a tag, or `O` where it has no token."""
    logits = []
    for one, own in zip(examples, tag_ids, strict=True):
        for ids, words, places in data._windows(one.words):
            rows = np.zeros((len(ids) + 2, len(data.labels)), np.float32)
            rows[places, np.array(own, int)[words]] = 9
            logits.append(rows)
    return {"logits": logits}


ANNA = ("Anna", "sat", "", "\u200b", "in", "Rome")
TAGS = ("B-PER", "O", "O", "O", "O", "B-LOC")


def test_the_first_token_of_a_word_has_its_tag(make_data, tokenizer):
    data = make_data()
    one = data.example("1", ANNA, tags=TAGS)

    [record] = data.records([one], is_training=True)

    ids = [tokenizer.encode(word) for word in ANNA]
    starts = 1 + np.cumsum([0, *map(len, ids)])
    own = [s for s, tokens in zip(starts, ids, strict=False) if tokens]
    assert record["input_ids"][1:-1].tolist() == sum(ids, [])
    found = np.flatnonzero(record["tag_ids"] >= 0)
    assert found.tolist() == own
    assert record["tag_ids"][found].tolist() == [1, 0, 0, 3]


def test_of_windows_each_word_is_in_one_where_its_context_is_long(make_data):
    data = make_data(max_seq_length=8)  # of 6 tokens
    words = [*"abcdefghijklmnopqrstuvwxyz"]
    one = data.example("1", words, tags=["B-PER"] * len(words))
    num_tokens = len(one.words.ids)

    records = [*data.records([one], is_training=False)]

    starts = range(0, num_tokens - 3, 3)
    assert len(records) == len(starts)
    assert sum(np.sum(r["tag_ids"] == 1) for r in records) == len(words)
    assert data.words_per_record([one]) * len(records) == len(words)
    for record, start in zip(records, starts, strict=True):
        for place in np.flatnonzero(record["tag_ids"] == 1):
            token = start + place - 1
            shorter = min(place - 1, 6 - place)
            others = (min(token - s, s + 5 - token) for s in starts)
            assert shorter == max(others)


SENTENCES = (
    [],
    [""],
    ["\u200b", "\ufe0f", "\u0301"],
    ["x"] * 2000,
    ["\U0001f469\u200d\U0001f467", "e\u0301\u0301", "½", "ﬁ", " ", "a b"],
    [*"中国人民"],
)


def random_sentences(rng, number):
    pool = [word for words in SENTENCES for word in words[:6]] + [*ANNA]
    for _ in range(number):
        size = rng.integers(0, 12)
        yield [pool[i] for i in rng.integers(0, len(pool), size)]


@pytest.mark.parametrize("kind", ["spm", "wordpiece"])
def test_as_many_words_come_out_as_go_in(make_data, kind, tiny_wordpiece):
    data = make_data()
    if kind == "wordpiece":
        data = make_data(tokenizer=tiny_wordpiece)
    rng = np.random.default_rng(1)
    sentences = [*SENTENCES, *random_sentences(rng, 300)]
    examples = [
        data.example(str(i), words) for i, words in enumerate(sentences)
    ]
    tag_ids = [rng.integers(0, 4, len(words)) for words in sentences]
    outputs = outputs_of(data, examples, tag_ids)
    records = [*data.records(examples, is_training=False)]

    answers = [*data.answers(examples, outputs)]

    assert [len(r["input_ids"]) for r in records] == [
        len(rows) for rows in outputs["logits"]
    ]
    for words, own, answer in zip(sentences, tag_ids, answers, strict=True):
        assert len(answer["tags"]) == len(words)
        for word, tag_id, tag in zip(words, own, answer["tags"], strict=True):
            has_token = bool(data.tokenizer.encode(word))
            assert tag == (LABELS[tag_id] if has_token else "O")


def test_entities_are_where_they_are_in_the_raw_text(make_data):
    data = make_data()
    text = "Café:  Anna Zoë\tsat (Rome)."
    words = ["Café", ":", "Anna", "Zoë", "sat", "(", "Rome", ")", "."]
    one = data.example("1", text)

    assert one.strings == words
    outputs = outputs_of(data, [one], [[0, 0, 1, 2, 0, 0, 3, 0, 0]])
    [answer] = data.answers([one], outputs)

    score = pytest.approx(1, abs=1e-2)
    assert answer == {
        "entities": [
            {
                "label": label,
                "text": part,
                "start": text.index(part),
                "end": text.index(part) + len(part),
                "score": score,
            }
            for label, part in (("PER", "Anna Zoë"), ("LOC", "Rome"))
        ]
    }


def test_a_raw_text_has_the_words_of_its_characters(make_data):
    data = make_data(words=words_lib.CHARACTERS)
    text = "An old 人\n."

    raw, given = data.example("1", text), data.example("1", [*text])

    assert raw.strings == given.strings
    assert raw.words.ids.tolist() == given.words.ids.tolist()
    assert raw.words.token_splits.tolist() == given.words.token_splits.tolist()


@pytest.mark.parametrize(
    ("labels", "tags", "expected"),
    [
        (("U-PER", "O"), "00", [("PER", 0, 1), ("PER", 1, 2)]),
        (("O", "PER"), "1101", [("PER", 0, 2), ("PER", 3, 4)]),
        (
            ("NOUN", "VERB"),
            "001",
            [("NOUN", 0, 1), ("NOUN", 1, 2), ("VERB", 2, 3)],
        ),
    ],
)
def test_entities_of_other_schemes(labels, tags, expected):
    names = [labels[int(i)] for i in tags]

    assert decoding.find_entities(names, labels) == expected


def test_scores_a_dictionary_and_a_report(make_data):
    data = make_data()
    examples = [
        data.example("1", ANNA, tags=TAGS),
        data.example("2", ("Anna", "Anna"), tags=("O", "B-PER")),
    ]
    outputs = outputs_of(data, examples, [[1, 0, 0, 0, 0, 1], [0, 1]])

    scores = data.scores(examples, outputs)
    known = make_data(dictionary=data_lib.dictionary_of(examples[:1]))

    # Anna twice, but Rome is no person.
    assert scores.flat() == pytest.approx(
        {
            "f1": 2 / 3,
            "precision": 2 / 3,
            "recall": 2 / 3,
            "accuracy": 7 / 8,
            "f1_of_LOC": 0,
            "precision_of_LOC": 0,
            "recall_of_LOC": 0,
            "number_of_LOC": 1,
            "f1_of_PER": 0.8,
            "precision_of_PER": 2 / 3,
            "recall_of_PER": 1,
            "number_of_PER": 2,
        }
    )
    of_rows = data.score_of_rows(examples, outputs, scores)
    assert of_rows(np.array([0, 1])) == pytest.approx(2 / 3)
    assert of_rows(np.array([1, 1])) == 1
    # The dictionary finds three right ones, and one too many.
    assert known.baselines(examples) == {"f1": pytest.approx(6 / 7)}
    assert data.baselines(examples) == {}
    plain = make_data(labels=("O", "PER", "PERSON", "LOC"))
    assert plain.scores(examples, outputs).flat() == {"accuracy": 5 / 8}
    of_words = plain.score_of_rows(examples, outputs, scores)
    assert of_words(np.array([0, 1])) == 5 / 8
    of_kinds, kinds, texts = data.report_sections(examples, outputs, scores)
    assert of_kinds["rows"][0] == ("LOC", "0", "0", "0", "1")
    assert kinds["rows"][0] == ("LOC", "0", "0", "1")
    assert texts["rows"] == [("1", " ".join(ANNA), "Rome: B-PER, not B-LOC")]


def test_words_with_tokens_have_labels_that_may_be_wrong(make_data):
    data = make_data()
    examples = [
        data.example("1", ANNA, tags=TAGS),
        data.example("2", ("Anna", "Rome"), tags=("B-PER", "unknown")),
    ]
    outputs = outputs_of(data, examples, [[1, 0, 0, 0, 0, 1], [1, 0]])

    [found] = data.labelled(examples, outputs, Scores())

    assert [*found.words] == ["Anna", "sat", "in", "Rome", "Anna"]
    assert found.examples.tolist() == [0, 0, 0, 0, 1]
    assert [data.labels[i] for i in found.labels] == [
        *("B-PER", "O", "O", "B-LOC", "B-PER")
    ]
    right = np.exp(9) / (np.exp(9) + len(LABELS) - 1)
    assert found.probabilities[3, 1] == pytest.approx(right)


def test_the_dictionary_of_a_fold_is_of_the_others(make_data):
    words = ("Anna", "in")
    data = make_data()
    examples = [
        data.example("1", words, tags=("B-PER", "O")),
        data.example("2", words, tags=("B-PER", "O")),
        data.example("3", ("Rome", "in"), tags=("B-LOC", "O")),
    ]

    of_all = data.of_training(examples)

    # It has seen Rome; the dictionary of the fold without it has not.
    assert of_all.baselines(examples) == {"f1": 1}
    of_folds = of_all.of_folds((0, 1, 1)).baselines(examples)
    assert of_folds["f1"] < 1
    assert data.texts_of(examples[0]) == "Anna in"


def test_plain_tags_are_kinds_of_their_own_in_the_report(make_data):
    data = make_data(labels=("O", "art-other", "event-other"))
    one = data.example("1", ["a", "b"], tags=("art-other", "event-other"))
    outputs = outputs_of(data, [one], [[1, 1]])

    _, kinds, _ = data.report_sections(
        [one], outputs, data.scores([one], outputs)
    )

    assert kinds["header"] == ("", "art-other", "event-other")
    assert kinds["rows"] == [("art-other", "1", "0"), ("event-other", "1", "0")]


@pytest.mark.parametrize(
    "labels",
    [
        ("O", "B-X", "I-X", "L-X", "U-X"),
        ("O", "B-X", "M-X", "E-X", "S-X"),
        ("O", "B-X", "I-X", "E-X", "S-X"),
        ("O", "B-X", "I-X"),
    ],
)
def test_a_run_scores_as_entity_scores_do(labels, make_data):
    data = make_data(labels=labels)
    rng = np.random.default_rng(0)
    true, found = rng.integers(0, len(labels), (2, 20, 9))
    names = [[labels[i] for i in row] for row in true]
    examples = [data.example("1", [*"abcdefghi"], tags=row) for row in names]
    outputs = outputs_of(data, examples, found)

    scores = data.scores(examples, outputs)

    tags = [answer["tags"] for answer in data.answers(examples, outputs)]
    assert scores.flat() == entity_scores(names, tags)


def test_predictions_have_the_words_of_the_file(make_data, tmp_path):
    data = make_data()
    examples = [
        data.example("1", ANNA),
        data.example("9", "Anna sat."),
    ]
    outputs = outputs_of(data, examples, [[1, 0, 1, 1, 0, 3], [1, 0, 0]])

    write_predictions(data, examples, outputs, tmp_path)

    lines = (tmp_path / "predictions.conll").read_text().split("\n")
    assert lines == [
        "Anna\tB-PER",
        "sat\tO",
        "\tO",
        "\u200b\tO",
        "in\tO",
        "Rome\tB-LOC",
        "",
        "Anna\tB-PER",
        "sat\tO",
        ".\tO",
        "",
        "",
    ]
    rows = (tmp_path / "predictions.jsonl").read_text().splitlines()
    first, second = map(json.loads, rows)
    assert (first["id"], second["id"]) == ("1", "9")
    assert first["tags"] == [*TAGS]
    assert [one["text"] for one in second["entities"]] == ["Anna"]


def test_a_simple_model_of_words_gives_tags_that_are_legal(make_data):
    data = make_data(max_seq_length=8, rules={"scheme": "IOB2"})  # windows
    tags = ("B-PER", "I-PER", "O", "O", "B-LOC", "O")
    train = [
        data.example(str(i), (a, b, "lives", "in", place, "."), tags=tags)
        for i, (a, b, place) in enumerate(
            zip(
                ("Anna", "Bea", "Carl", "Dora") * 3,
                ("Berg", "Stern", "Blume") * 4,
                ("Rome", "Paris", "Bonn") * 4,
                strict=True,
            )
        )
    ]
    asked = [
        data.example(
            "1", ("Anna", "Stern", "lives", "in", "Paris", "."), tags=tags
        ),
        data.example("2", ("in", "Rome"), tags=("O", "B-LOC")),
    ]
    sets = [ExampleSet(examples=rows, data=data) for rows in (train, asked)]

    outputs = simple_alternative.with_outputs({}, *sets)
    scores = data.scores(asked, {"logits": outputs["linear"]})
    more = simple_alternative.SimpleAlternative().additional_scores(
        sets[1], outputs, scores
    )

    records = [*data.records(asked, is_training=False)]
    assert len(outputs["linear"]) == len(records) > len(asked)
    assert scores["f1"] == 1
    assert {score.key for score in more} == {
        "f1_linear",
        "precision_linear",
        "recall_linear",
        "accuracy_linear",
    }
