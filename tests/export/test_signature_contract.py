"""Every export has the signatures that its users are told of, and no others.

Names, dtypes and shapes as `saved_model_cli show --all` prints them; -1 is a
size that a request decides.
"""

import pathlib

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

PREDICT = "tensorflow/serving/predict"
HIDDEN_SIZE, VOCAB_SIZE, NUM_LABELS, NUM_CHOICES = 16, 300, 8, 4
START_N_TOP, NUM_SPANS = 4, 12

TEXT = ("string", -1)
PAIR = {"text_a": TEXT, "text_b": TEXT}
IDS = {
    name: ("int32", -1, -1)
    for name in ("input_ids", "input_mask", "segment_ids")
}
VECTORS = {
    "sequence_output": ("float32", -1, -1, HIDDEN_SIZE),
    "pooled_output": ("float32", -1, HIDDEN_SIZE),
}
ANSWER = {
    "answer": TEXT,
    "start": ("int32", -1),
    "end": ("int32", -1),
    "score": ("float32", -1),
    "null_score": ("float32", -1),
}
LABELS = {"probabilities": ("float32", -1, NUM_LABELS)}
CHOICES = {"probabilities": ("float32", -1, NUM_CHOICES)}
QUESTION = {"question": TEXT, "context": TEXT}

CONTRACT = {
    "served_encoder": {
        "serving_default": (PAIR, VECTORS),
        "tokens": (IDS, VECTORS),
        "mlm": (
            {**IDS, "mlm_positions": ("int32", -1, -1)},
            {**VECTORS, "mlm_logits": ("float32", -1, -1, VOCAB_SIZE)},
        ),
        "sop": (IDS, {**VECTORS, "sop_log_probs": ("float32", -1, 2)}),
        "fill_mask": (
            {"text": TEXT},
            {
                "top_pieces": ("string", -1, -1, 5),
                "top_probabilities": ("float32", -1, -1, 5),
            },
        ),
    },
    "served_classifier": {
        "serving_default": (PAIR, {**LABELS, "prediction": TEXT}),
        "tokens": (IDS, {**LABELS, "logits": ("float32", -1, NUM_LABELS)}),
    },
    "served_regression": {
        "serving_default": (PAIR, {"score": ("float32", -1)}),
        "tokens": (
            IDS,
            {"score": ("float32", -1), "logits": ("float32", -1, 1)},
        ),
    },
    "served_squad_1": {
        "serving_default": (QUESTION, ANSWER),
        "tokens": (
            IDS,
            {
                "start_logits": ("float32", -1, -1),
                "end_logits": ("float32", -1, -1),
            },
        ),
    },
    "served_squad_2": {
        "serving_default": (QUESTION, ANSWER),
        "tokens": (
            IDS,
            {
                "start_top_log_probs": ("float32", -1, START_N_TOP),
                "start_top_index": ("int32", -1, START_N_TOP),
                "end_top_log_probs": ("float32", -1, NUM_SPANS),
                "end_top_index": ("int32", -1, NUM_SPANS),
                "cls_logits": ("float32", -1),
            },
        ),
    },
    "served_race": {
        "serving_default": (
            {
                "article": TEXT,
                "question": TEXT,
                "options": ("string", -1, NUM_CHOICES),
            },
            {**CHOICES, "choice": ("int32", -1)},
        ),
        "tokens": (
            {name: ("int32", -1, NUM_CHOICES, -1) for name in IDS},
            {**CHOICES, "logits": ("float32", -1, NUM_CHOICES)},
        ),
    },
}


@pytest.mark.parametrize("name", CONTRACT)
def test_signatures(name, request):
    exported = request.getfixturevalue(name)
    content = pathlib.Path(exported.summary.path, "saved_model.pb").read_bytes()
    [graph] = saved_model_pb2.SavedModel.FromString(content).meta_graphs

    assert list(graph.meta_info_def.tags) == ["serve"]
    found = {
        name: one
        for name, one in graph.signature_def.items()
        if one.method_name == PREDICT
    }
    assert {
        name: (_described(one.inputs), _described(one.outputs))
        for name, one in found.items()
    } == CONTRACT[name]
    assert set(graph.signature_def) - set(found) == {"__saved_model_init_op"}


def _described(tensors):
    return {
        name: (
            tf.as_dtype(tensor.dtype).name,
            *(size.size for size in tensor.tensor_shape.dim),
        )
        for name, tensor in tensors.items()
    }
