"""Raw text gets the same answers before and after a conversion.

Between every two formats, for each kind of model. What a format cannot hold is
printed.
"""

import dataclasses
import itertools

import numpy as np
import pytest

from albert_tf.checkpoints import compatibility, discovery, load, tf1
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_config import FORMATS
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import SpanModel
from tests import tiny
from tests.checkpoints.weights import convert, weights_of

_TEXTS = ["The Snow fell, ALL night.", "Zoë walked home: 25, or 1,234 steps?"]
_CONFIG = tiny.config(vocab_size=300, max_position_embeddings=32)


def _classifier(config, num_labels=3):
    return ClassifierModel(config, num_labels=num_labels, seed=1)


_DROPOUTS = {
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
_LABELS = ("bad", "so-so", "good")
_SEVERAL = {"multi_label": True, "thresholds": (0.25, 0.5, 0.75)}
_NUMBER = {"labels": (), "target_mean": 10.0, "target_scale": 0.5}
# A model, its config, and what is known of it.
_MODELS = {
    "cased": (
        _classifier,
        {"num_attention_heads": 4, "num_hidden_groups": 3},
        {"do_lower_case": False, "labels": _LABELS},
    ),
    "labels": (_classifier, _DROPOUTS, {"labels": _LABELS} | _SEVERAL),
    "regression": (
        lambda config: _classifier(config, num_labels=1),
        {"parameter_sharing": "none"},
        {"task": "custom"} | _NUMBER,
    ),
    "choice": (MultipleChoiceModel, {}, {"task": "race"}),
    "spans": (SpanModel, {}, {"null_from_cls": True}),
    "pretraining": (PretrainingModel, {}, {"do_lower_case": False}),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory, tiny_spm_model):
    """Writes a model of `_MODELS` in a format; each is written once."""
    made = {}

    def write(name, output_format):
        if (name, output_format) not in made:
            made[name, output_format] = _make(name, output_format)
        return made[name, output_format]

    def _make(name, output_format):
        folder = tmp_path_factory.mktemp(name)
        make, change, known = _MODELS[name]
        model = make(dataclasses.replace(_CONFIG, **change))
        ours = folder / "ours"
        ours.mkdir()
        source = Checkpoint(
            arrays=weights_of(model),
            config=model.config,
            vocabulary=str(tiny_spm_model),
            metadata=Metadata(**known),
        )
        tf1.write_ours(str(ours), source)
        convert(ours, folder / output_format, output_format)
        return folder / output_format

    return write


def _answers(path):
    """Returns what the model at a path answers to the texts."""
    source = discovery.open(path)
    batch = source.load_tokenizer().batch(_TEXTS, max_seq_length=24)
    length = batch["input_ids"].shape
    positions = np.broadcast_to(np.arange(length[1], dtype="int32"), length)
    batch["masked_lm_positions"] = positions
    model = load.load_model(path)
    if isinstance(model, MultipleChoiceModel):
        batch = {name: array[None] for name, array in batch.items()}
    outputs = {name: np.asarray(a) for name, a in model(batch).items()}
    names = None
    if "task" in source.heads:
        number = len(source.weights["output_bias"])
        names = compatibility.find_labels(source.metadata, number, where="x")
    known = source.metadata
    if known.target_scale is not None:
        numbers = outputs["logits"] * known.target_scale + known.target_mean
        outputs["logits"] = numbers
    return outputs, (
        names,
        known.multi_label,
        known.thresholds,
        known.null_from_cls,
    )


def _cases():
    """All models between all formats; the quick ones are a tour of one."""
    tour = {*itertools.pairwise((*FORMATS, FORMATS[0]))}
    for name, *formats in itertools.product(_MODELS, FORMATS, FORMATS):
        is_quick = name == "cased" and tuple(formats) in tour
        marks = () if is_quick else pytest.mark.slow
        yield pytest.param(name, *formats, marks=marks)


@pytest.mark.parametrize(("name", "first", "second"), _cases())
def test_every_model_answers_the_same(name, first, second, written, tmp_path):
    before = written(name, first)

    summary = convert(before, tmp_path / "out", second)

    old, meaning = _answers(before)
    new, new_meaning = _answers(tmp_path / "out")
    assert meaning == new_meaning
    printed = {*summary.left_out}
    lost = {
        "sentence_order_logits": "cls/seq_relationship/output_bias",
        "start_logits": "cls/squad/output_bias",
        "end_logits": "cls/squad/output_bias",
    }
    for output in old:
        if lost.get(output) in printed:
            continue
        np.testing.assert_allclose(
            new[output], old[output], atol=1e-5, err_msg=output
        )
