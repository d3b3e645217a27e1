"""SavedModels answer a program in C, without Python, as they answer Python.

The program uses the loader that TF Serving uses.
"""

import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.serving.signature import DEFAULT

SOURCE = pathlib.Path(__file__).with_name("load_saved_model.c")
# TF Serving has these built in.
LIBRARIES = [
    pathlib.Path(tf_text.__file__).parent / "python" / "ops" / name
    for name in (
        "_regex_split_ops.so",
        "_sentencepiece_tokenizer.so",
        "_wordpiece_tokenizer.so",
    )
]
TEXTS = ["", "The café.", "Two words, 1,234 \U0001f600", "a" * 3000]
HARD_SIZES = [1, 64, 511]
LARGE_SIZE, LARGEST_SIZE = 20_000, 100_000
RAW_TEXT = [
    ("pretraining", DEFAULT),
    ("pretraining", "fill_mask"),
    ("classifier", DEFAULT),
    ("token_classifier", DEFAULT),
    ("chinese", DEFAULT),
    ("span", DEFAULT),
    ("beam_span", DEFAULT),
    ("multiple_choice", DEFAULT),
]
NUM_CHOICES = 4
WRONG_RANKS = [(), (2, 1), (1, 2), (0, 1), (2, 4, 1)]
# Where the other inputs have two rows.
WRONG_SHAPES = [*WRONG_RANKS, (0,), (1,), (3,), (0, 4), (2, 3)]
TIMEOUT_SECONDS = 600


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The program in C, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (cc or gcc) on this machine")
    folder = pathlib.Path(tf.sysconfig.get_lib())
    libraries = [
        next(folder.glob(f"libtensorflow_{name}.*"), None)
        for name in ("cc", "framework")
    ]
    if None in libraries:
        pytest.skip(f"no libtensorflow_cc in {folder}: another TensorFlow")
    path = tmp_path_factory.mktemp("c_loader") / SOURCE.stem
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(
        [compiler, "-std=c11", "-O1", *warnings, "-o", path, SOURCE]
        + [f"-I{tf.sysconfig.get_include()}"]
        + [*libraries, f"-Wl,-rpath,{folder}"],
        check=True,
    )
    return path


