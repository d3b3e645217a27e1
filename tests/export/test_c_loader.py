"""SavedModels answer a program in C, without Python, as they answer Python.

The program uses the loader that TF Serving uses, and TensorFlow Text's
libraries of operations.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.export import saved_model
from albert_tf.export.export_job import ExportJob
from albert_tf.export.signature import DEFAULT

SOURCE = pathlib.Path(__file__).with_name("load_saved_model.c")
CHECKPOINT = (
    pathlib.Path(__file__).resolve().parents[1]
    / "parity"
    / "model_base"
    / "model.ckpt-best"
)
# Of TensorFlow Text, those with the operations that an export may have.
TEXT_LIBRARIES = [
    "_normalize_ops.so",
    "_sentencepiece_tokenizer.so",
    "_wordpiece_tokenizer.so",
]
TEXTS = ["", "The café.", "Two words, 1,234 \U0001f600", "a" * 3000]
HARD_SIZES = [1, 2, 63, 64, 65, 511, 4_096, 100_000]


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


@pytest.fixture(scope="session")
def export(tiny_spm_model, tmp_path_factory):
    """A small encoder that takes raw text."""
    job = ExportJob(
        init_checkpoint=str(CHECKPOINT),
        export_dir=str(tmp_path_factory.mktemp("export")),
        spm_model_file=str(tiny_spm_model),
    )
    return pathlib.Path(saved_model.run(job).path)


@pytest.fixture(scope="session")
def text_operations(tiny_spm_model, tmp_path_factory):
    """A SavedModel with an operation of TensorFlow Text."""
    module = tf.Module()
    module.tokenizer = tensorflow_text.SentencepieceTokenizer(
        tiny_spm_model.read_bytes()
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def pieces(texts):
        found = module.tokenizer.tokenize(texts).flat_values
        return {"pieces": found, "same_texts": tf.identity(texts)}

    folder = tmp_path_factory.mktemp("text_operations")
    tf.saved_model.save(module, folder, signatures=pieces)
    return folder


class Loader:
    """The program and a SavedModel, called like a signature."""

    def __init__(self, program, folder, *, signature=DEFAULT, libraries=()):
        content = (folder / "saved_model.pb").read_bytes()
        graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]
        definition = graph.signature_def[signature]
        self.signature = signature
        self.inputs = {n: t.name for n, t in definition.inputs.items()}
        self.outputs = {t.name: n for n, t in definition.outputs.items()}
        self._command = [program, folder]
        for flag, values in {
            "-l": libraries,
            "-i": self.inputs.values(),
            "-o": self.outputs,
        }.items():
            for value in values:
                self._command += [flag, value]

    def run(self, requests, *, tail=b""):
        """Runs the program on requests, and `tail` after them."""
        return subprocess.run(
            self._command,
            input=b"".join(map(self._encode, requests)) + tail,
            capture_output=True,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
            check=False,
        )

    def __call__(self, requests):
        """Returns the outputs of each request."""
        done = self.run(requests)
        assert done.returncode == 0, done.stderr
        return [self._decode(line) for line in done.stdout.splitlines()]

    def _encode(self, request):
        assert request.keys() == self.inputs.keys()
        tensors = (np.array(request[name], object) for name in self.inputs)
        return b"".join(map(_tensor, tensors))

    def _decode(self, line):
        return {
            self.outputs[name]: _array(found["values"]).reshape(found["shape"])
            for name, found in json.loads(line).items()
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


def _assert_answers_are_pythons(loader, folder, requests):
    # What is not kept is deleted, and with it the variables.
    model = tf.saved_model.load(folder)
    signature = model.signatures[loader.signature]

    answers = loader(requests)

    assert len(answers) == len(requests)
    for request, answer in zip(requests, answers, strict=True):
        inputs = {name: tf.constant(texts) for name, texts in request.items()}
        expected = signature(**inputs)
        assert answer.keys() == expected.keys()
        for name, value in expected.items():
            if value.dtype == tf.string:
                assert answer[name].tolist() == value.numpy().tolist()
            else:
                np.testing.assert_allclose(answer[name], value, atol=1e-5)


def test_raw_text(program, export):
    loader = Loader(program, export)
    requests = [
        {"text_a": TEXTS, "text_b": TEXTS[::-1]},
        {"text_a": TEXTS[:1], "text_b": [""]},
    ]

    _assert_answers_are_pythons(loader, export, requests)


def test_strings_come_back_from_raw_text(program, export):
    loader = Loader(program, export, signature="fill_mask")
    requests = [{"text": ["A [MASK] and [MASK].", "[MASK]"]}, {"text": TEXTS}]

    _assert_answers_are_pythons(loader, export, requests)


def _hard_strings():
    rng = random.Random(1)
    yield b"\0"
    yield b"a\0b"
    yield b"\xff\xfe\xc3\x28\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82"
    for size in HARD_SIZES:
        yield rng.randbytes(size)
        yield b"\0" * size
        yield ("word " * size)[:size]
        yield "\u0301" * size
        yield "".join(rng.choices("aé \u0627漢\U0001f600", k=size))


def test_any_string_of_up_to_100_000_characters(program, export):
    loader = Loader(program, export)
    requests = [{"text_a": [t], "text_b": [""]} for t in _hard_strings()]
    requests += [{"text_a": ["b"], "text_b": [t]} for t in _hard_strings()]

    _assert_answers_are_pythons(loader, export, requests)


@pytest.mark.parametrize(
    ("signature", "request_", "message"),
    [
        (DEFAULT, {"text_a": ["a", "b"], "text_b": ["c"]}, b"as many strings"),
        ("fill_mask", {"text": ["[MASK]" * 9]}, b"at most 8 [MASK]"),
    ],
)
def test_an_impossible_request_is_an_invalid_argument(
    program, export, signature, request_, message
):
    done = Loader(program, export, signature=signature).run([request_])

    assert done.returncode == 1
    assert b"\nINVALID_ARGUMENT: " in done.stderr
    assert message in done.stderr


def test_operations_of_tensorflow_text(program, text_operations):
    folder = pathlib.Path(tensorflow_text.__file__).parent / "python" / "ops"
    libraries = [folder / name for name in TEXT_LIBRARIES]
    loader = Loader(program, text_operations, libraries=libraries)
    requests = [{"texts": [*TEXTS, b"\0 \xff", '"\\\n']}]

    _assert_answers_are_pythons(loader, text_operations, requests)


def test_an_unknown_operation_is_named(program, text_operations):
    done = Loader(program, text_operations).run([])

    assert done.returncode == 1
    assert b"NOT_FOUND: Op type not registered 'Sentencep" in done.stderr


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b"x\n", b"not a shape: x"),
        (b"1 2", b"the line of a shape is cut: 1 2"),
        (b"1\n3x", b"not a netstring: its size is missing"),
        (b"1\n3:ab,\n", b"not a netstring: it is cut"),
        (b"1\n2:ab,3", b"no line ends after a tensor"),
        (b"1\n2:ab,\n", b"a request is cut"),
    ],
)
def test_a_damaged_request_is_refused(program, export, tail, message):
    done = Loader(program, export).run([], tail=tail)

    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: "),
        (["{export}", "-i", "x:0"], "usage: "),
        (["nothing", "-i", "x:0", "-o", "y:0"], "NOT_FOUND: "),
        (["{export}", "-l", "x.so", "-i", "x:0", "-o", "x:0"], "NOT_FOUND: "),
        (["{export}", "-i", "x", "-o", "x:0"], "not the name of a tensor"),
        (["{export}", "-i", "x:0", "-o", "x:0"], "no such tensor"),
        (
            ["{export}", "-i", "tokens_input_ids:0", "-o", "x:0"],
            "no such tensor in the graph: x:0",
        ),
        (
            ["{export}"] + ["-i", "tokens_input_ids:0"] * 17 + ["-o", "x:0"],
            "too many tensors",
        ),
        (
            ["{export}"]
            + ["-i", "tokens_input_ids:0"]
            + ["-o"]
            + ["tokens_input_ids:0"],
            "an input must hold strings: tokens_input_ids:0",
        ),
    ],
)
def test_impossible_arguments_are_refused(program, export, arguments, message):
    done = subprocess.run(
        [program, *(a.format(export=export) for a in arguments)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert message in done.stderr
