"""A folder of `--format=onnx` in Node and in Chromium, beside Python.

Needs Node, Chromium, and `ALBERT_TF_NODE_MODULES`, the folder that
`npm install @huggingface/transformers` makes.
"""

import functools
import http.server
import json
import os
import pathlib
import random
import shutil
import subprocess
import threading

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from tests.exported_models import LABELS

pytest.importorskip("onnxruntime")
pytest.importorskip("tf2onnx")

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = pathlib.Path(os.environ.get("ALBERT_TF_NODE_MODULES", "/nowhere"))
SCRIPTS = ("outputs.js", "node.mjs", "page.html")
HEADS = ("classifier", "token_classifier", "span", "pretraining")
NUM_TEXTS = 200
MINUTES = 10
WORDS = "the cat sat on a mat, old house Zoë by 25 dogs saw (red) in York U.S."
TOLERANCE = 1e-4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (MODULES / "@huggingface").is_dir(),
        reason="ALBERT_TF_NODE_MODULES is not set",
    ),
]


def _inputs(name):
    rng = random.Random(name)

    def text(least, most):
        return " ".join(rng.choices(WORDS.split(), k=rng.randint(least, most)))

    if name == "span":
        return [(text(1, 3), text(1, 6)) for _ in range(NUM_TEXTS)]
    if name == "pretraining":
        pairs = [(text(0, 4), text(0, 4)) for _ in range(NUM_TEXTS)]
        return [(" [MASK] ".join(pair).strip(),) for pair in pairs]
    # Some are longer than the model takes.
    return [(text(1, 16),) for _ in range(NUM_TEXTS)]


@pytest.fixture(scope="module")
def site(tmp_path_factory, export_task):
    """Returns the folder of the page, with a model of each head."""
    folder = tmp_path_factory.mktemp("site")
    for name in HEADS:
        values = {"folder": folder / "checkpoints" / name, "format": "onnx"}
        if name == "classifier":
            values |= {"known": Metadata(labels=LABELS), "labels": None}
        if name == "span":
            # Its pipeline has no limits.
            values |= {"max_seq_length": 64, "max_answer_length": 64}
            values |= {"n_best_size": 64}
        done = export_task(name, **values)
        shutil.copytree(done.summary.path, folder / name)
    inputs = {name: _inputs(name) for name in HEADS}
    (folder / "inputs.json").write_text(json.dumps(inputs))
    shutil.copy(ROOT / "examples" / "browser" / "answer.js", folder)
    for name in SCRIPTS:
        shutil.copy(ROOT / "tests" / "examples" / "browser" / name, folder)
    (folder / "node_modules").symlink_to(MODULES)
    package = MODULES / "@huggingface" / "transformers" / "dist"
    shutil.copy(package / "transformers.min.js", folder)
    for path in (MODULES / "onnxruntime-web" / "dist").glob("*.asyncify.*"):
        shutil.copy(path, folder)
    return folder


def in_node(site):
    subprocess.run(
        ["node", "node.mjs"], cwd=site, check=True, timeout=60 * MINUTES
    )
    return json.loads((site / "outputs.json").read_text())


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what is posted."""

    def do_POST(self):  # noqa: N802
        size = int(self.headers["Content-Length"])
        self.server.received = self.rfile.read(size)
        self.send_response(204)
        self.end_headers()
        self.server.is_done.set()

    def log_message(self, *_):
        pass


def in_chromium(site):
    program = shutil.which("chromium") or pytest.skip("no chromium")
    handler = functools.partial(Handler, directory=site)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        server.is_done = threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [
                program,
                *("--headless", "--no-sandbox", "--disable-gpu"),
                *("--disable-quic", "--no-first-run", "--disable-sync"),
                "--disable-background-networking",
                "--disable-component-update",
                f"--user-data-dir={site / 'chromium'}",
                f"http://localhost:{server.server_port}/page.html",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            assert server.is_done.wait(60 * MINUTES)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    found = json.loads(server.received)
    assert "error" not in found, found["error"]
    return found


def _near(values):
    return pytest.approx(values, abs=TOLERANCE)


def _check_answer(name, found, expected):
    if name == "classifier":
        shares = {one["label"]: one["score"] for one in found}
        assert shares == _near(expected["probabilities"])
        assert found[0]["label"] == expected["prediction"]
    elif name == "pretraining":
        [mask] = expected["masks"]
        for one, other in zip(found, mask, strict=True):
            assert one["score"] == _near(other["probability"])
            assert one["token_str"].strip() == other["token"].strip("▁")
    elif name == "span":
        # Their answer is made of tokens: lower-cased, and with other spaces.
        text = expected["answer"].lower().replace("ë", "e")
        assert found["answer"].split() == text.split()


def _check_outputs(found, expected, num_tokens):
    for name, values in found["outputs"].items():
        rows = expected[name]
        # Of each token, or of the text.
        rows = rows[:num_tokens] if len(values) == num_tokens else rows
        np.testing.assert_allclose(values, rows, atol=TOLERANCE)


@pytest.mark.parametrize("run", [in_node, in_chromium])
def test_answers_are_those_of_python(run, site):
    results = run(site)

    for name in HEADS:
        inputs = _inputs(name)
        python = albert_tf.load_predictor(
            site / "checkpoints" / name,
            head=name,
            max_seq_length=json.loads(
                (site / name / "tokenizer_config.json").read_text()
            )["model_max_length"],
        )
        texts = [one if len(one) > 1 else one[0] for one in inputs]
        answers = python.predict(texts)
        firsts, *seconds = zip(*inputs, strict=True)
        batch = python.tokenizer.batch(
            firsts, *seconds, max_seq_length=python.data.max_seq_length
        )
        outputs = {} if name == "pretraining" else python.model(batch)
        rows = zip(results[name], answers, strict=True)
        for index, (found, answer) in enumerate(rows):
            num_tokens = len(found["ids"])
            _check_answer(name, found["answer"], answer)
            if outputs:
                own = {n: rows[index] for n, rows in outputs.items()}
                _check_outputs(found, own, num_tokens)
                ids = batch["input_ids"][index, :num_tokens].tolist()
                assert found["ids"] == ids
                assert batch["input_mask"][index].sum() == num_tokens
