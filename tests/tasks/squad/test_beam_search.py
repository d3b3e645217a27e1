import pytest

from albert_tf.tasks.squad.beam_search import BeamSearch


@pytest.mark.parametrize("name", ["start_n_top", "end_n_top"])
def test_beams_must_follow_something(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
        BeamSearch(**{name: 0})


@pytest.mark.parametrize("name", ["start_n_top", "end_n_top"])
def test_beams_must_find_as_many_pieces_in_a_short_batch(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at most 16, beca"):
        BeamSearch(**{name: 17})


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_dropout_is_a_share(share):
    with pytest.raises(ValueError, match="`dropout_prob` must be at least 0"):
        BeamSearch(dropout_prob=share)
