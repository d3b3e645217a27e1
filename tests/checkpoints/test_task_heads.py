"""The heads of the tasks in transformers, and from task to task."""

import functools

import numpy as np
import pytest

from albert_tf.checkpoints import load, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.released import write as write_released
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from tests.checkpoints.weights import (
    ask_transformers,
    check_close,
    check_same,
    convert,
    weights_of,
)
from tests.modeling.recorded import Recorded

_MODELS = {
    "classifier": functools.partial(ClassifierModel, num_labels=3),
    "regression": functools.partial(ClassifierModel, num_labels=1),
    "multiple_choice": MultipleChoiceModel,
    "spans": SpanModel,
    "beams": BeamSpanModel,
}


def _heads(arrays):
    return {n: a for n, a in arrays.items() if variable_names.head_of(n)}


def _encoder(arrays):
    return {n: a for n, a in arrays.items() if not variable_names.head_of(n)}


def _randomised(model):
    """Gives all variables different values."""
    rng = np.random.default_rng(0)
    for variable in model.weights:
        if variable.dtype == "float32":
            variable.assign(0.5 * rng.standard_normal(variable.shape, "f"))
    return model


def _write(folder, model):
    folder.mkdir()
    source = Checkpoint(arrays=weights_of(model), config=model.config)
    write_released(str(folder), source)
    return folder


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pretrained", "classifier"),
        ("pretrained", "beams"),
        ("classifier", "regression"),
        ("classifier", "spans"),
        ("beams", "pretrained"),
    ],
)
def test_a_new_head_must_be_allowed_and_the_old_one_is_listed(
    tiny_config, tmp_path, first, second
):
    models = _MODELS | {"pretrained": PretrainingModel}
    trained = _randomised(models[first](tiny_config))
    folder = _write(tmp_path / "trained", trained)
    model = models[second](tiny_config, seed=2)
    head = _heads(weights_of(model))

    with pytest.raises(ValueError, match="Use a checkpoint that has this head"):
        load.load_checkpoint(model, folder)
    unused = load.load_checkpoint(model, folder, allow_new_heads=True)

    assert unused == sorted(_heads(weights_of(trained)))
    check_same(weights_of(model), _encoder(weights_of(trained)) | head)


# Compared with transformers.

_PEER = """
import sys
import numpy, torch, transformers

folder, batch, answers = sys.argv[1:]
batch = dict(numpy.load(batch))
batch = {name: torch.tensor(a, dtype=torch.long) for name, a in batch.items()}
found = {}
for kind in transformers.AutoConfig.from_pretrained(folder).architectures:
    model, told = getattr(transformers, kind).from_pretrained(
        folder, output_loading_info=True)
    assert not told["missing_keys"], told
    assert not told["mismatched_keys"], told
    rows = batch
    if kind == "AlbertForMultipleChoice":
        # One question, whose choices are the rows.
        rows = {name: array[None] for name, array in batch.items()}
    with torch.no_grad():
        out = model.eval()(**rows)
    found |= {f"{kind}/{k}": v.numpy() for k, v in out.items()}
numpy.savez(answers, **found)
"""


# Recorded numbers, and the class of transformers.
_PEERS = {
    "classifier": ("classifier", "AlbertForSequenceClassification"),
    "regression": ("regression", "AlbertForSequenceClassification"),
    "multiple_choice": ("race", "AlbertForMultipleChoice"),
    "spans": ("squad_v1", "AlbertForQuestionAnswering"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _PEERS)
def test_transformers_gives_our_logits(name, tmp_path):
    key, kind = _PEERS[name]
    recorded = Recorded(key)
    model = recorded.load(_MODELS[name](recorded.config))
    path = _write(tmp_path / "google", model)
    convert(path, tmp_path / "out", "huggingface")
    # The choices of the first question, where there are any.
    batch = {
        key: recorded.batch[key].reshape(-1, 24)[:4]
        for key in ("input_ids", "input_mask", "segment_ids")
    }

    found = ask_transformers(
        _PEER, tmp_path / "out", batch=batch, folder=tmp_path
    )

    if name == "multiple_choice":
        batch = {key: array[None] for key, array in batch.items()}
    for output, ours in model(batch).items():
        check_close(ours, found[f"{kind}/{output}"], output)
