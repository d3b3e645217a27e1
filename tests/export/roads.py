"""How each road answers the texts of `test_roads.py`.

A road is a function of a kind of model, the folder of its checkpoint, and an
empty folder. It returns answers as `Predictor.predict` does.
"""

import functools
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.export import saved_model
from albert_tf.predict import __main__ as predict
from tests.exported_models import make_config
from tests.heads.rows import ROWS

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = os.environ.get("ALBERT_TF_NODE_MODULES", "/nowhere")
WORDS = "the cat sat on a mat, old house Zoë by 25 dogs saw (red) in York U.S."
RANDOM = random.Random(64)
# Some are longer than the models take.
TEXTS = [
    " ".join(RANDOM.choices(WORDS.split(), k=RANDOM.randint(1, 9)))
    for _ in range(100)
]


def python(kind, source, _):
    return albert_tf.load_predictor(source, **kind.options).predict(TEXTS)


def command(kind, source, _):
    given = [f"--{name}={value}" for name, value in kind.options.items()]
    texts = io.BytesIO("\n".join(TEXTS).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(texts))
        patch.setattr(sys, "stdout", io.StringIO())
        assert predict.main([str(source), *given]) == 0
        return [*map(json.loads, sys.stdout.getvalue().splitlines())]


def export(kind, source, folder, file_format):
    values = {"exit_patience": kind.patience} if kind.patience else {}
    if kind.depth:
        values["depth"] = (str(kind.depth),)
    config = make_config(folder / "x", source, format=file_format, **values)
    return saved_model.export(config).path


def of_saved_model(kind, source, folder):
    return served(kind, export(kind, source, folder, "saved_model"))


def served(kind, path):
    """The answers of a SavedModel."""
    loaded = tf.saved_model.load(path)
    ask = loaded.signatures["serving_default"]
    texts = tf.constant(TEXTS)
    inputs = {"text_a": texts, "text_b": tf.fill([len(TEXTS)], "")}
    if kind.head == "token_classifier":
        inputs = {"text": texts}
    found = {name: one.numpy() for name, one in ask(**inputs).items()}
    assert ("num_layers" in found) == bool(kind.patience)
    found.pop("num_layers", None)
    if kind.head == "encoder":
        return [{"vector": row} for row in found["vector"]]
    if kind.known.labels == ():
        return [{"prediction": score} for score in found["score"].tolist()]
    answers = [*ROWS[kind.head].answers(found)]
    for text, answer in zip(TEXTS, answers, strict=True):
        for one in answer.get("entities", ()):
            one["text"] = text[one["start"] : one["end"]]
        if kind.known.multi_label:
            labels = filter(None, answer["prediction"])
            answer["prediction"] = [label.decode() for label in labels]
        elif "prediction" in answer:
            answer["prediction"] = answer["prediction"] or None
    return answers


def of_export(file_format, kind, source, folder):
    path = export(kind, source, folder, file_format)
    return albert_tf.load_predictor(path).predict(TEXTS)


def in_process(command, *, cwd=ROOT, **environment):
    """Runs a program that reads the texts, and prints answers."""
    pipe = {"input": json.dumps(TEXTS), "stdout": subprocess.PIPE}
    environment = os.environ | environment
    done = subprocess.run(
        command, check=True, text=True, cwd=cwd, env=environment, **pipe
    )
    return json.loads(done.stdout.splitlines()[-1])


ASK_APP = """
import json, sys
import onnx_app
from fastapi.testclient import TestClient
client, texts = TestClient(onnx_app.app), json.load(sys.stdin)
parts = [texts[i : i + 25] for i in range(0, len(texts), 25)]
answers = [client.post("/predict", json={"texts": x}).json() for x in parts]
assert "tensorflow" not in sys.modules
print(json.dumps(sum(answers, [])))
"""
ASK_NODE = """
import { readFileSync } from "node:fs";
import { load } from "./answer.js";
const { answer } = await load("./", "model");
const answers = [];
for (const text of JSON.parse(readFileSync(0))) {
  const found = await answer(text);
  answers.push(found.tolist ? found.tolist()[0] : found);
}
console.log(JSON.stringify(answers));
"""
ASK_ENGINE = """
import json, sys
import albert_tf
folder, options = sys.argv[1:]
predictor = albert_tf.load_predictor(folder, **json.loads(options))
answers = predictor.predict(json.load(sys.stdin))
assert "tensorflow" not in sys.modules
print(json.dumps(answers, default=lambda array: array.tolist()))
"""


def onnx_app(_, source, folder):
    pytest.importorskip("fastapi.testclient", exc_type=ImportError)
    path = str(folder / "model.onnx")
    albert_tf.load_model(source).export(path, format="onnx")
    paths = os.pathsep.join([str(ROOT / "examples" / "serving"), *sys.path])
    return in_process(
        [sys.executable, "-c", ASK_APP],
        RUN=str(source),
        MODEL=path,
        PYTHONPATH=paths,
    )


def javascript(kind, source, folder):
    if not os.path.isdir(os.path.join(MODULES, "@huggingface")):
        pytest.skip("ALBERT_TF_NODE_MODULES is not set")
    shutil.copytree(export(kind, source, folder, "onnx"), folder / "model")
    shutil.copy(ROOT / "examples" / "browser" / "answer.js", folder)
    (folder / "node_modules").symlink_to(MODULES)
    node = ["node", "--input-type=module", "-e", ASK_NODE]
    found = in_process(node, cwd=folder)
    if kind.head == "encoder":
        return [{"vector": np.array(one)} for one in found]
    if kind.known.labels == ():
        return [{"prediction": answer[0]["score"]} for answer in found]
    return [
        {"probabilities": {one["label"]: one["score"] for one in answer}}
        for answer in found
    ]


def on_engine(engine, kind, source, _):
    executable = sys.executable
    if engine == "jax":
        pytest.importorskip("jax")
    elif not (executable := os.environ.get("ALBERT_TF_PEER_PYTHON")):
        pytest.skip("ALBERT_TF_PEER_PYTHON names no Python with PyTorch")
    arguments = str(source), json.dumps(kind.options)
    return in_process(
        [executable, "-c", ASK_ENGINE, *arguments],
        KERAS_BACKEND=engine,
        JAX_PLATFORMS="cpu",
        # As in `tests/devices/test_engine.py`.
        XLA_FLAGS="--xla_backend_optimization_level=0",
    )


# Each with the largest difference of its numbers.
ROADS = {
    "python": (python, 1e-5),
    "command": (command, 1e-5),
    "jax": (functools.partial(on_engine, "jax"), 1e-5),
    "torch": (functools.partial(on_engine, "torch"), 1e-5),
    "saved_model": (of_saved_model, 1e-5),
    "litert": (functools.partial(of_export, "litert"), 1e-4),
    "onnx": (functools.partial(of_export, "onnx"), 1e-4),
    "onnx_app": (onnx_app, 1e-4),
    "javascript": (javascript, 1e-4),
}