class Loader:
    """The program and a SavedModel, called like a signature."""

    def __init__(self, program, folder, signature):
        content = (folder / "saved_model.pb").read_bytes()
        graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]
        definition = graph.signature_def[signature]
        self.signature = signature
        self.inputs = {n: t.name for n, t in definition.inputs.items()}
        self.outputs = {t.name: n for n, t in definition.outputs.items()}
        self._command = [program, folder]
        for library in LIBRARIES:
            self._command += ["-l", library]
        for value in self.inputs.values():
            self._command += ["-i", value]
        for value in self.outputs:
            self._command += ["-o", value]

    def __call__(self, requests):
        """Returns the outputs of each request, or a message."""
        requests = [*requests]
        done = subprocess.run(
            self._command,
            input=b"".join(map(self._encode, requests)),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(requests)
        return [
            answer.get("error") or self._decode(answer) for answer in answers
        ]

    def _encode(self, request):
        assert request.keys() == self.inputs.keys()
        tensors = (np.array(request[name], object) for name in self.inputs)
        return b"".join(map(_tensor, tensors))

    def _decode(self, answer):
        return {
            self.outputs[name]: _array(found["values"]).reshape(found["shape"])
            for name, found in answer.items()
        }


def _array(values):
    """Returns numbers as they are, and strings as the bytes they stand for."""
    if any(isinstance(value, str) for value in values):
        return np.array([value.encode("latin-1") for value in values], object)
    return np.array(values)


def _tensor(strings):
    shape = " ".join(map(str, strings.shape)).encode()
    encoded = [s if isinstance(s, bytes) else s.encode() for s in strings.flat]
    return shape + b"\n" + b"".join(map(_netstring, encoded)) + b"\n"


def _netstring(content):
    return b"%d:%b," % (len(content), content)


def _assert_equal(answers, expected):
    for answer, wanted in zip(answers, expected, strict=True):
        assert answer.keys() == wanted.keys()
        for name, values in wanted.items():
            if values.dtype == object:
                assert answer[name].tolist() == values.tolist()
            else:
                np.testing.assert_allclose(answer[name], values, atol=1e-5)


def _hard_strings(size):
    """Yields strings of a size, in characters or bytes."""
    rng = random.Random(size)
    yield rng.randbytes(size)
    yield b"\0" * size
    yield ("word " * size)[:size]
    yield "\u0301" * size
    yield "".join(rng.choices("aé \u0627漢\U0001f600", k=size))


def _request(loader, text, *, size=1, name=None):
    """Returns a request with a text for the input `name`, or for all."""
    return {
        own: np.full(
            (size, NUM_CHOICES) if own == "options" else size,
            text if name in (own, None) else "A plain _ text.",
            object,
        )
        for own in loader.inputs
    }


def _requests_with(loader, texts):
    """Returns requests of all texts, in the place of each input in turn."""
    requests = []
    for name in loader.inputs:
        request = _request(loader, "", size=len(texts), name=name)
        request[name].reshape(len(texts), -1)[:, 0] = texts
        requests.append(request)
    return requests


def _good_requests(loader):
    text = "Where did the snow fall? _ [MASK] On 1,234 hills."
    yield _request(loader, text, size=2)
    yield _request(loader, "", size=0)
    yield _request(loader, "[MASK]" * 9)
    hard = [text for size in HARD_SIZES for text in _hard_strings(size)]
    hard += [b"a\0b", b"\xff\xfe\xc3\x28\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82"]
    yield from _requests_with(loader, TEXTS + hard)


def _bad_requests(loader):
    text = "A text."
    plain = _request(loader, text, size=2)
    for shape in WRONG_RANKS:
        yield {name: np.full(shape, text, object) for name in plain}
    for name in plain:
        others = _request(loader, text, size=2)
        del others[name]
        for shape in WRONG_SHAPES if others else WRONG_RANKS:
            yield {**others, name: np.full(shape, text, object)}
    if "options" in plain:
        # As many options as three questions have.
        options = np.full((4, NUM_CHOICES - 1), text, object)
        yield {**_request(loader, text, size=4), "options": options}


class Asked:
    """An export, what the program asked one of its signatures, the answers.

    The bad requests come first, so that no good one is the worse for
    them; the long texts come last.
    """

    def __init__(self, exported, loader):
        self.exported = exported
        self.loader = loader
        self.bad = [*_bad_requests(loader)]
        self.good = [*_good_requests(loader)]
        texts = itertools.cycle(_hard_strings(LARGE_SIZE))
        large = [
            _request(loader, next(texts), name=name) for name in loader.inputs
        ]
        answers = iter(loader(self.bad + self.good + large))
        self.refusals = [next(answers) for _ in self.bad]
        self.answers = [next(answers) for _ in self.good]
        self.large_answers = [*answers]


@pytest.fixture(scope="module", params=RAW_TEXT, ids="-".join)
def asked(request, program, exported, export_task, tiny_chinese_vocabulary):
    name, signature = request.param
    if name == "chinese":
        export = export_task("classifier", tiny_chinese_vocabulary)
    else:
        export = exported(name)
    folder = pathlib.Path(export.summary.path)
    return Asked(export, Loader(program, folder, signature))


def test_a_bad_request_is_an_invalid_argument(asked):
    for request, answer in zip(asked.bad, asked.refusals, strict=True):
        shapes = {name: values.shape for name, values in request.items()}
        assert isinstance(answer, str), shapes
        assert answer.startswith("INVALID_ARGUMENT: "), shapes


def test_every_raw_text_is_answered_as_python_is(asked):
    signature = asked.loader.signature
    expected = [asked.exported.ask(signature, **one) for one in asked.good]

    _assert_equal(asked.answers, expected)


def _assert_answered(answers, size):
    for answer in answers:
        assert isinstance(answer, dict), answer
        for name, values in answer.items():
            assert values.shape[0] == size, name
            assert values.dtype == object or np.isfinite(values).all(), name


def test_a_long_text_is_answered(asked):
    _assert_answered(asked.large_answers, 1)


@pytest.mark.slow
def test_every_text_of_100_000_characters_is_answered(asked):
    texts = [*_hard_strings(LARGEST_SIZE)]

    answers = asked.loader(_requests_with(asked.loader, texts))

    _assert_answered(answers, len(texts))
