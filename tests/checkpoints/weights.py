"""Arrays of models by TF1 name, their conversion and comparison."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from albert_tf.checkpoints import conversion, tf1, variable_names
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import CONFIG_FILE

PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"


def weights_of(model):
    """Returns the weights of a model by TF1 name."""
    named = variable_names.variables_by_tf1_name(model.weights)
    return {name: np.asarray(variable) for name, variable in named.items()}


def convert(input_path, output_path, output_format, **fields):
    """Converts a checkpoint; returns the summary."""
    return conversion.convert(
        ConversionConfig(
            input_path=str(input_path),
            output_path=str(output_path),
            output_format=output_format,
            **fields,
        )
    )


def write_sentence_transformers(
    folder, modes, others=(), *, model="", texts=None, **pooling
):
    """Writes the files that sentence-transformers has beside a model's."""
    kinds = {"Transformer": model, "Pooling": "pool"} | dict.fromkeys(others)
    modules = [
        {"path": path or "", "type": f"sentence_transformers.models.{kind}"}
        for kind, path in kinds.items()
    ]
    pooling |= {"include_prompt": True, "pooling_mode_lasttoken": False}
    pooling |= {f"pooling_mode_{mode}": True for mode in modes}
    (folder / "pool").mkdir()
    for name, values in {
        "modules.json": modules,
        "pool/config.json": pooling,
        f"./{model}/sentence_bert_config.json": {"max_seq_length": 6}
        | (texts or {}),
    }.items():
        (folder / name).write_text(json.dumps(values))


def starting(arrays, *prefixes):
    """Returns the arrays whose names begin with one of the prefixes."""
    return {n: a for n, a in arrays.items() if n.startswith(prefixes)}


def check_same(found, expected):
    """Checks that arrays have the same names and the same bits."""
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].dtype == array.dtype, name


def check_close(found, expected, what):
    """Checks that no value differs by more than 1e-5 of the largest one."""
    difference = np.abs(np.asarray(found) - expected).max()
    assert difference <= 1e-5 * np.abs(expected).max(), what


def run_transformers(script, *arguments):
    """Runs a script in a Python that has transformers and PyTorch.

    Transformers is not a dependency: ALBERT_TF_PEER_PYTHON names a Python
    that has it, which `make test-slow` does. Without it the test is skipped.
    Returns what the script prints.
    """
    python = os.environ.get("ALBERT_TF_PEER_PYTHON")
    if not python:
        pytest.skip("ALBERT_TF_PEER_PYTHON names no Python with transformers")
    done = subprocess.run(
        [python, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask_transformers(script, *arguments, batch, folder):
    """Asks a model of transformers about a batch, by `run_transformers`.

    Args:
        script: Gets the arguments, and paths of the batch (by the names that
            transformers has for it) and of the arrays to write, `.npz` both.
        *arguments: Given to the script first.
        batch: Arrays by our names.
        folder: For the two files.

    Returns:
        The arrays that the script has written.
    """
    names = {
        "input_ids": "input_ids",
        "input_mask": "attention_mask",
        "segment_ids": "token_type_ids",
    }
    question, answers = folder / "question.npz", folder / "answers.npz"
    np.savez(question, **{theirs: batch[n] for n, theirs in names.items()})
    run_transformers(script, *arguments, question, answers)
    with np.load(answers) as file:
        return dict(file)


def save(folder, config, arrays, **facts):
    """Writes a checkpoint, and what is known of it; returns the folder."""
    tf1.write(folder / "model", arrays)
    config.to_json_file(folder / CONFIG_FILE)
    Metadata(**facts).write(folder)
    return folder


def assert_same(found, model):
    """Checks that two models are of one class, config and weights."""
    assert type(found) is type(model)
    assert found.config == model.config
    for ours, theirs in zip(found.weights, model.weights, strict=True):
        assert ours.path == theirs.path
        np.testing.assert_array_equal(ours, theirs)
