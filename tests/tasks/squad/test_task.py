import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.tasks.squad.predictions import BeamSearch
from albert_tf.tasks.squad.task import SquadTask

# B = 2, S = 6.
TINY = AlbertConfig(
    vocab_size=11,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=6,
    max_position_embeddings=16,
    hidden_dropout_prob=0.5,
    initializer_range=0.5,
)
BATCH = {
    "input_ids": tf.constant([[2, 5, 3, 6, 7, 3], [2, 4, 3, 8, 3, 0]]),
    "input_mask": tf.constant([[1] * 6, [1] * 5 + [0]]),
    "segment_ids": tf.constant([[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]]),
    "p_mask": tf.constant([[0.0, 1, 1, 0, 0, 1], [0.0, 1, 1, 0, 1, 1]]),
    "start_positions": tf.constant([3, 0]),
    "end_positions": tf.constant([4, 0]),
    "is_impossible": tf.constant([0.0, 1.0]),
}
BEAMS = BeamSearch(start_n_top=3, end_n_top=2)
VERSIONS = {"v1": None, "v2": BEAMS}


@pytest.fixture(params=VERSIONS)
def beam_search(request):
    """None for version 1.1, settings for version 2.0."""
    return VERSIONS[request.param]


def as_floats(sums):
    return {name: float(value) for name, value in sums.items()}


def loss_of(task, batch=BATCH, seed=None):
    return task.loss(batch, task.loss_denominators(batch), seed=seed)


def test_the_loss_of_version_1_is_the_mean_of_both_ends():
    task = SquadTask(TINY)

    loss, sums = loss_of(task)

    expected, is_right = 0, np.ones(2, bool)
    for name in ("start", "end"):
        logits = task.outputs(BATCH)[f"{name}_logits"].numpy().astype(float)
        labels = BATCH[f"{name}_positions"].numpy()
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected -= log_probs[[0, 1], labels].mean() / 2
        is_right &= logits.argmax(axis=1) == labels
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert task.training_scores(as_floats(sums)) == {
        "loss": pytest.approx(expected, rel=1e-5),
        "span_accuracy": is_right.mean(),
    }


def test_version_2_measures_answerability_too():
    task = SquadTask(TINY, beam_search=BEAMS)

    _, sums = loss_of(task)

    logits = task.outputs(BATCH)["cls_logits"].numpy()
    scores = task.evaluation_scores(as_floats(sums))
    assert set(scores) == {"loss", "span_accuracy", "answerable_accuracy"}
    is_right = (logits > 0) == [False, True]
    assert scores["answerable_accuracy"] == is_right.mean()


@pytest.mark.parametrize(
    ("name", "settings"), [("v1", None), ("v2", BeamSearch(dropout_prob=0))]
)
def test_outputs_and_loss_equal_the_recorded_ones(name, settings, shared_data):
    folder = shared_data / "golden" / "model_base"
    arrays = np.load(shared_data / "golden" / "heads" / f"squad_{name}.npz")
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    task = SquadTask(config, beam_search=settings)
    load.load_checkpoint(task.model, folder, allow_new_heads=True)
    variables = variable_names.variables_by_tf1_name(task.model.weights)
    for key in arrays.files:
        if key.startswith("var/"):
            variables[key.removeprefix("var/")].assign(arrays[key])
    batch = {
        key: tf.constant(arrays[key]) for key in arrays.files if key in BATCH
    }

    loss, _ = loss_of(task, batch)

    prefix, wanted_loss = (
        ("", "loss")
        if name == "v1"
        else (
            "inference/",
            "train/loss",
        )
    )
    assert float(loss) == pytest.approx(float(arrays[wanted_loss]), rel=1e-5)
    for key, values in task.outputs(batch).items():
        wanted = arrays[prefix + key]
        np.testing.assert_allclose(
            values, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max()
        )


