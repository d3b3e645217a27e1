"""What was measured of weights, over a run's life: always of those in use.

A state machine trains with evaluations and without, evaluates rows to train on
and others, predicts, copies single checkpoints and converts. Each answer must
be that of the probabilities of the weights in use, with thresholds that an
evaluation of these weights has chosen, or else 1/2.
"""

import json
import pathlib
import shutil

import hypothesis
import numpy as np
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

import albert_tf
from albert_tf.checkpoints import conversion, run_checkpoints
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

LAST = 12
LABELS = ("big", "red")
CONFIG = AlbertConfig(
    vocab_size=300,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=32,
)


def _rows(size, seed):
    rng = np.random.default_rng(seed)
    for number in range(size):
        kinds = [label for label in LABELS if rng.random() < 0.4]
        words = [*kinds, str(rng.integers(99)), "dog"]
        yield {"text": f"The {' '.join(words)} ran {number}.", "kinds": kinds}


class Life(stateful.RuleBasedStateMachine):
    """The life of the run in `run`; `evaluated` has what is known of a step.

    That is the file whose scores are known, and whose thresholds.
    """

    settings = {}
    counts = {"lives": 0, "commands": 0, "answers": 0, "thresholds": 0}
    probabilities = {}

    def __init__(self):
        super().__init__()
        self.counts["lives"] += 1
        self.base = pathlib.Path(f"life-{self.counts['lives']}")
        self.run = str(self.base / "run")
        self.num_steps, self.number = 0, 0

    def call(self, **given):
        self.counts["commands"] += 1
        return albert_tf.finetune(
            "custom", output_dir=self.run, **(self.settings | given)
        )

    def has_weights(self):
        return self.num_steps > 0

    @property
    def weights(self):
        return pathlib.Path(run_checkpoints.trained_weights(self.run))

    @stateful.rule(
        more=st.sampled_from([0, 2, 4]),
        evaluates=st.booleans(),
        predicts=st.booleans(),
    )
    def train(self, more, evaluates, predicts):
        self.num_steps = min(LAST, max(2, self.num_steps + more))
        rows = {"eval_file": "dev.jsonl"} if evaluates else {}
        self.call(
            train_file="train.jsonl",
            num_train_steps=self.num_steps,
            do_eval=evaluates,
            do_predict=predicts,
            predict_file="new.jsonl",
            **rows,
        )
        known = self.check_facts("dev.jsonl" if evaluates else None)
        assert known.evaluation or not evaluates
        if not evaluates and self.num_steps == self.step_of(self.weights):
            self.check_predictions(predicts)

    @stateful.rule(
        name=st.sampled_from(["train", "dev", "new"]), predicts=st.booleans()
    )
    @stateful.precondition(has_weights)
    def evaluate(self, name, predicts):
        before = Metadata.read(self.weights).thresholds
        self.call(
            do_train=False,
            do_eval=True,
            eval_file=f"{name}.jsonl",
            do_predict=predicts,
            predict_file="new.jsonl",
        )
        known = self.check_facts(f"{name}.jsonl")
        # Thresholds that are known are kept.
        assert before in (None, known.thresholds)
        assert known.thresholds
        self.check_predictions(predicts)

    @stateful.rule()
    @stateful.precondition(has_weights)
    def predict(self):
        before = Metadata.read(self.weights)
        self.call(
            do_train=False,
            do_eval=False,
            do_predict=True,
            predict_file="new.jsonl",
        )
        assert Metadata.read(self.weights) == before
        self.check_predictions(True)

    @stateful.rule(choose=st.sampled_from([min, max]))
    @stateful.precondition(has_weights)
    def copy_checkpoint(self, choose):
        step = choose(run_checkpoints.steps(self.run))
        source = run_checkpoints.checkpoint_path(self.run, step)
        self.check_answers(self.copied(source), Metadata.read(source), step)

    @stateful.rule(
        name=st.sampled_from(["keras", "tf1", "huggingface", "keras_hub"])
    )
    @stateful.precondition(has_weights)
    def convert(self, name):
        path = self.new_name()
        conversion.convert(
            ConversionConfig(
                input_path=self.run, output_path=path, output_format=name
            )
        )
        known = Metadata.read(self.weights)
        self.check_answers(path, known, self.step_of(self.weights))
        card = pathlib.Path(path, "README.md").read_text("utf-8")
        self.check_card(card, known)

    # Checks.

    def new_name(self):
        self.number += 1
        return str(self.base / str(self.number))

    def step_of(self, folder):
        return json.loads((folder / "state.json").read_text())["step"]

    def copied(self, source):
        path = self.new_name()
        shutil.copytree(source, path)
        for name in ("albert_config.json", "tiny.model"):
            shutil.copy(pathlib.Path(self.run, name), path)
        return path

    def check_facts(self, evaluated):
        """Checks what is said of the weights that are used from now on."""
        known = Metadata.read(self.weights)
        step = self.step_of(self.weights)
        evaluation = known.evaluation
        if evaluated:
            assert evaluation["data"] == f"--eval_file={evaluated}"
            results = json.loads(
                pathlib.Path(self.run, "eval_results.json").read_text()
            )
            assert results.items() >= evaluation["scores"].items()
            assert results["evaluated"]["step"] == step
        if evaluation:
            assert evaluation["step"] == step
            is_seen = "48 of the 48" in str(evaluation["cautions"])
            assert is_seen == evaluation["data"].endswith("train.jsonl")
        card = pathlib.Path(self.run, "README.md").read_text("utf-8")
        self.check_card(card, known)
        report = pathlib.Path(self.run, "report.html").read_text("utf-8")
        if evaluation:
            text = f"{evaluation['data']}, with the weights of step {step}."
            assert text in report
        assert ("with the weights of" in report) == bool(evaluation)
        return known

    def check_card(self, card, known):
        evaluation = known.evaluation
        assert ("was not evaluated" in card) == (not evaluation)
        if evaluation:
            text = f"`{evaluation['data']}`, by the weights of step"
            assert f"{text} {evaluation['step']}.\n" in card
            value = evaluation["scores"]["f1_micro"]
            assert f"| f1_micro | {value:.4g} |" in card

    def check_predictions(self, is_written):
        known, step = Metadata.read(self.weights), self.step_of(self.weights)
        self.check_answers(self.run, known, step)
        if is_written:
            path = pathlib.Path(self.run, "predictions.tsv")
            rows = [row.split("\t") for row in path.read_text().splitlines()]
            found = [row[1].split(",") if row[1] else [] for row in rows[1:]]
            self.check_labels(found, known, step)

    def check_answers(self, path, known, step):
        """Checks the answers of a folder of any format."""
        predictor = albert_tf.load_predictor(path)
        answers = predictor.predict(TEXTS)
        values = [[*one["probabilities"].values()] for one in answers]
        # Steps are the same in all lives.
        first = self.probabilities.setdefault(step, values)
        np.testing.assert_allclose(values, first, atol=1e-5)
        assert predictor.head_spec.head.name == "classifier"
        self.check_labels([a["prediction"] for a in answers], known, step)

    def check_labels(self, found, known, step):
        self.counts["answers"] += len(found)
        self.counts["thresholds"] += known.thresholds is not None
        limits = np.array(known.thresholds or [0.5, 0.5])
        for labels, row in zip(found, self.probabilities[step], strict=True):
            for label, value, limit in zip(LABELS, row, limits, strict=True):
                is_clear = abs(value - limit) > 1e-5
                assert not is_clear or (value > limit) == (label in labels)

    def teardown(self):
        shutil.rmtree(self.base, ignore_errors=True)


