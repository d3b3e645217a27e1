"""Every road of an answer gives the same answers to the same texts.

Models have what an evaluation or a training chooses: temperature, thresholds,
layers, rules of tags, pooling of vectors. Roads are Python, the command, other
engines of Keras, exports, and the examples. The answers of classifiers and the
vectors are NumPy's.
"""

import copy
import dataclasses
import functools

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks import early_exit
from tests.export import roads
from tests.export.roads import ROADS, ROOT, TEXTS
from tests.exported_models import TINY_CONFIG, write_checkpoint
from tests.heads.rows import near

CONFIG = dataclasses.replace(
    TINY_CONFIG, num_hidden_layers=4, initializer_range=0.6
)
LENGTH = 24
MODELS = {
    "classifier": albert_tf.ClassifierModel,
    "token_classifier": albert_tf.TokenClassifierModel,
    "encoder": albert_tf.AlbertModel,
}


class Kind:
    """A model of a head, and what is known of it; patience is of early exit."""

    def __init__(self, head, *, depth=None, patience=0, settings=(), **known):
        self.head, self.depth, self.patience = head, depth, patience
        settings = {"max_seq_length": LENGTH, **dict(settings)}
        self.known = Metadata(head=head, settings=settings, **known)
        self.options = {"depth": depth} if depth else {}

    def write(self, folder, vocabulary):
        """Writes a checkpoint of a model whose texts differ in labels."""
        labels = self.known.labels
        sizes = {} if labels is None else {"num_labels": len(labels) or 1}
        model = MODELS[self.head](CONFIG, **sizes)
        for weight in model.task_head.weights if labels else ():
            weight.assign(20 * weight)
        write_checkpoint(
            folder, model, vocabulary=str(vocabulary), metadata=self.known
        )


