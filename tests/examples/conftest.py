"""Lets tests import the examples, and gives them servers to ask."""

import http.server
import json
import pathlib
import sys
import threading

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "serving"
sys.path.insert(0, str(EXAMPLES))


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers as TF Serving's REST interface does."""

    def do_GET(self):
        self._reply(200, self.server.status)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, json.loads(body)))
        self._reply(*self.server.answer)

    def _reply(self, code, reply):
        content = json.dumps(reply).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Says nothing."""


class RestServer(http.server.ThreadingHTTPServer):
    """A server with one answer.

    Attributes:
        answer: Code and JSON value of every reply to a request.
        status: JSON value of the status of the model.
        requests: Path and JSON value of each request that came.
    """

    def __init__(self):
        super().__init__(("localhost", 0), _Handler)
        self.answer = 200, {"predictions": [{"score": 0.5}]}
        self.status = {}
        self.requests = []

    @property
    def port(self):
        return str(self.server_port)

    @property
    def address(self):
        """Of the model, as the clients want it."""
        return f"http://localhost:{self.server_port}/v1/models/albert"


@pytest.fixture
def rest_server():
    with RestServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def run_main(monkeypatch, capsys):
    """Runs the `main` of an example; returns what it prints."""

    def run(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        module.main()
        return capsys.readouterr().out

    return run
