"""What the files of tagging say, and what cannot be used."""

import json

import numpy as np
import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.example_files import rows_in_memory
from albert_tf.tasks.spec import DataRequest
from albert_tf.tasks.tagging import sets as sets_lib
from albert_tf.tasks.tagging.sets import TaggingConfig
from albert_tf.text.tokenizer import load_tokenizer

PARTS = ("start", "end", "label")
SPANS = [[0, 4, "PER"], [8, 12, "LOC"]]
OF_STUDIO = [
    {"start": a, "end": b, "labels": [kind], "text": "Anna in Rome"[a:b]}
    for a, b, kind in SPANS
]


@pytest.fixture(scope="module")
def tokenizer(tiny_spm_model):
    return load_tokenizer(spm_model_file=str(tiny_spm_model))


@pytest.fixture
def read(tokenizer, tmp_path):
    """Reads files by use, from their contents; returns the sets."""

    def run(weights=None, ending="conll", uses=None, **given):
        paths, settings = {}, {}
        for name, content in given.items():
            if name.split("_")[0] not in ("train", "eval", "predict"):
                settings[name] = content
                continue
            path = tmp_path / f"{name}.{ending}"
            path.write_bytes(content.encode())
            paths[f"{name}_file"] = str(path)
        return sets_lib.read_sets(
            TaggingConfig(**paths, **settings),
            DataRequest(
                uses=uses or [name.removesuffix("_file") for name in paths],
                tokenizer=tokenizer,
                max_seq_length=16,
                weights=weights or Checkpoint(),
            ),
        )

    return run


def found(examples):
    return [(one.strings, one.tags) for one in examples.examples]


EXPECTED = [
    (["Anna", "in", "Rome"], ["B-PER", "O", "B-LOC"]),
    (["Snow"], ["O"]),
]


@pytest.mark.parametrize(
    "content",
    [
        "Anna\tB-PER\nin\tO\nRome\tB-LOC\n\nSnow\tO\n",
        "Anna B-PER\nin  O\nRome B-LOC\n\n\n\nSnow O",
        "Anna\tB-PER \nin\tO\nRome \tB-LOC\n\nSnow\tO\n",
        "\ufeffAnna NN B-PER\r\nin IN O\r\nRome NN B-LOC\r\n\t\r\n"
        "Snow NN O\r\n",
        # A comment has other columns than the words.
        "# id = 1 2\nAnna\tNN\tB-PER\nin\tIN\tO\nRome\tNN\tB-LOC\n\n"
        "# id = 2\nSnow\tNN\tO\n",
        "-DOCSTART- O\n\nAnna\tB-PER\nin\tO\nRome\tB-LOC\n"
        "-DOCSTART- O\nSnow\tO\n \n",
    ],
)
def test_conll(content, read):
    sets = read(train=content)

    assert found(sets.train) == EXPECTED
    assert sets.data.labels == ("O", "B-LOC", "B-PER")


def lines(*rows):
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize(
    "rows",
    [
        [{"tokens": words, "tags": tags} for words, tags in EXPECTED],
        [
            {"tokens": ["Anna", "in", "Rome"], "tags": [2, 0, 1]},
            {"tokens": ["Snow"], "tags": [0]},
        ],
        [
            {
                "text": "Anna  in Rome",
                "entities": [
                    {"start": 9, "end": 13, "label": "LOC"},
                    {"start": 0, "end": 4, "label": "PER"},
                ],
            },
            {"text": "Snow", "entities": []},
        ],
        [
            {
                "text": "Anna in Rome",
                "entities": [[0, 4, "PER"], [8, 12, "LOC"]],
            },
            {"text": "Snow", "entities": []},
        ],
        # doccano, and as it was; spaCy and Prodigy; Label Studio, and in
        # short; transformers.
        [
            {
                "text": "Anna in Rome",
                "entities": [
                    {"start_offset": 0, "end_offset": 4, "label": "PER"},
                    {"start_offset": 8, "end_offset": 12, "label": "LOC"},
                ],
                "relations": [],
            },
            {"text": "Snow", "entities": [], "relations": []},
        ],
        [
            {"text": "Anna in Rome", "label": SPANS},
            {"text": "Snow", "labels": []},
        ],
        [
            {
                "text": "Anna in Rome",
                "tokens": [{"text": "Anna", "start": 0, "end": 4}],
                "spans": [
                    dict(zip(PARTS, span, strict=True)) for span in SPANS
                ],
                "answer": "accept",
                "label": "PER",
            },
            {"text": "Snow", "tokens": [], "ents": []},
        ],
        [
            {
                "data": {"text": "Anna in Rome"},
                "annotations": [
                    {"was_cancelled": True, "result": []},
                    {
                        "result": [
                            {"type": "relation"},
                            *({"value": span} for span in OF_STUDIO),
                        ]
                    },
                ],
            },
            {"data": {"text": "Snow"}, "annotations": [{"result": []}]},
        ],
        [
            {"text": "Anna in Rome", "label": OF_STUDIO},
            {"text": "Snow", "label": []},
        ],
        [
            {"tokens": ["Anna", "in", "Rome"], "ner_tags": [2, 0, 1]},
            {"words": ["Snow"], "labels": [0]},
        ],
    ],
)
def test_lines_of_json(rows, read, caplog):
    labels = ("O", "B-LOC", "B-PER")

    sets = read(train=lines(*rows), ending="jsonl", labels=labels)

    assert found(sets.train) == EXPECTED
    assert "entities" not in caplog.text


