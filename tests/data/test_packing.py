import numpy as np
import pytest

from albert_tf.data import packing


def _packed(lengths, row_length):
    lengths = np.array(lengths)
    mask = np.arange(row_length) < lengths.reshape(-1, 1)
    places = packing.packed_at(mask.astype("int32"), len(lengths))
    return places.numpy().reshape(lengths.shape)


def test_the_longest_come_first_each_in_the_first_row_with_room():
    places = _packed([[3, 8, 5, 2], [8, 8, 8, 8]], 8)

    assert places.tolist() == [[13, 0, 8, 16], [0, 8, 16, 24]]


@pytest.mark.parametrize(("num_sequences", "least_full"), [(8, 0.7), (64, 0.9)])
def test_sequences_neither_meet_nor_cross_rows_and_fill_them(
    num_sequences, least_full
):
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 129, (50, num_sequences))

    places = _packed(lengths, 128)

    assert ((places % 128) + lengths <= 128).all()
    shares = []
    for starts, sizes in zip(places, lengths, strict=True):
        used = np.concatenate(
            [np.arange(a, a + n) for a, n in zip(starts, sizes, strict=True)]
        )
        assert len(np.unique(used)) == len(used)
        shares.append(len(used) / (128 * (used.max() // 128 + 1)))
    assert np.mean(shares) > least_full
