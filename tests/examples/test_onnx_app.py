"""The FastAPI example answers as `load_predictor` does, without TensorFlow."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.text.tokenizer import load_tokenizer
from tests import tiny

# Neither is among the packages of the tests.
pytest.importorskip("onnxruntime")
pytest.importorskip("tf2onnx")
pytest.importorskip("fastapi.testclient", exc_type=ImportError)

EXAMPLES = os.path.join(os.path.dirname(__file__), "../../examples")
TEXTS = ["Where do I find my invoices?", "It crashes as soon as I log in. " * 9]
ASK = """
import json, sys
import onnx_app
from fastapi.testclient import TestClient
client = TestClient(onnx_app.app)
answers = [client.post("/predict", json={"texts": texts}).json()
           for texts in json.loads(sys.argv[1])]
assert "tensorflow" not in sys.modules
print(json.dumps(answers))
"""


@pytest.mark.filterwarnings("ignore")
def test_the_example_answers_as_the_predictor_does(tiny_spm_model, tmp_path):
    vocabulary = load_tokenizer(spm_model_file=tiny_spm_model)
    config = tiny.config(
        vocab_size=vocabulary.vocab_size, max_position_embeddings=24
    )
    config.to_json_file(tmp_path / "config.json")
    trained = albert_tf.finetune(
        "custom",
        train_file=os.path.join(EXAMPLES, "messages.csv"),
        text_columns=["text"],
        label_column="kind",
        num_train_steps=2,
        max_seq_length=24,
        albert_config_file=str(tmp_path / "config.json"),
        spm_model_file=str(tiny_spm_model),
        output_dir=str(tmp_path / "run"),
    )
    known = Metadata.read(trained.weights)
    # Other probabilities, and the unlikeliest label: as an evaluation may
    # choose them.
    thresholds = (0.0, *[1.0] * (len(known.labels) - 1))
    chosen = {"temperature": 0.1, "thresholds": thresholds}
    dataclasses.replace(known, **chosen).write(trained.weights)
    model = albert_tf.load_model(tmp_path / "run")
    model.export(str(tmp_path / "m.onnx"), format="onnx")

    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps([TEXTS, ["x"] * 33, []])],
        env=os.environ
        | {
            "RUN": str(tmp_path / "run"),
            "MODEL": str(tmp_path / "m.onnx"),
            "PYTHONPATH": os.pathsep.join(
                [os.path.join(EXAMPLES, "serving"), *sys.path]
            ),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    answers, *refused = json.loads(done.stdout.splitlines()[-1])
    assert ["detail" in one for one in refused] == [True, True]
    expected = albert_tf.load_predictor(tmp_path / "run").predict(TEXTS)
    for ours, theirs in zip(answers, expected, strict=True):
        assert ours["prediction"] == theirs["prediction"]
        assert ours["probabilities"] == pytest.approx(
            theirs["probabilities"], abs=1e-5
        )
