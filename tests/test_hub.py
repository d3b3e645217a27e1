"""Checkpoints by name, fetched by the client from a server on this machine."""

import functools
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest
from huggingface_hub.utils import filter_repo_objects

import albert_tf
from albert_tf import hub
from albert_tf.checkpoints import discovery, huggingface
from albert_tf.checkpoints.metadata import Metadata
from tests.exported_models import write_checkpoint
from tests.inference.test_predictor import CONFIG

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers what the client asks of one repository, `some/albert`."""

    def __init__(self, folder, seen, *arguments):
        self.folder, self.seen = folder, seen
        super().__init__(*arguments)

    def log_message(self, *_):
        """Nothing is printed."""

    def do_HEAD(self):
        self._answer(has_body=False)

    def do_GET(self):
        self._answer(has_body=True)

    def _answer(self, *, has_body):
        self.seen.append(self.path)
        if self.path.startswith("/api/models/some/albert"):
            names = sorted(os.listdir(self.folder))
            found = {
                "id": "some/albert",
                "sha": COMMIT,
                "siblings": [{"rfilename": name} for name in names],
            }
            if "/tree/" in self.path:
                sizes = {n: (self.folder / n).stat().st_size for n in names}
                found = [
                    {"type": "file", "path": n, "size": s, "oid": COMMIT}
                    for n, s in sizes.items()
                ]
            content = json.dumps(found).encode()
            headers = {"Content-Type": "application/json"}
        elif self.path.startswith("/some/albert/resolve/"):
            path = self.folder / self.path.rpartition("/")[2]
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            headers = {"ETag": f'"{digest}"', "X-Repo-Commit": COMMIT}
        else:
            self.send_error(404)
            return
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if has_body:
            self.wfile.write(content)


@pytest.fixture
def served(tmp_path, tiny_spm_model):
    """A server with a classifier: its address, and the paths it was asked."""
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    write_checkpoint(
        tmp_path / "classifier",
        model,
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(labels=("ham", "spam")),
    )
    folder = tmp_path / "repository"
    folder.mkdir()
    huggingface.write(str(folder), discovery.open(tmp_path / "classifier"))
    (folder / "pytorch_model.bin").write_bytes(b"pickled")
    seen = []
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Hub, folder, seen)
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen, folder
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def run(tmp_path):
    """Runs Python with a cache of its own."""

    def start(address, *arguments):
        client = {
            "HF_ENDPOINT": address,
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_DISABLE_XET": "1",
        }
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=os.environ | client,
        )

    return start


FETCH = """
import sys
from albert_tf import hub
print(hub.fetch(sys.argv[1]))
"""


def test_a_checkpoint_of_the_hub_answers(served, run):
    address, seen, folder = served
    expected = albert_tf.load_predictor(folder).predict("A house.")

    for name in ("hf://some/albert", f"hf://some/albert@{COMMIT}"):
        done = run(address, "-c", FETCH, name)

        assert done.returncode == 0, done.stderr
        fetched = pathlib.Path(done.stdout.strip())
        assert fetched.name == COMMIT
    assert albert_tf.load_predictor(fetched).predict("A house.") == expected
    assert not [path for path in seen if "pytorch_model" in path]


def test_a_name_that_is_not_there_is_one_line(served, run):
    name = "hf://some/other"

    done = run(
        served[0],
        "convert_checkpoint.py",
        f"--input_path={name}",
        "--output_path=nowhere",
        "--output_format=tf1",
    )

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: '{name}' cannot be fetched (")
    assert "by hand" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_branch_with_pickles_alone_names_the_pull_request(served, run):
    address, _, folder = served
    (folder / "model.safetensors").unlink()

    done = run(address, "-c", FETCH, "hf://some/albert")

    assert "pass hf://some/albert@refs/pr/1." in done.stderr


def test_pooling_is_fetched_and_nothing_pickled():
    names = ["0_Transformer/model.safetensors", "1_Pooling/config.json"]
    names += ["modules.json", "model.safetensors"]
    pickled = ["pytorch_model.bin", "1_Dense/pytorch_model.bin"]

    found = filter_repo_objects(names + pickled, allow_patterns=hub._PATTERNS)

    assert [*found] == names


def test_other_paths_stay():
    assert discovery.local_path("some/folder") == "some/folder"
