import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import length_groups


def group_bounds(lengths, allowance):
    bounds = [0]
    while bounds[-1] < len(lengths):
        end = length_groups.group_end(
            tf.constant(lengths),
            tf.constant(bounds[-1]),
            tf.constant(allowance),
        )
        bounds.append(int(end))
    return bounds


@pytest.mark.parametrize(
    ("lengths", "allowance", "bounds"),
    [
        ([7], 0, [0, 1]),
        ([7, 7, 7], 0, [0, 3]),
        # Padding in a group of all three: 0 + 1 + 3.
        ([7, 6, 4], 3, [0, 2, 3]),
        ([7, 6, 4], 4, [0, 3]),
        ([512, 20, 18, 9], 16, [0, 1, 4]),
        ([512, 256, 128, 64], 0, [0, 1, 2, 3, 4]),
    ],
)
def test_a_group_has_no_more_padding_than_allowed(lengths, allowance, bounds):
    assert group_bounds(lengths, allowance) == bounds


def test_the_length_of_a_row_is_the_place_of_its_last_token():
    mask = [[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]

    found = length_groups.row_lengths(tf.constant(mask))

    # A row without a token is left as it is.
    assert found.numpy().tolist() == [2, 3, 4, 4]


def encode(calls):
    """Returns an encoder that records the shapes it is called with."""

    def call(input_ids, input_mask, segment_ids):
        calls.append(tuple(input_ids.shape))
        values = tf.stack([input_ids, input_mask, segment_ids], -1)
        return tf.cast(values, tf.float32), tf.cast(values[:, 0], tf.float32)

    return call


def make_batch(lengths, width):
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int32)
    ids = np.arange(1, 1 + mask.size, dtype=np.int32).reshape(mask.shape)
    return ids, mask, ids % 2


def grouped(lengths, width):
    calls, batch = [], make_batch(lengths, width)
    found = length_groups.encode_in_groups(
        encode(calls), *map(tf.constant, batch), hidden_size=3, dtype="float32"
    )
    return calls, batch, [values.numpy() for values in found]


@pytest.mark.parametrize(
    ("lengths", "width", "calls"),
    [
        ([3], 3, [(1, 3)]),
        ([5, 5, 5], 5, [(3, 5)]),
        # Rows that a client has padded to a fixed length.
        ([5, 4, 5], 64, [(3, 5)]),
        # The allowance is 16, more than an eighth of 110.
        ([10, 70, 11, 10, 9], 70, [(1, 70), (4, 11)]),
        # An eighth of 800 is 100.
        ([250, 150, 200, 200], 250, [(3, 250), (1, 150)]),
        ([], 5, []),
    ],
)
def test_rows_are_encoded_by_length_and_returned_in_order(
    lengths, width, calls
):
    found_calls, batch, (sequence, pooled) = grouped(lengths, width)

    assert found_calls == calls
    expected = np.stack(batch, -1)
    np.testing.assert_array_equal(pooled, expected[:, 0])
    np.testing.assert_array_equal(sequence, expected * batch[1][:, :, None])


def test_a_row_does_not_depend_on_the_others():
    _, _, (alone, _) = grouped([7], 40)
    _, _, (beside, _) = grouped([7, 12, 40, 3], 40)

    np.testing.assert_array_equal(beside[0], alone[0])