TEXTS = [row["text"] for row in _rows(30, 3)]


@pytest.mark.slow
def test_answers_scores_and_cards_are_of_the_weights_in_use(
    tiny_spm_model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    CONFIG.to_json_file("config.json")
    shutil.copy(tiny_spm_model, "tiny.model")
    for name, size, seed in (("train", 48, 1), ("dev", 24, 2), ("new", 30, 3)):
        rows = "".join(f"{json.dumps(row)}\n" for row in _rows(size, seed))
        pathlib.Path(f"{name}.jsonl").write_text(rows)
    Life.settings = {
        "albert_config_file": "config.json",
        "spm_model_file": "tiny.model",
        "text_columns": ("text",),
        "label_column": "kinds",
        "multi_label": True,
        "max_seq_length": 20,
        "train_batch_size": 8,
        "num_warmup_steps": 0,
        "poly_power": 0.0,
        "learning_rate": 0.01,
        "save_checkpoints_steps": 2,
        "keep_checkpoint_max": 9,
        "deterministic": True,
    }
    stateful.run_state_machine_as_test(
        hypothesis.seed(7)(Life),
        settings=hypothesis.settings(
            max_examples=2,
            stateful_step_count=14,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=[*hypothesis.HealthCheck],
        ),
    )
    assert Life.counts["thresholds"]
