import json

import pytest

from albert_tf.checkpoints import model_card
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

_CONFIG = AlbertConfig(vocab_size=9)
_FETCHED = "/c/models--albert--albert-base-v2/snapshots/0ab1"
_FLAGS = f"""--do_train
--init_checkpoint={_FETCHED}
--train_file=my mails.tsv
"""


def _model(*arrays, **known):
    return Checkpoint(
        arrays=dict.fromkeys(arrays), config=_CONFIG, metadata=Metadata(**known)
    )


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "flags.txt").write_text(_FLAGS)
    # Of other weights.
    (folder / "eval_results.json").write_text(json.dumps({"accuracy": 0.99}))
    return folder


_EVALUATION = {
    "data": "--eval_file=rows.tsv",
    "examples": 9,
    "step": 30,
    "metric": "accuracy",
    "cautions": ["4 of the 9 records to evaluate are also trained on."],
    "scores": {
        "accuracy": 0.75,
        "accuracy_interval_low": 0.333,
        "accuracy_interval_high": 0.9,
        "accuracy_baseline": 0.5,
        "f1_of_ham": 0.1,
    },
}


def _card(folder):
    return (folder / "README.md").read_text("utf-8")


def test_a_run_has_front_matter_data_scores_limits_and_its_command(run):
    model = _model(
        "output_weights",
        task="custom",
        labels=("ham", "spam"),
        settings={"train_examples": 20, "random_seed": 7},
        evaluation=_EVALUATION,
    )

    model_card.write(str(run), model, run=run)

    assert _card(run).startswith(
        "---\nlibrary_name: albert_tf\npipeline_tag: text-classification\n"
        'tags:\n- albert\nbase_model: "albert/albert-base-v2"\n---\n'
    )
    for text in (
        "Labels: ham, spam.\n",
        "- Training data: `my mails.tsv`\n",
        "- Examples trained on: 20\n",
        "Of 9 examples of `--eval_file=rows.tsv`, by the weights of step 30.\n",
        "The 95% interval of accuracy is 0.333 to 0.9.\n4 of the 9 records",
        "|---|---|---|\n| accuracy | 0.75 | 0.5 |\n\n",
        "## Limits\n\n- ",
        "python run_classifier.py \\\n    --do_train \\\n    --init_",
        "    '--train_file=my mails.tsv'\n```\n",
    ):
        assert text in _card(run)
    assert "f1_of_ham" not in _card(run)


def test_a_conversion_has_the_scores_of_its_weights_and_the_flags_of_its_run(
    run, tmp_path
):
    config = ConversionConfig(
        input_path=str(run), output_path="out", output_format="huggingface"
    )

    cards = []
    for source, known in ((run, {"evaluation": _EVALUATION}), (None, {})):
        model = _model("cls/squad/a", **known)
        model_card.write(str(tmp_path), model, run=source, conversion=config)
        cards.append(_card(tmp_path))

    for card in cards:
        assert "library_name: transformers\npipeline_tag: question-" in card
        assert "AutoModelForQuestionAnswering.from_pretrained" in card
        assert "python convert_checkpoint.py \\\n    --input_path=" in card
    assert "accuracy" in cards[0] and "run_squad.py" in cards[0]
    assert "accuracy" not in cards[1] and "--do_train" not in cards[1]
    assert "The model was not evaluated" in cards[1]


@pytest.mark.parametrize(
    ("arrays", "head", "pipeline"),
    [
        (["output_bias"], "multiple_choice", "multiple-choice"),
        (["start_logits/dense/bias"], None, "question-answering"),
        (["cls/predictions/bias"], None, "fill-mask"),
        ([], None, "feature-extraction"),
    ],
)
def test_the_head_decides_the_pipeline(arrays, head, pipeline, tmp_path):
    model_card.write(str(tmp_path), _model(*arrays, head=head), run=None)

    assert f"pipeline_tag: {pipeline}\n" in _card(tmp_path)


def test_a_card_of_the_user_is_kept(run):
    model_card.write(str(run), _model(), run=run)
    ours = _card(run)
    (run / "README.md").write_text("# Mine\n")
    model_card.write(str(run), _model(), run=run)
    assert _card(run) == "# Mine\n"

    (run / "README.md").write_text(ours.replace("ALBERT for", "Old"))
    model_card.write(str(run), _model(), run=run)
    assert _card(run) == ours


@pytest.mark.parametrize(
    ("labels", "call"),
    [(("a", "b"), '"A text", truncation=True)'), (None, "")],
)
def test_the_call_of_transformers_is_cut_as_in_the_training(
    labels, call, tmp_path
):
    config = ConversionConfig(
        input_path="in", output_path="out", output_format="huggingface"
    )
    arrays = ["output_weights"] if labels else []
    settings = {"max_seq_length": 24}
    model = _model(*arrays, labels=labels, settings=settings)

    model_card.write(str(tmp_path), model, run=None, conversion=config)

    assert "model_max_length=24)" in _card(tmp_path)
    assert ("truncation=True" in _card(tmp_path)) == bool(call)
    assert call in _card(tmp_path)


def test_the_seed_is_that_of_the_weights(run):
    (run / "flags.txt").write_text("--random_seed=6\n--num_seeds=2\n")

    model_card.write(str(run), _model(settings={"random_seed": 7}), run=run)

    assert "- Random seed: `7`\n" in _card(run)
