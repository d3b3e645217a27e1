"""Every signature of a SavedModel: what it takes, returns and computes."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.checkpoints import discovery
from albert_tf.metrics.classification import softmax
from tests.heads.rows import IDS, ROWS, batch_of, near

PREDICT = "tensorflow/serving/predict"
# Relative to the norm in float32. The weights are large, so that a wrong one
# changes the outputs altogether.
MAX_DIFFERENCE_IN_BFLOAT16 = 0.1
BYTES_SAVED_PER_VALUE = 2


def test_signatures_have_their_inputs_and_outputs(served):
    path = pathlib.Path(served.summary.path, "saved_model.pb")
    [graph] = saved_model_pb2.SavedModel.FromString(
        path.read_bytes()
    ).meta_graphs

    assert list(graph.meta_info_def.tags) == ["serve"]
    found = {
        name: (_described(one.inputs), _described(one.outputs))
        for name, one in graph.signature_def.items()
        if one.method_name == PREDICT
    }
    expected = served.trained.row.signatures
    assert found == expected | {f"{n}_1": x for n, x in expected.items()}
    assert {*graph.signature_def} - {*found} == {"__saved_model_init_op"}
    assert {*served.summary.signatures} == {*found}


def _described(tensors):
    return {
        name: (
            tf.as_dtype(tensor.dtype).name,
            *(size.size for size in tensor.tensor_shape.dim),
        )
        for name, tensor in tensors.items()
    }


def test_raw_text_has_the_answers_of_python(served):
    row = served.trained.row
    expected = {
        suffix: predictor.predict(row.inputs)
        for suffix, predictor in served.predictors.items()
    }

    assert expected["_1"] == near(served.trained.answers) != near(expected[""])
    for suffix, answers in expected.items():
        found = served.ask(f"{row.signature}{suffix}", row.request())
        for one, answer in zip(row.answers(found), answers, strict=True):
            common = one.keys() & answer.keys()
            assert common
            for name in common:
                assert one[name] == near(_like(answer[name], one[name]))


def _like(answer, served):
    """Returns an answer without the parts that are not served."""
    if isinstance(answer, list):
        return [_like(*pair) for pair in zip(answer, served, strict=True)]
    if isinstance(answer, dict):
        return {name: _like(answer[name], one) for name, one in served.items()}
    return answer


def test_ids_have_the_outputs_of_the_model(served):
    model = served.predictors[""].model
    inputs = batch_of(model, served.trained.predictor.tokenizer)
    ids = {name: inputs[name] for name in IDS}

    found = served.ask("tokens", ids)

    # Traced, so that TensorFlow fuses the same operations in both; without,
    # large logits differ by more than rounding.
    traced = tf.function(
        model.albert if served.trained.name == "pretraining" else model,
        autograph=False,
    )
    outputs = traced({n: tf.constant(v) for n, v in inputs.items()})
    expected = {n: v.numpy() for n, v in outputs.items() if n in found}
    if "vector" in found:
        first = expected["sequence_output"][:, 0]
        norms = np.linalg.norm(first, axis=1, keepdims=True)
        expected["vector"] = first / norms
    if "probabilities" in found:
        expected["probabilities"] = softmax(expected["logits"])
    assert set(found) == set(expected)
    for output, values in expected.items():
        is_by_place = values.shape[:2] == ids["input_mask"].shape
        kept = ids["input_mask"] > 0 if is_by_place else ...
        np.testing.assert_allclose(
            found[output][kept], values[kept], rtol=0, atol=1e-5
        )


def test_a_large_request_may_be_split_and_joined(served):
    if not served.trained.spec.joins_outputs:
        return
    requests = {
        name: tf.constant(([*values] * 4)[:12])
        for name, values in served.trained.row.request().items()
    }
    serve = served.loaded.signatures[served.trained.row.signature]
    names = sorted(serve.structured_outputs)

    # With the scheduler of TF Serving.
    @tf.nondifferentiable_batch_function(
        1, 64, 1_000, allowed_batch_sizes=[5], autograph=False
    )
    def serve_parts(*values):
        outputs = serve(**dict(zip(requests, values, strict=True)))
        return [outputs[name] for name in names]

    found = tf.function(serve_parts, autograph=False)(*requests.values())

    expected = served.ask(served.trained.row.signature, requests)
    for output, values in zip(names, found, strict=True):
        _check_near(values.numpy(), expected[output])


def _check_near(found, expected):
    if np.issubdtype(expected.dtype, np.floating):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


def test_the_requests_that_warm_up_are_answered(served, read_warmup):
    requests = read_warmup(served.summary.path)

    assert len(requests) == 2 * len(served.summary.signatures)
    assert {model for model, _, _ in requests} == {served.trained.name}
    for _, signature, inputs in requests:
        [batch] = {len(values) for values in inputs.values()}
        for output in served.ask(signature, inputs).values():
            assert len(output) == batch in (1, 8)


@pytest.mark.parametrize(
    "trained",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "classifier"))
        for name in ROWS
    ],
    indirect=True,
)
def test_bfloat16_halves_the_matrices_and_hardly_changes_answers(served):
    half = served.again(precision="bfloat16")

    # The next version, beside the other.
    folder = pathlib.Path(served.summary.path).parent
    assert half.summary.path == str(folder / "2")
    weights = discovery.open(served.checkpoint).weights.values()
    num_values = sum(array.size for array in weights if array.ndim > 1)
    saved = _size_of_variables(served) - _size_of_variables(half)
    assert saved == num_values * BYTES_SAVED_PER_VALUE
    question = served.trained.row.signature, served.trained.row.request()
    expected, found = served.ask(*question), half.ask(*question)
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        assert found[output].dtype == values.dtype, output
        if np.issubdtype(values.dtype, np.floating):
            distance = np.linalg.norm(found[output] - values)
            largest = MAX_DIFFERENCE_IN_BFLOAT16 * np.linalg.norm(values)
            assert distance <= largest, output
        else:
            # Among the five likeliest tokens, and beams, ties are near.
            head = discovery.open(served.checkpoint).head().name
            least = 0.5 if head in ("pretraining", "beam_span") else 1
            assert np.mean(found[output] == values) >= least, output


def _size_of_variables(one):
    folder = pathlib.Path(one.summary.path, "variables")
    [file] = folder.glob("variables.data-*")
    return file.stat().st_size