TWO = {"labels": ("ham", "spam"), "temperature": 2.5, "thresholds": (0.6, 0.4)}
KINDS = {
    "two_labels": Kind("classifier", **TWO),
    "unanswered": Kind(
        "classifier",
        labels=("a", "b", "c"),
        temperature=2.0,
        thresholds=(0.5, 0.5, 0.5),
    ),
    "several_labels": Kind(
        "classifier",
        labels=("a", "b", "c"),
        multi_label=True,
        temperature=2.0,
        thresholds=(0.3, 0.45, 0.4),
    ),
    "numbers": Kind(
        "classifier", labels=(), target_mean=40.0, target_scale=9.0
    ),
    # Fewer layers have no temperature and no thresholds.
    "shallow": Kind("classifier", depth=2, **TWO),
    "early": Kind("classifier", patience=1, **TWO),
    "tags": Kind(
        "token_classifier",
        labels=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
        settings={
            "words": "spaced",
            "rules": {"scheme": "IOB2", "never_first": [","]},
        },
    ),
    "vectors": Kind("encoder", settings={"pooling": "cls", "normalizes": True}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_spm_model):
    """Returns the checkpoint of a kind and its answers, made once."""

    @functools.cache
    def make(name):
        folder = tmp_path_factory.mktemp(name)
        KINDS[name].write(folder, tiny_spm_model)
        return folder, answers_of(folder, KINDS[name])

    return make


def answers_of(folder, kind):
    """Returns the answers to the texts; of tags, Python's."""
    if kind.head == "token_classifier":
        return albert_tf.load_predictor(folder).predict(TEXTS)
    model = albert_tf.load_model(folder, head=kind.head)
    tokenizer = albert_tf.load_tokenizer(folder)
    batch = tokenizer.batch(TEXTS, max_seq_length=LENGTH)
    if kind.patience:
        tensors = {name: tf.constant(ids) for name, ids in batch.items()}
        outputs = early_exit.outputs(model, tensors, patience=kind.patience)
    else:
        outputs = model(batch, depth=kind.depth)
    if kind.head == "encoder":
        first = outputs["sequence_output"].numpy()[:, 0]
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        return [{"vector": row} for row in first]
    return decide(outputs["logits"].numpy(), kind)


def decide(logits, kind):
    """The answers of a classifier, from its logits `[N, K]`."""
    known = Metadata() if kind.depth else kind.known
    if known.target_scale:
        numbers = logits[:, 0] * known.target_scale + known.target_mean
        return [{"prediction": number} for number in numbers.tolist()]
    labels = np.array(kind.known.labels)
    logits = logits.astype(np.float64) / (known.temperature or 1)
    least = known.thresholds or np.zeros(len(labels))
    if known.multi_label:
        shares = scipy.special.expit(logits)
        predictions = [labels[row].tolist() for row in shares >= least]
    else:
        shares = scipy.special.softmax(logits, axis=-1)
        above = shares - least
        predictions = labels[np.argmax(above, axis=-1)].tolist()
        if len(labels) > 2:
            pairs = zip(predictions, above.max(axis=-1) >= 0, strict=True)
            predictions = [best if answers else None for best, answers in pairs]
    return [
        {
            "prediction": best,
            "probabilities": dict(zip(labels, row, strict=True)),
        }
        for best, row in zip(predictions, shares.tolist(), strict=True)
    ]


# What roads do not have, and a sentence of the documentation that says so.
ALL_LAYERS = "`load_predictor`, LiteRT and ONNX use all layers."
ONE_HEAD = "onnx_app.py) is a classifier"
ONE_DEPTH = "the model, with all its layers, in ONNX"
ABSENT = {
    **{(road, "early"): ALL_LAYERS for road in ROADS if road != "saved_model"},
    **dict.fromkeys([("onnx_app", "tags"), ("onnx_app", "vectors")], ONE_HEAD),
    ("onnx_app", "shallow"): ONE_DEPTH,
    ("javascript", "tags"): "Tags are of tokens, each the likeliest:",
}
NO_PREDICTION = {"javascript": "Thresholds are only in `metadata.json`"}


@pytest.mark.parametrize(
    "sentence", sorted({*ABSENT.values(), *NO_PREDICTION.values()})
)
def test_pages_say_what_a_road_does_not_have(sentence):
    pages = [
        page.read_text("utf-8").split() for page in (ROOT / "docs").glob("*.md")
    ]
    assert sum(sentence in " ".join(words) for words in pages) == 1


@pytest.mark.slow
# Of tf2onnx.
@pytest.mark.filterwarnings("ignore:.*np.object.*:FutureWarning")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("road", ROADS)
def test_a_road_gives_the_answers_of_numpy(road, name, made, tmp_path):
    if (road, name) in ABSENT:
        pytest.skip(ABSENT[road, name])
    if "onnx" in road or road == "javascript":
        pytest.importorskip("tf2onnx")
        pytest.importorskip("onnxruntime")
    kind, (folder, expected) = KINDS[name], made(name)
    answer, tolerance = ROADS[road]

    found = answer(kind, folder, tmp_path)

    if road in NO_PREDICTION and kind.known.thresholds:
        expected = [{"probabilities": x["probabilities"]} for x in expected]
    for text, one, other in zip(TEXTS, found, expected, strict=True):
        other.pop("tags", None)  # Of Python alone.
        one.pop("tags", None)
        assert one == near(other, tolerance), text


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("two_labels", "temperature"),
        ("two_labels", "thresholds"),
        ("unanswered", "thresholds"),
        ("several_labels", "temperature"),
        ("several_labels", "thresholds"),
        ("early", "patience"),
    ],
)
def test_labels_depend_on_all_that_is_known(name, without, made):
    folder, answers = made(name)
    kind = copy.copy(KINDS[name])
    if without == "patience":
        kind.patience = 0
    else:
        kind.known = dataclasses.replace(kind.known, **{without: None})

    others = answers_of(folder, kind)

    pairs = zip(answers, others, strict=True)
    assert sum(a["prediction"] != b["prediction"] for a, b in pairs) > 5


@pytest.mark.slow
def test_a_run_of_early_exits_predicts_as_its_export(made, tmp_path, caplog):
    examples = [
        {"text": text, "kind": ("ham", "spam")["cat" in text]} for text in TEXTS
    ]
    uses = ("train_examples", "eval_examples", "predict_examples")
    run = albert_tf.finetune(
        "custom",
        text_columns=["text"],
        label_column="kind",
        init_checkpoint=made("early")[0],
        max_seq_length=LENGTH,
        num_train_steps=2,
        decide="recall:0.9",
        exit_patience=1,
        output_dir=tmp_path / "run",
        export_dir=str(tmp_path / "served"),
        **dict.fromkeys(uses, examples),
    )
    kind = copy.copy(KINDS["early"])
    kind.known = Metadata.read(run.weights)

    labels, shares = (
        (tmp_path / "run" / name).read_text().splitlines()
        for name in ("predictions.tsv", "test_results.tsv")
    )

    expected = answers_of(run.weights, kind)
    assert roads.served(kind, run.export.path) == near(expected)
    for label, row, answer in zip(labels[1:], shares, expected, strict=True):
        assert label.split("\t")[1] == answer["prediction"]
        numbers = [*map(float, row.split())]
        assert numbers == near([*answer["probabilities"].values()])
    # Python uses all layers.
    kind.patience = 0
    everything = answers_of(run.weights, kind)
    assert run.predictor.predict(TEXTS) == near(everything)
    assert everything != expected
    assert None not in (kind.known.temperature, kind.known.thresholds)
    assert "The thresholds were chosen with all layers." in caplog.text
