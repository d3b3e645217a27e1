import dataclasses
import json

import pytest

from albert_tf.training import run_state
from albert_tf.training.run_state import DivergenceDetector, RunState


def level_after(losses):
    level = DivergenceDetector()
    for loss in losses:
        assert level.problem(loss) is None
        level.update(loss)
    return level


H = run_state.HORIZON


@pytest.mark.parametrize(
    ("losses", "smooth", "jump"),
    [
        pytest.param([2.0] * (H - 1), 1000.0, None, id="level_not_yet_known"),
        pytest.param([4.0] * H, 6.0, 6.01, id="half_of_the_level"),
        # The mean absolute deviation is 1, so 2 + 8 x 1 = 10 is the limit.
        pytest.param([1.0, 3.0] * (5 * H), 9.5, 10.5, id="noisy"),
        pytest.param([0.001] * (2 * H), 0.9, 1.1, id="hard_example"),
    ],
)
def test_a_jump_leaves_the_level_and_its_noise(losses, smooth, jump):
    level = level_after(losses)

    assert level.problem(smooth) is None
    if jump:
        assert level.problem(jump).startswith(
            f"the loss jumped to {jump:.4g} from a running level of "
        )
        assert level.problem(jump, detects_jumps=False) is None


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([8.3] * 10 + [4156.0] * (H - 10), id="at_once"),
        pytest.param(
            [8.3] * 10 + [8.3 + 0.05 * step for step in range(400)], id="slowly"
        ),
    ],
)
def test_a_level_above_the_first_loss_is_a_divergence(losses):
    level = DivergenceDetector()
    problems = []
    for loss in losses + losses[-1:]:
        problems.append(level.problem(loss))
        level.update(loss)

    assert "is far above that of the first steps, 8.3" in problems[-1]
    assert not any(problems[:H])


def test_the_level_is_the_mean_of_the_first_steps_then_follows_slowly():
    level = level_after([1.0, 2.0, 3.0])
    assert level.mean == pytest.approx(2.0)
    assert level.num_steps == 3

    falling = level_after([10.0] * 50 + [5.0] * 200)

    assert falling.mean == pytest.approx(5.0, abs=5 * 0.98**199)


def test_the_state_of_a_run_survives_json():
    state = RunState(step=3, window={"loss": 0.1})
    state.examples_read["512"] = 20
    state.detector.update(0.3)

    text = json.dumps(dataclasses.asdict(state))

    assert RunState.from_dict(json.loads(text)) == state