def test_sums_have_their_names_and_count_windows_and_tokens(beam_search):
    task = SquadTask(TINY, beam_search=beam_search)

    _, sums = loss_of(task)

    assert set(sums) == set(task.total_names)
    assert float(sums["examples"]) == 2
    assert float(sums["tokens"]) == 11


def test_rows_that_fill_up_a_batch_count_nowhere(beam_search):
    task = SquadTask(TINY, beam_search=beam_search)
    first = {name: value[:1] for name, value in BATCH.items()}
    filled = BATCH | {"example_weights": tf.constant([1.0, 0.0])}

    (loss, sums), (filled_loss, filled_sums) = (
        loss_of(task, batch) for batch in (first, filled)
    )

    assert float(loss) == pytest.approx(float(filled_loss), rel=1e-6)
    assert as_floats(sums) == pytest.approx(as_floats(filled_sums), rel=1e-6)


def test_shares_of_the_loss_add_up_to_that_of_the_whole_batch(beam_search):
    task = SquadTask(TINY, beam_search=beam_search)
    loss_denominators = task.loss_denominators(BATCH)

    whole, _ = loss_of(task)
    shares = [
        task.loss(
            {name: value[row : row + 1] for name, value in BATCH.items()},
            loss_denominators,
            seed=None,
        )[0]
        for row in range(2)
    ]

    assert float(sum(shares)) == pytest.approx(float(whole), rel=1e-6)


def test_dropout_acts_with_a_seed_only(beam_search):
    task = SquadTask(TINY, beam_search=beam_search)

    def loss(seed):
        seed = None if seed is None else tf.constant([seed, 0])
        return float(loss_of(task, seed=seed)[0])

    assert loss(None) == loss(None)
    assert loss(1) == loss(1)
    assert len({loss(None), loss(1), loss(2)}) == 3


def test_dropout_before_the_score_of_no_answer_can_be_set():
    def loss(dropout_prob):
        task = SquadTask(
            AlbertConfig(**TINY.to_dict() | {"hidden_dropout_prob": 0}),
            beam_search=BeamSearch(dropout_prob=dropout_prob),
        )
        return float(loss_of(task, seed=tf.constant([1, 2]))[0])

    assert loss(0.0) != loss(0.5)


def test_outputs_of_version_1_go_along_the_sequence():
    task = SquadTask(TINY)

    outputs = task.outputs(BATCH)

    assert set(outputs) == task.sequence_outputs
    assert {tuple(values.shape) for values in outputs.values()} == {(2, 6)}


def test_outputs_of_version_2_are_beams():
    task = SquadTask(TINY, beam_search=BEAMS)

    outputs = task.outputs(BATCH)

    assert not task.sequence_outputs
    assert {name: tuple(v.shape) for name, v in outputs.items()} == {
        "start_top_log_probs": (2, 3),
        "start_top_index": (2, 3),
        "end_top_log_probs": (2, 6),
        "end_top_index": (2, 6),
        "cls_logits": (2,),
    }
    assert outputs["start_top_index"].dtype == tf.int32


def test_short_batches_have_room_for_the_beams():
    wide = SquadTask(TINY, beam_search=BeamSearch(start_n_top=9, end_n_top=2))
    narrow = SquadTask(TINY, beam_search=BEAMS)
    outputs_of = tf.function(wide.outputs)

    found, wanted = outputs_of(BATCH), narrow.outputs(BATCH)

    assert found["start_top_index"].shape == (2, 9)
    # [CLS] and the two tokens of the first paragraph; the rest is forbidden.
    np.testing.assert_array_equal(
        found["start_top_index"][0, :3], wanted["start_top_index"][0]
    )
    np.testing.assert_allclose(
        found["cls_logits"], wanted["cls_logits"], rtol=1e-5, atol=1e-6
    )
    assert np.all(found["start_top_log_probs"][0, 3:] < -1e29)


def test_an_empty_set_evaluates_to_zero(beam_search):
    task = SquadTask(TINY, beam_search=beam_search)
    nothing = dict.fromkeys(task.total_names, 0.0)

    assert set(task.evaluation_scores(nothing).values()) == {0.0}
