"""What holds for every export: its signatures, and what each of them gives.

Names, dtypes and shapes are as `saved_model_cli show --all` prints them; -1
is a size that a request decides.
"""

import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.metrics.classification import softmax

PREDICT = "tensorflow/serving/predict"
HIDDEN_SIZE, VOCAB_SIZE, NUM_LABELS, NUM_CHOICES = 16, 300, 8, 4
NUM_TAGS, START_N_TOP, NUM_SPANS = 5, 4, 12

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
    "logit": ("float32", -1),
    "null_score": ("float32", -1),
}
LABELS = {"probabilities": ("float32", -1, NUM_LABELS)}
CHOICES = {"probabilities": ("float32", -1, NUM_CHOICES)}
QUESTION = {"question": TEXT, "context": TEXT}

VECTOR = {**VECTORS, "vector": ("float32", -1, HIDDEN_SIZE)}
CONTRACT = {
    "encoder": {
        "serving_default": (PAIR, VECTOR),
        "tokens": (IDS, VECTOR),
    },
    "pretraining": {
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
                "top_tokens": ("string", -1, 8, 5),
                "top_probabilities": ("float32", -1, 8, 5),
                "num_masks": ("int32", -1),
                "error": ("string", -1),
            },
        ),
    },
    "classifier": {
        "serving_default": (
            PAIR,
            {
                **LABELS,
                "labels": ("string", -1, NUM_LABELS),
                "prediction": TEXT,
            },
        ),
        "tokens": (IDS, {**LABELS, "logits": ("float32", -1, NUM_LABELS)}),
    },
    "token_classifier": {
        "serving_default": (
            {"text": TEXT},
            {
                "starts": ("int32", -1, -1),
                "ends": ("int32", -1, -1),
                "labels": ("string", -1, -1),
                "scores": ("float32", -1, -1),
            },
        ),
        "tokens": (IDS, {"logits": ("float32", -1, -1, NUM_TAGS)}),
    },
    "regression": {
        "serving_default": (PAIR, {"score": ("float64", -1)}),
        "tokens": (
            IDS,
            {"score": ("float64", -1), "logits": ("float32", -1, 1)},
        ),
    },
    "span": {
        "serving_default": (QUESTION, ANSWER),
        "tokens": (
            IDS,
            {
                "start_logits": ("float32", -1, -1),
                "end_logits": ("float32", -1, -1),
            },
        ),
    },
    "beam_span": {
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
    "multiple_choice": {
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


TEXTS = [
    "The house stood on a hill.",
    "Where did the old man sit? By the river.",
    "Café ½ 1,234,",
    "It was cold, and the boy ran into the house of the old man.",
]
REQUEST = {
    "text": TEXTS,
    "text_a": TEXTS,
    "text_b": TEXTS[::-1],
    "question": TEXTS,
    "context": TEXTS[::-1],
    "article": TEXTS,
    "options": [["snow", "A boy.", "the hill", "25, or so"]] * 4,
}
# Relative to the norm in float32. The weights are large, so that a wrong one
# changes the outputs altogether.
MAX_DIFFERENCE_IN_BFLOAT16 = 0.1
TARGET_MEAN = 1e3
BYTES_SAVED_PER_VALUE = 2


@pytest.mark.parametrize("name", CONTRACT)
def test_signatures(name, exported):
    path = pathlib.Path(exported(name).summary.path, "saved_model.pb")
    [graph] = saved_model_pb2.SavedModel.FromString(
        path.read_bytes()
    ).meta_graphs

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
    assert set(exported(name).summary.signatures) == set(CONTRACT[name])


def _described(tensors):
    return {
        name: (
            tf.as_dtype(tensor.dtype).name,
            *(size.size for size in tensor.tensor_shape.dim),
        )
        for name, tensor in tensors.items()
    }


def make_ids(export, batch, length):
    """Returns pairs of ids, with padding, for the signature `tokens`."""
    inner = (NUM_CHOICES,) if export.config.head == "multiple_choice" else ()
    special = export.tokenizer.special_ids
    ids = np.random.default_rng(1).integers(5, 300, (batch, *inner, length))
    ids[..., 0], ids[..., [2, length - 3]] = special.cls, special.sep
    place = np.arange(length)
    mask = np.broadcast_to(place < length - 2, ids.shape)
    values = {
        "input_ids": np.where(mask, ids, special.pad),
        "input_mask": mask,
        "segment_ids": mask & (place > 2),
    }
    return {name: value.astype(np.int32) for name, value in values.items()}


@pytest.mark.parametrize("name", CONTRACT)
def test_ids_give_what_the_model_gives(name, exported):
    export = exported(name)
    ids = make_ids(export, 3, 12)

    found = export.ask("tokens", **ids)

    model, inputs = export.model, ids
    if name == "pretraining":
        model = model.albert
    if name == "beam_span":
        # The context and `[CLS]` are allowed.
        p_mask = np.ones((3, 12), np.float32)
        p_mask[:, [0, *range(3, 9)]] = 0
        inputs = ids | {"p_mask": p_mask}
    # Traced, so that TensorFlow fuses the same operations in both; without,
    # large logits differ by more than rounding.
    traced = tf.function(model, autograph=False)
    outputs = traced({n: tf.constant(v) for n, v in inputs.items()})
    expected = {n: v.numpy() for n, v in outputs.items() if n in found}
    if "vector" in found:
        mask = ids["input_mask"][:, :, None]
        total = (expected["sequence_output"] * mask).sum(axis=1)
        expected["vector"] = total / mask.sum(axis=1)
    if "probabilities" in found:
        expected["probabilities"] = softmax(expected["logits"])
    if name == "regression":
        numbers = 2.5 + 50 * np.float64(expected["logits"][:, 0])
        expected["score"] = numbers.clip(0, 5)
    assert set(found) == set(expected)
    for output, values in expected.items():
        is_by_place = values.shape[:2] == ids["input_ids"].shape
        kept = ids["input_mask"] > 0 if is_by_place else ...
        np.testing.assert_allclose(
            found[output][kept], values[kept], rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("name", ["classifier", "span", "multiple_choice"])
def test_a_large_request_may_be_split_and_joined(name, exported):
    export = exported(name)
    inputs, _ = CONTRACT[name]["serving_default"]
    requests = {name: tf.constant(REQUEST[name] * 3) for name in inputs}
    serve = export._loaded.signatures["serving_default"]
    names = sorted(serve.structured_outputs)

    # With the scheduler of TF Serving.
    @tf.nondifferentiable_batch_function(
        1, 64, 1_000, allowed_batch_sizes=[5], autograph=False
    )
    def serve_parts(*values):
        outputs = serve(**dict(zip(inputs, values, strict=True)))
        return [outputs[name] for name in names]

    found = tf.function(serve_parts, autograph=False)(*requests.values())

    expected = export.ask(**requests)
    for output, values in zip(names, found, strict=True):
        if values.dtype == tf.float32:
            np.testing.assert_allclose(values, expected[output], atol=1e-5)
        else:
            np.testing.assert_array_equal(values, expected[output])


@pytest.mark.parametrize("name", CONTRACT)
def test_the_requests_that_warm_up_are_answered(name, exported, read_warmup):
    export = exported(name)

    requests = read_warmup(export.summary.path)

    assert len(requests) == 2 * len(CONTRACT[name])
    model_name = "choices" if name == "multiple_choice" else "albert"
    assert {model for model, _, _ in requests} == {model_name}
    for _, signature, inputs in requests:
        [batch] = {len(values) for values in inputs.values()}
        for output in export.ask(signature, **inputs).values():
            assert len(output) == batch in (1, 8)


@pytest.mark.parametrize(
    "name",
    [
        "classifier",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in CONTRACT
            if name != "classifier"
        ),
    ],
)
def test_bfloat16_halves_the_matrices_and_hardly_changes_answers(
    name, exported
):
    full = exported(name)

    half = full.again(precision="bfloat16")

    # The next version, beside the other.
    folder = pathlib.Path(full.summary.path).parent
    assert half.summary.path == str(folder / "2")
    shapes = [weight.shape for weight in full.model.weights]
    num_values = sum(math.prod(shape) for shape in shapes if len(shape) > 1)
    saved = _size_of_variables(full) - _size_of_variables(half)
    assert saved == num_values * BYTES_SAVED_PER_VALUE
    inputs, _ = CONTRACT[name]["serving_default"]
    request = {name: REQUEST[name] for name in inputs}
    if (
        name == "multiple_choice"
    ):  # A question with a blank, which the option fills.
        request["question"] = ["It is _ ."] * 4
    expected, found = full.ask(**request), half.ask(**request)
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        assert found[output].dtype == values.dtype, output
        if np.issubdtype(values.dtype, np.floating):
            distance = np.linalg.norm(found[output] - values)
            # Numbers are scaled: what the model computes is their distance
            # from the mean of the training.
            centre = TARGET_MEAN if output == "score" else 0.0
            size = np.linalg.norm(values - centre)
            largest = MAX_DIFFERENCE_IN_BFLOAT16 * size
            assert distance <= largest, output
        else:
            assert found[output].tolist() == values.tolist(), output


def _size_of_variables(export):
    folder = pathlib.Path(export.summary.path, "variables")
    [file] = folder.glob("variables.data-*")
    return file.stat().st_size
