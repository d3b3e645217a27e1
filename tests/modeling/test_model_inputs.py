import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.modeling.span_models import BeamSpanModel
from tests import tiny

_IDS = tiny.batch()["input_ids"]
_SHORT = {"input_ids": _IDS}


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        (AlbertModel, [[1, 2]], "called on a dict of tensors.*type list"),
        (AlbertModel, _IDS, "called on a dict.*ndarray.*`tokenizer.batch`"),
        (AlbertModel, tf.constant(_IDS), "called on a dict.*Tensor"),
        (AlbertModel, {}, r"needs the inputs 'input_ids'.*\(none\)"),
        (AlbertModel, {"ids": _IDS}, "keys 'ids'. Add 'input_ids'"),
        (AlbertModel, {"input_ids": [[1]]}, "tensor or a NumPy.*type list"),
        (AlbertModel, {"input_ids": _IDS[0]}, r"rank 2.*shape \(5,\)"),
        (AlbertModel, {"input_ids": _IDS * 1.0}, "integers.*'float64'"),
        (
            AlbertModel,
            _SHORT | {"segment_ids": _IDS[None]},
            r"`segment_ids` must have rank 2.*\(1, 2, 5\)",
        ),
        (PretrainingModel, _SHORT, "Add 'masked_lm_positions'"),
        (MultipleChoiceModel, _SHORT, r"rank 3.*shape \(2, 5\)"),
        (BeamSpanModel, _SHORT, "Add 'p_mask'"),
    ],
)
def test_wrong_inputs_are_errors_that_say_what_to_do(kind, inputs, message):
    with pytest.raises(ValueError, match=message):
        kind(tiny.config())(inputs)


def test_teacher_forcing_needs_the_start():
    inputs = _SHORT | {"p_mask": np.zeros((2, 5))}

    with pytest.raises(ValueError, match="Add 'start_positions'"):
        BeamSpanModel(tiny.config())(inputs, teacher_forcing=True)
