"""Text in, answers out: forms of inputs, heads without a task, refusals.

The tests of the commands compare answers with the files of `--do_predict`.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import json
import multiprocessing
import pickle
import shutil
import sys

import numpy as np
import pyarrow
import pytest
import scipy.special
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import huggingface
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.devices import engine
from albert_tf.modeling.operations import Operations
from tests.checkpoints.weights import weights_of, write_sentence_transformers
from tests.exported_models import TINY_CONFIG, write_checkpoint

CONFIG = dataclasses.replace(TINY_CONFIG, initializer_range=0.5)
TEXTS = ["A house.", "", "The cat sat on the mat. " * 9, "half ½"]


@pytest.fixture
def load(tmp_path, tiny_spm_model):
    """Writes a model as a checkpoint, and loads it as a predictor."""

    def make(
        model,
        known=None,
        vocabulary=tiny_spm_model,
        given=None,
        name="model",
        **options,
    ):
        folder = tmp_path / name
        write_checkpoint(
            folder,
            model,
            vocabulary=vocabulary and str(vocabulary),
            metadata=known or Metadata(),
        )
        return albert_tf.load_predictor(folder, **options | (given or {}))

    return make


@pytest.fixture
def classify(load):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    return load(model, Metadata(labels=("ham", "spam")))


def test_one_input_a_list_an_iterator_and_a_dataset(classify):
    one_by_one = [classify.predict(text) for text in TEXTS]

    assert {*one_by_one[0]} == {"prediction", "probabilities"}
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    for many in (TEXTS, (text for text in TEXTS), dataset):
        answers = classify.predict(many)
        assert isinstance(answers, list) == (many is TEXTS)
        for one, other in zip(answers, one_by_one, strict=True):
            assert one["prediction"] == other["prediction"]
            for label, value in one["probabilities"].items():
                assert value == pytest.approx(other["probabilities"][label])
    assert classify.predict([]) == []
    assert classify.predict(tf.constant(TEXTS[0])) == one_by_one[0]


def test_a_pickled_predictor_is_loaded_again(load):
    made = load(
        albert_tf.ClassifierModel(CONFIG, num_labels=2), given={"depth": 1}
    )

    again = pickle.loads(pickle.dumps(made))

    assert again.predict(TEXTS) == made.predict(TEXTS)


def test_a_pickled_predictor_holds_in_another_directory(
    load, tmp_path, monkeypatch
):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    load(model)
    expected = load(model, name="other").predict("a cat")
    monkeypatch.chdir(tmp_path)
    one = albert_tf.load_predictor("model")
    both = albert_tf.load_predictor(["model", "other"])
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    assert pickle.loads(pickle.dumps(one)).predict("a cat") == expected
    assert pickle.loads(pickle.dumps(both)).predict("a cat") == expected


def test_a_program_without_stderr_gets_answers(classify, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)

    assert classify.predict("a cat")["prediction"] in ("ham", "spam")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_says_what_to_do(classify):
    classify.predict("a")
    reader, writer = multiprocessing.Pipe()

    def answer():
        try:
            classify.predict("a")
        except RuntimeError as error:
            writer.send(str(error))

    child = multiprocessing.get_context("fork").Process(target=answer)
    child.start()

    assert reader.poll(timeout=60)
    assert (
        "Load it in each process: gunicorn without --preload" in reader.recv()
    )
    child.join()


def test_a_model_that_was_changed_after_an_answer(classify):
    before = classify.predict("A house.")
    classify.model.albert.enable_lora(2)
    for variable in classify.model.trainable_variables:
        if "lora" in variable.path:
            variable.assign(np.ones(variable.shape))

    assert classify.predict("A house.") != before


def test_threads_that_ask_first_change_no_model(classify, monkeypatch):
    num_compiled = []
    compiled = engine.compiled
    monkeypatch.setattr(
        engine, "compiled", lambda *a: num_compiled.append(1) or compiled(*a)
    )
    [layer, *_] = [
        layer
        for layer in classify.model._flatten_layers()
        if isinstance(getattr(layer, "operations", None), Operations)
    ]
    before = layer.operations

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(classify.predict, ["a cat"] * 4)]

    assert answers == [classify.predict("a cat")] * 4
    assert layer.operations is before
    assert len(num_compiled) == 1


def test_pairs_are_tuples_or_dicts(classify):
    pairs = [("a", "b"), {"text_a": "a", "text_b": "b"}, (b"a", b"b")]

    answers = [classify.predict(pair) for pair in pairs]

    assert answers[0] == answers[1] == answers[2]
    assert answers[0] != classify.predict("a")
    assert classify.predict({"text_a": "a"}) == classify.predict("a")


def test_several_labels_have_their_thresholds(load):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=3)
    known = Metadata(
        labels=("a", "b", "c"), multi_label=True, thresholds=(0.0, 0.999, 0.0)
    )

    [answer] = load(model, known).predict(["A house."])

    assert answer["prediction"] == ["a", "c"]
    assert {*answer["probabilities"]} == {"a", "b", "c"}


def test_the_training_decides_the_length(load):
    config = dataclasses.replace(CONFIG, max_position_embeddings=16)
    predictor = load(albert_tf.ClassifierModel(config, num_labels=2))

    assert predictor.predict("snow " * 99) == predictor.predict("snow " * 98)


def test_a_model_of_one_text_takes_no_pair(load):
    settings = {"text_columns": ["text"], "max_seq_length": 16}
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    predictor = load(model, Metadata(settings=settings))

    with pytest.raises(ValueError, match="trained on one text"):
        predictor.predict(("One.", "Two."))
    assert len(predictor.predict(["One.", "Two."])) == 2


@pytest.fixture
def of_table(load):
    """A predictor of pairs that was trained on two columns of a table."""
    settings = {"text_columns": ["title", "body"], "max_seq_length": 16}
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    return load(model, Metadata(settings=settings))


class PandasFrame:
    """Stands for the class of pandas, which is not installed."""

    columns = ("id", "body", "title")

    def to_dict(self, orient):
        assert orient == "records"
        return [{"id": 1, "body": "Two.", "title": np.int64(12)}]


@pytest.mark.parametrize(
    "rows",
    [
        PandasFrame(),
        pyarrow.table({"id": [1], "body": ["Two."], "title": [12]}),
        [{"id": 1, "body": "Two.", "title": 12}],
        # Without the names of the columns, as for every classifier.
        [{"text_a": "12", "text_b": "Two."}],
    ],
    ids=["pandas", "pyarrow", "dicts", "text_a"],
)
def test_rows_are_read_with_the_columns_of_the_training(rows, of_table):
    assert of_table.predict(rows) == [of_table.predict(("12", "Two."))]


def test_named_tuples_are_read_by_their_names(of_table, load):
    row_type = collections.namedtuple("Row", ["index", "body", "title"])
    other_type = collections.namedtuple("Other", ["first", "second"])
    expected = of_table.predict(("12", "Two."))

    assert of_table.predict(row_type(7, "Two.", 12)) == expected
    assert of_table.predict(other_type("12", "Two.")) == expected
    pair_type = collections.namedtuple("Pair", ["text_b", "text_a"])
    assert of_table.predict(pair_type("Two.", "12")) == expected
    squad = load(albert_tf.SpanModel(CONFIG), name="squad")
    question_type = collections.namedtuple("Asked", ["context", "question"])
    asked = question_type("The cat sat on the mat.", "Who sat?")
    assert squad.predict(asked) == squad.predict(asked._asdict())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"title": "A"}, "must have title, body, .* body is missing; the keys"),
        ({"title": "A", "body": None}, "Input 1: 'body' must be a string or"),
        ({"title": "A", "body": np.nan}, "Input 1: 'body' must be a string or"),
    ],
)
def test_a_row_without_a_text_is_one_clear_line(row, message, of_table):
    with pytest.raises(ValueError, match=message):
        of_table.predict([{"title": "A", "body": "B"}, row])


@pytest.mark.parametrize(
    ("make_model", "head", "item"),
    [
        (functools.partial(albert_tf.ClassifierModel, num_labels=1), "", "a"),
        (functools.partial(albert_tf.ClassifierModel, num_labels=2), "", "a"),
        (albert_tf.AlbertModel, "encoder", "a"),
        (albert_tf.MultipleChoiceModel, "multiple_choice", ("a", "b", "cd")),
        (albert_tf.PretrainingModel, "", ("The [MASK].", "It sat.")),
        (albert_tf.SpanModel, "", ("Who sat?", "The cat sat.")),
        (albert_tf.BeamSpanModel, "", ("Who sat?", "The cat sat.")),
        (
            functools.partial(albert_tf.TokenClassifierModel, num_labels=2),
            "token_classifier",
            ["The", "cat"],
        ),
    ],
)
def test_every_answer_is_json(make_model, head, item, load):
    if head == "multiple_choice":
        item = (*item[:2], [*item[2]])
    labels = ("B-x", "O") if isinstance(item, list) else None
    known = Metadata(head=head or None, labels=labels)

    [answer] = load(make_model(CONFIG), known).predict([item])

    assert answer and json.loads(json.dumps(answer)) == answer


def test_masks_and_order(load):
    # Its last outputs stand for no token of the vocabulary.
    config = dataclasses.replace(CONFIG, vocab_size=400)
    model = albert_tf.PretrainingModel(config)
    predictor = load(model)
    text = "The [MASK] sat[MASK]."

    answer = predictor.predict(text)
    pair = predictor.predict(("The cat.", "It sat."))

    tokenizer = predictor.tokenizer
    special = tokenizer.special_ids
    ids = tokenizer.encode_with_masks(text, "[MASK]")
    ids = [special.cls, *ids, special.sep]
    places = [i for i, one in enumerate(ids) if one == special.mask]
    outputs = model(
        {
            "input_ids": np.array([ids]),
            "masked_lm_positions": np.array([places]),
        }
    )
    logits = outputs["masked_lm_logits"][0, :, : tokenizer.vocab_size]
    probabilities = tf.nn.softmax(logits).numpy()
    assert [*map(len, answer["masks"])] == [5, 5]
    for mask, row in zip(answer["masks"], probabilities, strict=True):
        for one in mask:
            place = tokenizer.token_to_id(one["token"])
            assert one["probability"] == pytest.approx(row[place], rel=1e-4)
        assert mask[0]["probability"] == pytest.approx(row.max(), rel=1e-4)
    batch = tokenizer.batch(["The cat."], ["It sat."], max_seq_length=20)
    order = model(batch | {"masked_lm_positions": np.zeros((1, 1), int)})
    expected = tf.nn.softmax(order["sentence_order_logits"])[0, 0]
    assert pair == {"in_order": pytest.approx(float(expected), rel=1e-4)}


def test_vectors_equal_the_vectors_of_sentence_transformers(
    tmp_path, tiny_spm_model
):
    model = albert_tf.AlbertModel(CONFIG)
    source = Checkpoint(
        arrays=weights_of(model), config=CONFIG, vocabulary=str(tiny_spm_model)
    )
    huggingface.write(str(tmp_path), source)
    write_sentence_transformers(tmp_path, ["cls_token"], ["Normalize"])
    load = functools.partial(albert_tf.load_predictor, tmp_path)

    [found, plain] = (
        np.stack([one["vector"] for one in predictor.predict(TEXTS)])
        for predictor in (load(), load(pooling="mean", normalize=False))
    )

    batch = load().tokenizer.batch(TEXTS, max_seq_length=6)
    hidden = model(batch)["sequence_output"].numpy()
    first = hidden[:, 0] / np.linalg.norm(hidden[:, 0], axis=1, keepdims=True)
    np.testing.assert_allclose(found, first, atol=1e-5)
    mask = batch["input_mask"][:, :, None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(plain, mean, atol=1e-5)
    shutil.rmtree(tmp_path / "pool")
    write_sentence_transformers(tmp_path, ["max_tokens"])
    with pytest.raises(ValueError, match="one of mean, cls.*'max'"):
        load()


def test_texts_are_compared_by_the_cosines_of_their_vectors(load):
    predictor = load(albert_tf.AlbertModel(CONFIG), head="encoder")
    vectors = np.stack([one["vector"] for one in predictor.predict(TEXTS)])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= norms
    cosines, norms = vectors @ vectors.T, norms @ norms.T

    one = predictor.similarity(TEXTS[0], TEXTS[1])
    several = predictor.similarity(TEXTS, TEXTS[::-1])
    encoded = predictor.encode(TEXTS)
    nearest = predictor.nearest(TEXTS, TEXTS, k=2)

    assert one == pytest.approx(cosines[0, 1], abs=1e-5)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded @ encoded.T, norms * cosines, atol=1e-4)
    expected = cosines[range(len(TEXTS)), range(len(TEXTS))[::-1]]
    np.testing.assert_allclose(several, expected, atol=1e-5)
    alone = predictor.nearest(TEXTS[0], TEXTS, k=2)
    assert [x["index"] for x in alone] == [x["index"] for x in nearest[0]]
    for row, found in zip(cosines, nearest, strict=True):
        order = np.argsort(-row, kind="stable")[:2].tolist()
        assert found == [
            {"index": i, "text": TEXTS[i], "score": pytest.approx(row[i], 1e-4)}
            for i in order
        ]
    assert len(predictor.nearest(TEXTS[0], TEXTS, k=99)) == len(TEXTS)
    classifier = load(albert_tf.ClassifierModel(CONFIG, num_labels=2))
    with pytest.raises(ValueError, match='head="encoder"'):
        classifier.similarity("a", "b")


def test_vectors_that_were_not_trained_are_warned_of(load, caplog):
    model = albert_tf.AlbertModel(CONFIG)

    load(model, head="encoder")

    [message] = caplog.messages
    assert "nearly alike. Pass it to run_similarity.py" in message
    caplog.clear()
    load(model, Metadata(settings={"pooling": "mean"}), head="encoder")
    assert not caplog.messages


def test_vocabulary_labels_and_case_may_be_given(load, tiny_spm_model):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    given = {"vocabulary": str(tiny_spm_model), "do_lower_case": False}
    load_without = functools.partial(load, model, vocabulary=None)

    cased, lower = (
        load_without(
            given=given | {"do_lower_case": is_lower, "labels": ["no", "yes"]}
        ).predict("A HOUSE")["probabilities"]
        for is_lower in (False, True)
    )

    assert [*cased] == ["no", "yes"]
    assert cased != lower
    with pytest.raises(ValueError, match="names 3 labels .* in Python labels"):
        load_without(given=given | {"labels": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="texts that differ from one another"):
        load_without(given=given | {"labels": ["no", "no"]})
    with pytest.raises(ValueError, match="in Python vocabulary"):
        load_without()


@pytest.mark.parametrize("labels", ["xy", {"x", "y"}], ids=["text", "set"])
def test_labels_without_an_order_are_refused(labels, load):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)

    with pytest.raises(ValueError, match="`labels` must be a list of texts"):
        load(model, labels=labels)


def test_vectors_have_no_unclear_settings_and_an_order(load):
    model = albert_tf.AlbertModel(CONFIG)

    with pytest.raises(ValueError, match="`normalize` must be true or false"):
        load(model, head="encoder", normalize="no")
    with pytest.raises(ValueError, match="Pass a list of texts"):
        load(model, head="encoder").encode({"a", "b"})


def test_one_output_is_a_probability_or_a_number(load):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=1)
    odds = load(model, Metadata(multi_label=True)).predict("A house.")
    number = load(
        model, Metadata(multi_label=True), given={"labels": ()}
    ).predict("A house.")

    # As the pipeline of transformers, and CrossEncoder.
    expected = 1 / (1 + np.exp(-number["prediction"]))
    assert odds["probabilities"] == {"0": pytest.approx(expected, rel=1e-5)}


def test_a_model_of_one_segment_type_takes_pairs(load):
    config = dataclasses.replace(CONFIG, type_vocab_size=1)
    model = albert_tf.ClassifierModel(config, num_labels=2)
    predictor = load(model)

    found = predictor.predict(("One.", "Two."))["probabilities"]

    # As transformers 5, whose tokenizer makes no segments.
    batch = predictor.tokenizer.batch(["One."], ["Two."], max_seq_length=64)
    batch["segment_ids"] = np.zeros_like(batch["segment_ids"])
    expected = tf.nn.softmax(model(batch)["logits"])[0].numpy()
    np.testing.assert_allclose([*found.values()], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_seq_length": 0}, "max_seq_length"),
        ({"max_seq_length": 65}, "max_seq_length"),
        ({"pooling": "cls"}, "`pooling` and `normalize` are for vectors"),
        ({"head": "span"}, "has no span head. It has: task"),
        ({"vocabulary": None}, "no one vocabulary beside"),
    ],
)
def test_a_checkpoint_lacks_a_head_or_a_file(options, message, load):
    with pytest.raises(ValueError, match=message):
        load(albert_tf.ClassifierModel(CONFIG, num_labels=2), **options)


def test_heads_of_transformers_for_questions(load):
    with pytest.raises(ValueError, match="export_saved_model"):
        load(albert_tf.SpanModel(CONFIG), Metadata(null_from_cls=True))


@pytest.mark.parametrize(
    ("make_model", "inputs", "message"),
    [
        *(
            (functools.partial(albert_tf.ClassifierModel, num_labels=2), *row)
            for row in (
                (None, "Pass a text, a dict, or an iter"),
                (5, "Pass a text, a dict, or an iter"),
                (["a", 3], "Input 1 has 3, which is no text"),
                (["a", {"text": "a", "b": "b"}], "Input 1 must have text_a"),
                (["a", ("a", 3)], "Input 1 has 3, which is no text"),
                (["a", ("a", "b", "c")], "Input 1 must have"),
                (["a", None], "Input 1 has None, which is no text"),
                ([{"text_a": ["a"]}], "Input 0 has .* which is no text"),
            )
        ),
        *(
            (
                albert_tf.MultipleChoiceModel,
                ("An article.", "A question?", options),
                "must be a list of 2 to 26",
            )
            for options in ("CDE", [], ["a"], ["a"] * 27)
        ),
        *(
            (albert_tf.PretrainingModel, *row)
            for row in (
                ("no mask", "Pass a text with"),
                ("[MASK]" * 9, "may have 8 .MASK., .* 9, of which 8"),
                ("snow " * 99 + "[MASK]", "1, of which 0"),
            )
        ),
    ],
)
def test_inputs_of_another_kind_are_named(make_model, inputs, message, load):
    is_choice = make_model is albert_tf.MultipleChoiceModel
    known = Metadata(head="multiple_choice" if is_choice else None)
    predictor = load(make_model(CONFIG), known)

    with pytest.raises(ValueError, match=message):
        predictor.predict(inputs)


def test_text_after_a_mask_without_a_space_starts_no_word(load):
    tokenizer = load(albert_tf.PretrainingModel(CONFIG)).tokenizer
    whole = tokenizer.encode("The cat sat.")

    masked = tokenizer.encode_with_masks("The cat [MASK].", "[MASK]")
    spaced = tokenizer.encode_with_masks("[MASK] sat.", "[MASK]")

    assert tokenizer.id_to_token(whole[-1]) == "."
    assert masked[-2:] == [tokenizer.special_ids.mask, whole[-1]]
    assert spaced[1:] == tokenizer.encode("sat.")


_LABELS = {"labels": ("ham", "spam")}
_SPAN = [("Who sat?", "The cat sat on the mat. " * 20), ("Who?", "Ann sat.")]


@pytest.fixture
def load_all(load, tmp_path):
    """Loads several models: alone, and as one predictor."""

    def make(models, all_known):
        alone = [
            load(model, Metadata(**known), name=str(number))
            for number, (model, known) in enumerate(
                zip(models, all_known, strict=True)
            )
        ]
        folders = [tmp_path / str(number) for number in range(len(models))]
        return alone, albert_tf.load_predictor(folders)

    return make


def small(**changes):
    """A model of another size."""
    return dataclasses.replace(CONFIG, hidden_size=8, **changes)


def test_models_answer_with_the_mean_of_their_probabilities(load_all):
    models = [
        albert_tf.ClassifierModel(config, num_labels=2, seed=seed)
        for seed, config in enumerate((CONFIG, small(), CONFIG))
    ]

    alone, together = load_all(models, [_LABELS] * 3)

    answers = [one.predict(TEXTS) for one in alone]
    for found, *each in zip(together.predict(TEXTS), *answers, strict=True):
        mean = np.mean([one["probabilities"]["spam"] for one in each])
        assert found["probabilities"]["spam"] == pytest.approx(mean, rel=1e-4)
        assert found["prediction"] == ("ham", "spam")[int(mean > 0.5)]


def test_numbers_have_a_mean_in_their_units(load_all):
    models = [
        albert_tf.ClassifierModel(CONFIG, num_labels=1, seed=seed)
        for seed in range(2)
    ]
    units = [(1.7e9, 1e5), (1.6e9, 3e5)]
    all_known = [
        {"labels": (), "target_mean": mean, "target_scale": scale}
        for mean, scale in units
    ]

    alone, together = load_all(models, all_known)

    each = [one.predict("A house.")["prediction"] for one in alone]
    found = together.predict("A house.")["prediction"]
    assert found == pytest.approx(np.mean(each), rel=1e-8)


def test_several_labels_have_a_mean_and_mean_thresholds(load_all):
    models = [
        albert_tf.ClassifierModel(CONFIG, num_labels=2, seed=seed)
        for seed in range(2)
    ]
    known = _LABELS | {"multi_label": True}
    limits = [(0.0, 0.2), (0.0, 0.6)]

    alone, together = load_all(
        models, [known | {"thresholds": both} for both in limits]
    )

    each = [one.predict("A house.")["probabilities"] for one in alone]
    found = together.predict("A house.")
    for label, value in found["probabilities"].items():
        mean = np.mean([one[label] for one in each])
        assert value == pytest.approx(mean, rel=1e-4)
    is_spam = found["probabilities"]["spam"] >= 0.4
    assert found["prediction"] == ["ham", "spam"][: 1 + is_spam]


def test_spans_have_the_means_of_starts_and_ends(load_all):
    models = [albert_tf.SpanModel(CONFIG, seed=seed) for seed in range(2)]

    alone, together = load_all(models, [{}] * 2)

    # One text is padded beside the other, which changes no answer.
    both = together.predict(_SPAN[::-1])
    [short] = together.predict(_SPAN[1:])
    assert both[0] == short | {"score": pytest.approx(short["score"])}
    spec, data = together.head_spec, together.data
    examples = spec.example_set(data, [spec.example(0, _SPAN[1])])
    found, *each = (
        next(one.run_chunks(examples, 1))[1] for one in (together, *alone)
    )
    for name in ("start_logits", "end_logits"):
        shares = [softmax(one[name][0]) for one in each]
        np.testing.assert_allclose(
            softmax(found[name][0]), np.mean(shares, axis=0), rtol=1e-4
        )


def softmax(logits):
    return scipy.special.softmax(np.asarray(logits, np.float64), axis=-1)


@pytest.mark.parametrize(
    ("model", "known", "message"),
    [
        (
            albert_tf.ClassifierModel(CONFIG, num_labels=2),
            {"labels": ("spam", "ham")},
            "1' cannot answer with .*0', which has labels=",
        ),
        (
            albert_tf.ClassifierModel(CONFIG, num_labels=2),
            _LABELS | {"multi_label": True},
            "multi_label",
        ),
        (
            albert_tf.ClassifierModel(CONFIG, num_labels=2),
            _LABELS | {"settings": {"max_seq_length": 8}},
            r"max_seq_length=64 \(now 8\)",
        ),
        (
            albert_tf.ClassifierModel(CONFIG, num_labels=2),
            _LABELS | {"do_lower_case": False},
            "tokenizer=",
        ),
        (
            albert_tf.TokenClassifierModel(CONFIG, num_labels=2),
            _LABELS | {"head": "token_classifier"},
            "head='classifier'",
        ),
        (
            albert_tf.ClassifierModel(CONFIG, num_labels=2),
            _LABELS | {"thresholds": (0.3, 0.7)},
            "Only some of the models have thresholds",
        ),
    ],
)
def test_models_that_cannot_answer_together(model, known, message, load_all):
    first = albert_tf.ClassifierModel(CONFIG, num_labels=2)

    with pytest.raises(ValueError, match=message):
        load_all([first, model], [_LABELS, known])


def test_no_models_at_all():
    with pytest.raises(ValueError, match="Pass one model or several"):
        albert_tf.load_predictor([])
