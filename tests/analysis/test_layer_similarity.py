import json
import pathlib
import shutil

import numpy as np
import pytest

from albert_tf.analysis import layer_similarity
from albert_tf.modeling.albert_model import AlbertModel
from tests import tiny
from tests.cli.conftest import run_script, start_script  # noqa: F401
from tests.data import records
from tests.data.conftest import write_records  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "tests" / "parity" / "model_base"


def test_means_are_those_of_all_tokens_and_of_no_padding():
    model = AlbertModel(tiny.config(), output_hidden_states=True)
    batch = {
        name: tiny.batch()[name]
        for name in ("input_ids", "input_mask", "segment_ids")
    }

    # Batches of five and of three tokens.
    found = layer_similarity.measure(
        model, [{k: v[[row]] for k, v in batch.items()} for row in (0, 1)]
    )

    states = [np.asarray(x, "float64") for x in model(batch)["hidden_states"]]
    tokens = [*zip(*np.nonzero(batch["input_mask"]), strict=True)]
    assert len(tokens) == 8
    for layer in range(3):
        pairs = [(states[layer][t], states[layer + 1][t]) for t in tokens]
        distances = [np.linalg.norm(y - x) for x, y in pairs]
        angles = [
            np.degrees(np.arccos(x @ y / np.sqrt((x @ x) * (y @ y))))
            for x, y in pairs
        ]
        assert found.l2_distance[layer] == pytest.approx(np.mean(distances))
        assert found.degrees[layer] == pytest.approx(np.mean(angles))
        assert np.std(angles) > 1


def test_texts_without_a_token_are_an_error():
    model = AlbertModel(tiny.config(), output_hidden_states=True)

    with pytest.raises(ValueError, match="no token to measure"):
        layer_similarity.measure(model, [])


@pytest.fixture
def run(tmp_path, write_records, run_script):  # noqa: F811
    """Runs the command on two tiny checkpoints; later flags override."""
    for name in ("albert", "other_$x$"):
        shutil.copytree(CHECKPOINT, tmp_path / name)
    rows = [records.static_record(i) for i in (5, 6, 7)]
    write_records("records", rows, tokenizer_hash="abc")

    def start(*flags):
        return run_script(
            "albert_tf/analysis/layer_similarity.py",
            "--init_checkpoint=albert,other_$x$",
            "--input_file=records",
            "--output_prefix=figure",
            *flags,
            folder=tmp_path,
        )

    return start


def test_checkpoints_are_measured_and_drawn(run, tmp_path):
    done = run("--eval_batch_size=2")

    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "figure.json").read_text())
    one, other = found.values()
    assert [*found] == ["albert", "other_$x$"]
    assert one == other
    assert len(one["degrees"]) == len(one["l2_distance"]) > 1
    assert f"{one['degrees'][0]:7.2f} degrees" in done.stdout
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--init_checkpoint=", "--init_checkpoint must be given"),
        ("--input_file=", "--input_file must be given"),
        ("--output_prefix=", "--output_prefix must be given"),
        ("--output_prefix=taken", "'taken.png' exists. Remove it, or"),
        ("--init_checkpoint=albert,albert", "must be named once"),
        ("--max_eval_steps=0", "max_eval_steps=0"),
        ("--input_file=nothing", "nothing"),
        ("--init_checkpoint=nothing", "There is no checkpoint"),
        ("--albert_config_file=base_v2", "has num_attention_heads=12"),
        ("--init_checkpoint=own.keras", "own.keras"),
    ],
)
def test_what_cannot_be_measured_is_one_line(flag, words, run, tmp_path):
    (tmp_path / "taken.png").write_bytes(b"mine")
    before = sorted(tmp_path.iterdir())

    done = run(flag)

    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert words in last
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "taken.png").read_bytes() == b"mine"


def test_records_of_another_vocabulary_are_refused(run, tmp_path):
    facts = {"tokenizer_hash": "def"}
    (tmp_path / "albert" / "metadata.json").write_text(json.dumps(facts))

    done = run()

    assert done.returncode == 1
    assert "trained with another vocabulary" in done.stderr
    assert not (tmp_path / "figure.json").exists()