def test_a_file_of_json_may_be_one_list(read):
    rows = [
        {"text": "Anna in Rome", "label": OF_STUDIO},
        {"text": "Snow", "label": []},
    ]

    sets = read(train=json.dumps(rows, indent=1), ending="json")

    assert found(sets.train) == EXPECTED


@pytest.mark.parametrize("number", [np.int64, np.uint8, str])
def test_numbers_of_tags_are_of_any_type(number, tokenizer):
    request = DataRequest(
        uses=["train"],
        tokenizer=tokenizer,
        max_seq_length=16,
        weights=Checkpoint(),
        given_examples={
            "train": rows_in_memory(
                "rows",
                [
                    {
                        "tokens": np.array(words, object),
                        "tags": [
                            number(("O", "B-LOC", "B-PER").index(t))
                            for t in tags
                        ],
                    }
                    for words, tags in EXPECTED
                ],
            )
        },
    )

    sets = sets_lib.read_sets(
        TaggingConfig(labels=("O", "B-LOC", "B-PER")), request
    )

    assert found(sets.train) == EXPECTED


@pytest.mark.parametrize(
    ("start", "stated", "word"),
    [(5, "Ann", 2), (3, "ann", 2), (0, "Rome", 4), (11, "Ann", 5)],
)
def test_an_entity_is_where_its_text_is(start, stated, word, read, caplog):
    # Counted in UTF-16, "Ann" would be at 5.
    text = "\U0001f600\U0001f680 Ann in Rome Ann"
    mark = {"start": start, "end": start + 3, "label": "X", "text": stated}

    sets = read(train=lines({"text": text, "entities": [mark]}), ending="jsonl")

    [(words, tags)] = found(sets.train)
    assert tags == ["B-X" if i == word else "O" for i in range(len(words))]
    is_moved = "1 entities are moved to where their texts are" in caplog.text
    assert is_moved == (start != 3)


def test_sentences_that_are_taken_for_columns_are_told(read, caplog):
    read(train="a B-A\nb O", predict="Ann saw Rome.\nTom saw Bonn.")

    assert "2 words have tags that are none of these" in caplog.text
    assert "'Rome.' (1), 'Bonn.' (1)" in caplog.text


@pytest.mark.parametrize("tag", ["PER-B", "B_PER", "b-per", "PER"])
def test_tags_that_mark_no_entities_are_told(tag, read, caplog):
    read(train=f"a {tag}\nb O")

    assert f"Because of the tags '{tag}', they are plain" in caplog.text


def test_entities_that_overlap_or_cut_words_are_told(read, caplog):
    # Characters are code points; the third entity is the second again.
    text = "\U0001f600 Annabel Lee in Rome"
    marks = [[2, 6, "PER"], [17, 21, "LOC"], [17, 21, "ORG"], [6, 6, "X"]]

    sets = read(train=lines({"text": text, "entities": marks}), ending="jsonl")

    [(words, tags)] = found(sets.train)
    assert words == ["\U0001f600", "Annabel", "Lee", "in", "Rome"]
    assert tags == ["O", "B-PER", "O", "O", "B-LOC"]
    assert "1 entities end within words" in caplog.text
    assert "PER at 2:6. Of each kind: PER (1)" in caplog.text
    assert "2 entities overlap others, or no word" in caplog.text
    assert "X at 6:6, ORG at 17:21. Of each kind: X (1), ORG (1)" in caplog.text


@pytest.mark.parametrize(
    ("rows", "kind", "expected"),
    [
        (
            [{"tokens": [*"ab c"], "tags": ["B-X", *"OOO"]}],
            "characters",
            "B-X O O O",
        ),
        # Fewer entities end within words if marks are apart.
        (
            [{"text": "Ann-Lee it", "entities": [[0, 3, "X"], [4, 7, "X"]]}],
            "apart",
            "B-X O B-X O",
        ),
        (
            [{"text": "Ann-Lee it", "entities": [[0, 2, "X"]]}],
            "spaced",
            "B-X O",
        ),
        (
            [{"text": "เขาไป", "entities": [[3, 5, "X"]]}],
            "spaced",
            "O O O B-X I-X",
        ),
    ],
)
def test_the_training_file_tells_what_a_word_is(rows, kind, expected, read):
    sets = read(train=lines(*rows), eval=lines(*rows), ending="jsonl")

    assert sets.data.settings["words"] == kind
    assert sets.evaluation[0].examples[0].tags == expected.split()


