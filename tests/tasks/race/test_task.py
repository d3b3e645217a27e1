import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.tasks.race.task import MultipleChoiceTask

# B = 2, C = 3, S = 5.
TINY = AlbertConfig(
    vocab_size=11,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=6,
    max_position_embeddings=5,
    hidden_dropout_prob=0.5,
)
BATCH = {
    "input_ids": tf.constant(
        [
            [[2, 4, 3, 6, 3], [2, 4, 3, 7, 3], [2, 4, 3, 8, 3]],
            [[2, 5, 3, 3, 0], [2, 5, 3, 9, 3], [2, 5, 3, 6, 3]],
        ]
    ),
    "input_mask": tf.constant(
        [
            [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
            [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
        ]
    ),
    "segment_ids": tf.constant([[[0, 0, 0, 1, 1]] * 3] * 2),
    "label_ids": tf.constant([2, 0]),
}


def as_floats(sums):
    return {name: float(value) for name, value in sums.items()}


def test_the_loss_is_the_mean_cross_entropy_of_the_right_choices():
    task = MultipleChoiceTask(TINY)

    loss, sums = task.loss(BATCH, task.loss_denominators(BATCH), seed=None)

    logits = task.outputs(BATCH)["logits"].numpy().astype(float)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert logits.shape == (2, 3)
    assert float(loss) == pytest.approx(-(logits[0, 2] + logits[1, 0]) / 2)
    assert set(sums) == set(task.total_names)
    num_correct = (logits.argmax(axis=1) == [2, 0]).sum()
    scores = {"loss": pytest.approx(float(loss)), "accuracy": num_correct / 2}
    assert task.training_scores(as_floats(sums)) == scores
    assert task.evaluation_scores(as_floats(sums)) == scores


def test_logits_and_loss_equal_the_recorded_ones(shared_data):
    golden = shared_data / "golden"
    folder = golden / "model_base"
    arrays = np.load(golden / "heads" / "race.npz")
    task = MultipleChoiceTask(
        AlbertConfig.from_json_file(folder / "albert_config.json")
    )
    load.load_checkpoint(task.model, folder, allow_new_heads=True)
    variables = variable_names.variables_by_tf1_name(task.model.weights)
    for name in ("output_weights", "output_bias"):
        variables[name].assign(arrays[f"var/{name}"])
    batch = {
        name: tf.reshape(tf.constant(arrays[name]), [2, 4, 24])
        for name in ("input_ids", "input_mask", "segment_ids")
    } | {"label_ids": tf.constant(arrays["label_ids"])}

    loss, _ = task.loss(batch, task.loss_denominators(batch), seed=None)

    np.testing.assert_allclose(
        task.outputs(batch)["logits"], arrays["logits"], rtol=1e-5, atol=1e-6
    )
    assert float(loss) == pytest.approx(float(arrays["loss"]), rel=1e-5)


def test_sums_count_questions_and_tokens_without_padding():
    task = MultipleChoiceTask(TINY)

    _, sums = task.loss(BATCH, task.loss_denominators(BATCH), seed=None)

    assert float(sums["examples"]) == 2
    assert float(sums["tokens"]) == 29


def test_rows_that_fill_up_a_batch_count_nowhere():
    task = MultipleChoiceTask(TINY)
    first = {name: value[:1] for name, value in BATCH.items()}
    filled = BATCH | {"example_weights": tf.constant([1.0, 0.0])}

    losses, sums = zip(
        *(
            task.loss(batch, task.loss_denominators(batch), seed=None)
            for batch in (first, filled)
        ),
        strict=True,
    )

    assert float(losses[0]) == pytest.approx(float(losses[1]), rel=1e-6)
    assert as_floats(sums[0]) == pytest.approx(as_floats(sums[1]), rel=1e-6)


def test_shares_of_the_loss_add_up_to_that_of_the_whole_batch():
    task = MultipleChoiceTask(TINY)
    loss_denominators = task.loss_denominators(BATCH)

    whole, _ = task.loss(BATCH, loss_denominators, seed=None)
    shares = [
        task.loss(
            {name: value[row : row + 1] for name, value in BATCH.items()},
            loss_denominators,
            seed=None,
        )[0]
        for row in range(2)
    ]

    assert float(sum(shares)) == pytest.approx(float(whole), rel=1e-6)


def test_a_batch_may_have_any_number_of_choices():
    task = MultipleChoiceTask(TINY)
    two = {
        name: value[:, :2] if name != "label_ids" else tf.constant([1, 0])
        for name, value in BATCH.items()
    }

    # A choice is scored by itself.
    np.testing.assert_allclose(
        task.outputs(two)["logits"],
        task.outputs(BATCH)["logits"][:, :2],
        rtol=1e-5,
        atol=1e-6,
    )


def test_dropout_acts_with_a_seed_only():
    task = MultipleChoiceTask(TINY)

    def loss(seed):
        seed = None if seed is None else tf.constant([seed, 0])
        return float(
            task.loss(BATCH, task.loss_denominators(BATCH), seed=seed)[0]
        )

    assert loss(None) == loss(None)
    assert loss(1) == loss(1)
    assert len({loss(None), loss(1), loss(2)}) == 3


def test_dropout_of_the_pooled_output_can_be_set():
    def loss(dropout_prob):
        task = MultipleChoiceTask(
            AlbertConfig(**TINY.to_dict() | {"hidden_dropout_prob": 0}),
            dropout_prob=dropout_prob,
        )
        seed = tf.constant([1, 2])
        return float(
            task.loss(BATCH, task.loss_denominators(BATCH), seed=seed)[0]
        )

    assert loss(0.0) != loss(0.5)


def test_an_empty_set_evaluates_to_zero():
    task = MultipleChoiceTask(TINY)
    nothing = dict.fromkeys(task.total_names, 0.0)

    assert task.evaluation_scores(nothing) == {"loss": 0.0, "accuracy": 0.0}
