"""The command of similarity, from its flags to its files."""

import numpy as np
import pytest

import albert_tf
from tests.cli import test_own_tables
from tests.cli.conftest import ANIMALS, results_of, table_of

SCRIPT = "run_similarity.py"


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


def test_a_run_and_what_comes_of_it(folder, run_alone):
    flags = (
        "--init_checkpoint=start",
        "--text_columns=first,second",
        "--label_column=score",
        "--train_file=pairs.tsv",
        "--validation_share=0.25",
        "--max_seq_length=16",
        "--do_eval",
    )
    training = (
        "--do_train",
        "--do_predict",
        "--predict_file=pairs.tsv",
        "--num_train_steps=4",
        "--num_seeds=2",
        "--pooling=cls",
        "--normalize",
    )
    for name, more in {"run": training, "before": ()}.items():
        run_alone(SCRIPT, *flags, *more, f"--output_dir={name}", folder=folder)

    results, before = map(results_of, (folder / "run", folder / "before"))
    names = ("word_overlap", "before_training")
    baselines = [results[f"{name}_baseline"] for name in names]
    assert results["spearman_baseline"] == max(baselines)
    # Weights that were not trained give the same without a training.
    assert before["spearman"] == pytest.approx(baselines[1], abs=1e-6)
    assert "before_training_baseline" not in before
    predictor = albert_tf.load_predictor(folder / "run")
    _, *rows = table_of(folder / "run" / "predictions.tsv")
    _, *pairs = table_of(folder / "pairs.tsv")
    first, second, _ = zip(*pairs, strict=True)
    np.testing.assert_allclose(
        [float(row[1]) for row in rows],
        predictor.similarity([*first], [*second]),
        atol=1e-5,
    )
    vector = predictor.predict("The cat sat.")["vector"]
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    card = (folder / "run" / "README.md").read_text()
    assert "pipeline_tag: sentence-similarity" in card
    assert "run_similarity.py" in card