def test_tags_that_the_training_lacks_are_told(read, caplog):
    sets = read(train="a B-A\nb O", eval="a B-A\nb B-C\nc B-C")

    assert sets.data.labels == ("O", "B-A")
    assert "2 words have tags that are none of these" in caplog.text
    assert "'B-C' (2)" in caplog.text
    assert (
        "few words to rely on have the tags 'B-A' (1), 'O' (1)" in caplog.text
    )
    [record] = sets.evaluation[0].data.records(
        sets.evaluation[0].examples, is_training=False
    )
    assert sorted(record["tag_ids"])[-1] == 1
    assert sum(record["tag_ids"] >= 0) == 1


def test_a_share_is_held_out_and_a_file_to_predict_needs_no_tags(read):
    rows = [f"w{i} B-A\nis O\n" for i in range(10)]

    sets = read(
        uses=["train", "eval", "predict"],
        train="\n".join(rows),
        predict="only\nwords\n",
        validation_share=0.3,
    )

    assert len(sets.evaluation[0].examples) == 3
    assert sets.data.settings["validation"][:2] == [0.3, 0]
    assert found(sets.prediction[0]) == [(["only", "words"], None)]
    # Unknown words have the most frequent tag.
    assert sets.data.dictionary[""] in ("O", "B-A")


def test_without_training_tags_are_those_of_the_weights(read):
    known = Metadata(labels=("O", "I-A"), settings={"words": "spaced"})

    sets = read(Checkpoint(metadata=known), eval="a I-A\nb O")

    assert (sets.data.labels, sets.data.words) == (("O", "I-A"), "spaced")


NUMBERS = lines({"tokens": ["a"], "tags": [1]})
COLUMNS = "line 3 has 3 columns, the first line 2"


@pytest.mark.parametrize(
    ("content", "ending", "message"),
    [
        ("", "conll", "has no examples"),
        (" \n\n", "conll", "has no examples"),
        ("a O\n\nb c O", "conll", COLUMNS),
        ("a\tO\nb\t", "conll", "line 2: a tag is empty"),
        ("#a\tO\n#b", "conll", "line 2 has 1 columns, the first line 2"),
        ("1\ta\tO\n2\tb\tB-A", "conll", "the first column has only numbers"),
        ("1 a O\n1-2 b O\n2.1 c O", "conll", "numbers.*--word_column=2"),
        ("a\nb\n", "conll", "line 1: .* it has no tags. Each line"),
        ("a O\nb O\n", "conll", "must be several tags, all different, not O"),
        ("a\0 O\n", "conll", "is not a text file"),
        (NUMBERS, "jsonl", "line 1: .*the tag 1 needs a name in --labels"),
        (lines({"tokens": ["a"]}), "jsonl", "line 1: .* it has no tags"),
        (lines({"tokens": ["a"], "tags": []}), "jsonl", "not as many tags"),
        (lines({"tokens": [1], "tags": ["O"]}), "jsonl", "1 is no text"),
        (lines({"tokens": ["a"], "tags": [""]}), "jsonl", "a tag is empty"),
        (lines({"words": ["a"]}), "jsonl", "line 1: .*It must have `tokens`"),
        (lines({"text": "a", "label": "x"}), "jsonl", "it has no tags"),
        (
            lines({"text": "a", "spans": [], "label": []}),
            "jsonl",
            "spans and label may be the tags: keep one",
        ),
        (
            lines({"text": "a", "spans": [], "answer": "reject"}),
            "jsonl",
            "Prodigy's answer is 'reject': leave such rows out",
        ),
        (
            lines({"data": {"text": "a"}, "annotations": [{"result": []}] * 2}),
            "jsonl",
            "several annotations: keep one",
        ),
        (
            lines({"text": "a", "entities": [{"start": 0, "stop": 1}]}),
            "jsonl",
            "an entity has only start, stop",
        ),
        (
            lines({"text": "ab", "label": [OF_STUDIO[0]]}),
            "jsonl",
            "the text has no 'Anna', an entity",
        ),
        (lines({"tokens": "a", "tags": ["O"]}), "jsonl", "a text is no list"),
        (
            lines({"text": "a", "entities": [[0, 2, "A"]]}),
            "jsonl",
            "is no part of the text",
        ),
        (
            lines({"text": "a", "entities": [[0, 1]]}),
            "jsonl",
            r"not enough values.*`entities` \(start, end, label\)",
        ),
    ],
)
def test_what_cannot_be_trained_on(content, ending, message, read):
    with pytest.raises(ValueError, match=message):
        read(train=content, ending=ending)


def test_columns_are_named_and_a_file_to_predict_may_be_raw_text(read):
    sets = read(
        ending="txt",
        train="1 a B-A x\n2 b O x",
        predict="Tom saw Bonn.",
        uses=["train"],
        word_column=2,
        tag_column=3,
    )

    assert found(sets.train) == [(["a", "b"], ["B-A", "O"])]
    sets = read(ending="txt", train="aa B-A\nb O", predict="Tom saw Bonn.")
    assert found(sets.prediction[0]) == [(["Tom", "saw", "Bonn", "."], None)]


def test_where_there_is_no_file_or_no_tags(read, tmp_path):
    with pytest.raises(FileNotFoundError, match="none of train.conll"):
        read(uses=["train"], data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="not .none.. Pass .* or --labels"):
        read(predict="a\n")
