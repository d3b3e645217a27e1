"""The command of similarity, from its flags to its files."""

import json

import numpy as np
import pytest

import albert_tf
from tests.cli import test_own_tables

SCRIPT = "run_similarity.py"
ANIMALS = ("cat", "dog", "fox", "hen", "owl", "pig", "cow", "ram")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_spm_model):
    """Pairs of sentences about the same animal, with a start."""
    folder = tmp_path_factory.mktemp("similarity")
    lines = ["first\tsecond\tscore"]
    for i in range(64):
        one, other = ANIMALS[i % 8], ANIMALS[(i * 5 + i // 8) % 8]
        score = 5 if one == other else i % 3
        lines.append(f"The {one} sat here {i}.\tIt is a {other}, {i}.\t{score}")
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    test_own_tables.write_encoder(folder / "start", tiny_spm_model)
    return folder


def test_a_run_and_what_comes_of_it(folder, run_script):
    table = "--text_columns=first,second"
    flags = [
        "--init_checkpoint=start",
        table,
        "--label_column=score",
        "--train_file=pairs.tsv",
        "--predict_file=pairs.tsv",
        "--validation_share=0.25",
        "--max_seq_length=16",
        "--num_train_steps=4",
        "--num_seeds=2",
        "--pooling=cls",
        "--normalize",
    ]

    done = run_script(
        SCRIPT,
        *flags,
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--output_dir=run",
        folder=folder,
    )

    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "run" / "eval_results.json").read_text())
    both = [
        results[f"{n}_baseline"] for n in ("word_overlap", "before_training")
    ]
    assert results["spearman_baseline"] == max(both)
    # Weights that were not trained give the same without a training.
    again = run_script(
        SCRIPT,
        "--init_checkpoint=start",
        "--train_file=pairs.tsv",
        table,
        "--label_column=score",
        "--validation_share=0.25",
        "--max_seq_length=16",
        "--do_eval",
        "--output_dir=before",
        folder=folder,
    )
    assert again.returncode == 0, again.stderr
    before = json.loads((folder / "before" / "eval_results.json").read_text())
    assert before["spearman"] == pytest.approx(both[1], abs=1e-6)
    assert "before_training_baseline" not in before
    predictor = albert_tf.load_predictor(folder / "run")
    _, *rows = (folder / "run" / "predictions.tsv").read_text().splitlines()
    first, second = zip(
        *(
            line.split("\t")[:2]
            for line in (folder / "pairs.tsv").read_text().splitlines()[1:]
        ),
        strict=True,
    )
    np.testing.assert_allclose(
        [float(row.split("\t")[1]) for row in rows],
        predictor.similarity([*first], [*second]),
        atol=1e-5,
    )
    vector = predictor.predict("The cat sat.")["vector"]
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    card = (folder / "run" / "README.md").read_text()
    assert "pipeline_tag: sentence-similarity" in card
    assert "run_similarity.py" in card
