"""What a run remembers survives its checkpoint."""

import dataclasses
import json

from albert_tf.training.run_state import RunState


def test_the_state_of_a_run_survives_json():
    state = RunState(step=3, skipped_batches=2, window={"loss": 0.1})
    state.examples_read["512"] = 20
    state.level.update(0.3)

    text = json.dumps(dataclasses.asdict(state))

    assert RunState.from_dict(json.loads(text)) == state
    assert state.data_position == 5
