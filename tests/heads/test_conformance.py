"""What holds for every head, known or not: a row each, and the same tests.

Three steps of training; the same answers from Python, the command, a
SavedModel, LiteRT and ONNX; every format that holds the head, and back; int8.
"""

import dataclasses
import functools
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import registry
from albert_tf.checkpoints import discovery, heads
from albert_tf.checkpoints.heads import ENCODER
from albert_tf.data import builder
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig
from albert_tf.predict import __main__ as predict
from albert_tf.tasks import spec as specs
from tests.checkpoints.weights import check_same, convert
from tests.heads import toy
from tests.heads.conftest import CONFIG

WORDS = ("cat", "dog", "fox", "hen")
LONG = "The snow fell on the hills of the old man. " * 4
TEXTS = ["The cat sat.", "Zoë: 25 dogs, or a FOX?", LONG]
STEPS = {
    "num_train_steps": 3,
    "save_checkpoints_steps": 3,
    "train_batch_size": 4,
    "max_seq_length": 24,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A head.

    Args:
        spec: What is done with it.
        task: What `albert_tf.finetune` takes; None if it is not fine-tuned.
        examples: Rows to train on.
        settings: Those of the training.
        inputs: What it answers.
        signature: That which the SavedModel answers by.
        served: The inputs of the signature, by name, of all inputs.
        answers: Returns the served answers, parts of those in Python.
        formats: Other formats that hold it.
    """

    spec: type = None
    task: Any = None
    examples: tuple = ()
    settings: dict = dataclasses.field(default_factory=dict)
    inputs: list = dataclasses.field(default_factory=lambda: TEXTS)
    signature: str = "serving_default"
    served: Callable = lambda texts: {
        "text_a": texts,
        "text_b": [""] * len(texts),
    }
    answers: Callable
    formats: tuple = ()


def _vectors(found):
    yield from ({"vector": vector} for vector in found["vector"])


def _masks(found):
    columns = found["top_tokens"], found["top_probabilities"]
    for number, *rows in zip(found["num_masks"], *columns, strict=True):
        pairs = [zip(*one, strict=True) for one in zip(*rows, strict=True)]
        masks = [
            [{"token": t.decode(), "probability": p} for t, p in one]
            for one in pairs[:number]
        ]
        yield {"masks": masks}


def _labels(found):
    columns = (found[n] for n in ("prediction", "labels", "probabilities"))
    for best, *own in zip(*columns, strict=True):
        labels = {name.decode(): p for name, p in zip(*own, strict=True)}
        yield {"prediction": best.decode(), "probabilities": labels}


def _choices(found):
    columns = found["choice"], found["probabilities"]
    for choice, shares in zip(*columns, strict=True):
        yield {"choice": choice, "probabilities": shares.tolist()}


def _spans(found):
    columns = (found[name] for name in ("answer", "start", "end"))
    for answer, start, end in zip(*columns, strict=True):
        yield {"answer": answer.decode(), "start": start, "end": end}


def _entities(found):
    columns = (found[name] for name in ("starts", "ends", "labels", "scores"))
    for row in zip(*columns, strict=True):
        yield {
            "entities": [
                {"label": label.decode(), "start": a, "end": b, "score": score}
                for a, b, label, score in zip(*row, strict=True)
                if a >= 0
            ]
        }


def _counts(found):
    yield from ({"num_words": number} for number in found["num_words"])


def _question(number, **others):
    word = WORDS[number % 4]
    context = f"the {word} is here. " * (1 + number % 3)
    answers = [{"text": word, "answer_start": 4}]
    values = {"question": "who is here", "context": context}
    return values | {"answers": answers, "is_impossible": False} | others


QUESTIONS = Row(
    task="squad",
    examples=tuple(map(_question, range(8))),
    settings={"max_query_length": 6, "doc_stride": 8, "max_answer_length": 2},
    inputs=[("who is here", text) for text in TEXTS],
    served=lambda pairs: dict(
        zip(("question", "context"), zip(*pairs, strict=True), strict=True)
    ),
    answers=_spans,
)
_NOBODY = {"answers": [], "is_impossible": True}
ROWS = {
    "encoder": Row(
        task="similarity",
        examples=tuple(
            {"a": f"the {WORDS[i % 4]} is {i}", "b": f"{i} is a {WORDS[i % 3]}"}
            for i in range(8)
        ),
        settings={
            "text_columns": ["a", "b"],
            "pooling": "cls",
            "normalize": True,
        },
        answers=_vectors,
        formats=("huggingface", "keras_hub"),
    ),
    "pretraining": Row(
        inputs=["The [MASK] sat.", "Snow [MASK] on the [MASK]."],
        signature="fill_mask",
        served=lambda texts: {"text": texts},
        answers=_masks,
        formats=("huggingface",),
    ),
    "classifier": Row(
        task="custom",
        examples=tuple(
            {"text": f"the {WORDS[i % 4]} is {i}", "kind": "ab"[i % 4 > 1]}
            for i in range(8)
        ),
        settings={"text_columns": ["text"], "label_column": "kind"},
        answers=_labels,
        formats=("huggingface", "keras_hub"),
    ),
    "multiple_choice": Row(
        task="race",
        examples=tuple(
            {
                "article": f"the {word} is here",
                "question": "who is here",
                "options": list(WORDS),
                "answer": word,
            }
            for word in WORDS
        ),
        settings={"max_qa_length": 8},
        inputs=[(text, "The _ sat.", list(WORDS)) for text in TEXTS],
        served=lambda rows: dict(
            zip(
                ("article", "question", "options"),
                zip(*rows, strict=True),
                strict=True,
            )
        ),
        answers=_choices,
        formats=("huggingface", "keras_hub"),
    ),
    "span": dataclasses.replace(QUESTIONS, formats=("huggingface",)),
    "beam_span": dataclasses.replace(
        QUESTIONS,
        examples=(*QUESTIONS.examples, _question(1, **_NOBODY)),
        settings={**QUESTIONS.settings, "version_2_with_negative": True},
    ),
    "token_classifier": Row(
        task="ner",
        examples=tuple(
            {
                "tokens": ["the", word, "is", "here"],
                "tags": ["O", "B-animal", "O", "B-place"],
            }
            for word in WORDS * 2
        ),
        inputs=TEXTS,
        served=lambda texts: {"text": texts},
        answers=_entities,
        formats=("huggingface",),
    ),
    # It is in no table: its record is passed.
    "word_count": Row(
        spec=toy.WordCount,
        task=toy.SPEC,
        examples=tuple({"text": text} for text in [*TEXTS, *WORDS]),
        answers=_counts,
    ),
}


class Trained:
    """A head after three steps, its folder and its answers in Python."""

    def __init__(self, name, row, path):
        self.name, self.row, self.path = name, row, str(path)
        self.is_known = name in heads.HEADS
        self.spec = specs.head_spec_of(name) if self.is_known else row.spec()
        # That of a checkpoint is known; others are passed.
        self.head = None if self.is_known else self.spec
        self.predictor = albert_tf.load_predictor(path, head=self.head)
        self.answers = self.predictor.predict(row.inputs)

    def export(self, folder, **values):
        defaults = {"init_checkpoint": self.path, "head": self.head}
        config = ExportConfig(export_dir=str(folder), **defaults | values)
        return saved_model.export(config).path


@pytest.fixture(scope="module")
def pretrain(tiny_corpus, tiny_spm_model, tmp_path_factory):
    """Pretrains three steps, in a folder."""

    def run(folder):
        records = tmp_path_factory.mktemp("records")
        builder.build(
            PretrainingDataConfig(
                input_file=str(tiny_corpus),
                output_file=str(records / "train"),
                spm_model_file=str(tiny_spm_model),
                max_seq_length=24,
                max_predictions_per_seq=4,
            )
        )
        CONFIG.to_json_file(records / "config.json")
        albert_tf.pretrain(
            input_file=str(records / "train"),
            albert_config_file=records / "config.json",
            output_dir=folder,
            max_predictions_per_seq=4,
            **STEPS,
        )

    return run


@pytest.fixture(scope="module", params=ROWS)
def trained(request, base, pretrain, tmp_path_factory):
    name, row = request.param, ROWS[request.param]
    folder = tmp_path_factory.mktemp(name) / "run"
    if name == "pretraining":
        pretrain(folder)
    else:
        albert_tf.finetune(
            row.task,
            train_examples=row.examples,
            init_checkpoint=base,
            output_dir=folder,
            learning_rate=0.05,
            **STEPS | row.settings,
        )
    return Trained(name, row, folder)


def near(value, tolerance=1e-5):
    """Returns what equals an answer, or a part of it, but for rounding."""
    again = functools.partial(near, tolerance=tolerance)
    if isinstance(value, dict):
        return {name: again(one) for name, one in value.items()}
    if isinstance(value, list):
        return [*map(again, value)]
    if isinstance(value, float | np.ndarray):
        return pytest.approx(value, abs=tolerance, rel=tolerance)
    return value


def _parts(answer, like):
    """Returns those parts of an answer that another one has."""
    if isinstance(like, list):
        return [_parts(*both) for both in zip(answer, like, strict=True)]
    if isinstance(like, dict):
        return {name: _parts(answer[name], one) for name, one in like.items()}
    return answer


def test_its_folder_says_which_head_it_is(trained):
    source = discovery.open(trained.path)

    assert source.metadata.head == trained.name
    assert source.step == 3
    model = albert_tf.load_model(trained.path, head=trained.spec.head)
    assert type(model) is type(trained.predictor.model)
    # Texts differ, and so do their answers.
    assert trained.answers[0] != near(trained.answers[-1])


def test_the_command_gives_the_answers_of_python(trained, capsys, monkeypatch):
    lines = [
        one if isinstance(one, str) else json.dumps(one)
        for one in trained.row.inputs
    ]
    content = io.BytesIO("\n".join(lines).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))

    code = predict.main([trained.path])

    out, err = capsys.readouterr()
    if not trained.is_known:
        assert code == 1
        assert f"has the head {trained.name}, which is none of" in err
        return
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0, err
    assert found == near(trained.answers)


def test_a_saved_model_gives_the_answers_of_python(trained, tmp_path):
    deeper = str(tmp_path / "deeper")
    convert(trained.path, deeper, "keras", num_hidden_layers=2)

    path = trained.export(
        tmp_path / "served", init_checkpoint=deeper, depth=("1", "2")
    )

    loaded = tf.saved_model.load(path)
    inputs = trained.row.served(trained.row.inputs)
    whole, shallow = (
        albert_tf.load_predictor(
            deeper, head=trained.head, depth=depth
        ).predict(trained.row.inputs)
        for depth in (None, 1)
    )
    assert shallow == near(trained.answers) != near(whole)
    for suffix, expected in (("", whole), ("_1", trained.answers)):
        found = loaded.signatures[f"{trained.row.signature}{suffix}"](
            **{name: tf.constant(values) for name, values in inputs.items()}
        )
        arrays = {name: values.numpy() for name, values in found.items()}
        answers = [*trained.row.answers(arrays)]
        for one, answer in zip(answers, expected, strict=True):
            assert one == near(_parts(answer, one))


@pytest.mark.parametrize("name", registry.ENGINES)
def test_a_runtime_gives_the_answers_of_python(name, trained, tmp_path):
    if name == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("tf2onnx")
    if name not in trained.spec.runtimes:
        with pytest.raises(ValueError, match=f"--format={name} is for"):
            trained.export(tmp_path, format=name)
        return
    path = trained.export(tmp_path, format=name)

    # LiteRT's of pretraining has the encoder alone.
    expected, head = trained.answers, trained.name
    if name == "litert":
        head = trained.spec.litert_head or head
    if head != trained.name:
        expected = albert_tf.load_predictor(trained.path, head=head).predict(
            trained.row.inputs
        )
    found = albert_tf.load_predictor(path, head=trained.head)
    assert found.predict(trained.row.inputs) == near(expected)
    if not trained.is_known:
        with pytest.raises(ValueError, match=trained.name):
            albert_tf.load_predictor(path)


@pytest.mark.parametrize("name", registry.CHECKPOINT_WRITERS)
def test_a_format_holds_it_or_says_what_it_leaves_out(name, trained, tmp_path):
    there, back = tmp_path / "there", tmp_path / "back"
    source = discovery.open(trained.path)

    summary = convert(trained.path, there, name, verify=True)

    if name == "huggingface":
        config = json.loads((there / "config.json").read_text())
        has_class = (
            trained.spec.head if name in trained.row.formats else ENCODER
        )
        assert config["architectures"] == [has_class.transformers]
    assert max(summary.differences.values()) <= 1e-5
    is_unverified = name in ("tf1", "keras") and not trained.is_known
    kinds = {note.kind for note in summary.notes}
    assert ("unverified" in kinds) == is_unverified
    left_out = {*summary.left_out} & {*source.weights}
    if name not in ("tf1", "keras", *trained.row.formats):
        assert left_out
        assert {*discovery.open(there).heads} < {*source.heads}
        return
    assert not left_out
    convert(there, back, "keras")
    found = discovery.open(back)
    # KerasHub does not store the deviation of initial weights.
    deviation = {"initializer_range": CONFIG.initializer_range}
    assert dataclasses.replace(found.config, **deviation) == source.config
    check_same(found.weights, source.weights)
    if trained.name != "encoder":
        assert found.metadata.head == source.metadata.head
    assert found.metadata.labels == source.metadata.labels
    tokenizers = found.tokenizer, source.tokenizer
    assert len({one.fingerprint for one in tokenizers}) == 1


def _batch(model):
    rng = np.random.default_rng(0)
    specs = model.input_specs()
    shape = (2, 3, 9) if model.input_rank == 3 else (2, 9)
    batch = {
        "input_ids": rng.integers(5, 300, shape),
        "input_mask": np.arange(9) < rng.integers(5, 9, (*shape[:-1], 1)),
        "segment_ids": rng.integers(0, 2, shape),
        "masked_lm_positions": rng.integers(0, 5, (2, 2)),
        "p_mask": np.zeros(shape),
    }
    return {name: batch[name].astype(specs[name].dtype) for name in specs}


def test_int8_gives_nearly_the_same(trained):
    model = albert_tf.load_model(trained.path, head=trained.spec.head)
    batch = _batch(model)
    full = {name: np.asarray(one) for name, one in model(batch).items()}

    model.quantize("int8")

    small = {name: np.asarray(one) for name, one in model(batch).items()}
    for name, values in full.items():
        if np.issubdtype(values.dtype, np.floating):
            difference = np.abs(small[name] - values).max()
            assert 0 < difference < 0.1 * np.abs(values).max(), name
