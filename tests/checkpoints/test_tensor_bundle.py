"""The reader of TF1 checkpoints beside TensorFlow, and damaged files."""

import pathlib

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import tensor_bundle, tf1

_RNG = np.random.default_rng(0)
_TYPES = [
    *("float32", "float64", "float16", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", ml_dtypes.bfloat16),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The prefix of a checkpoint whose index has several blocks."""
    prefix = tmp_path_factory.mktemp("bundle") / "model"
    # Names with a common beginning, and long ones.
    arrays = {
        f"bert/layer_{i}/{'deep/' * (i % 40)}kernel": np.float32([i, -i])
        for i in range(6000)
    }
    for dtype in _TYPES:
        values = (_RNG.random((3, 0, 5) if dtype == "int8" else (3, 5)) * 9) > 4
        arrays[f"of {dtype}"] = values.astype(dtype)
    arrays["number"] = np.int64(-(2**62))
    tf1.write(prefix, arrays)
    return str(prefix)


def test_all_arrays_are_those_that_tensorflow_reads(written):
    reader = tf.train.load_checkpoint(written)
    found = tensor_bundle.readers(written)

    assert [*found] == sorted(reader.get_variable_to_shape_map())
    for name, read in found.items():
        wanted, array = reader.get_tensor(name), read()
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_no_changed_byte_is_read_as_a_number(ending, written, tmp_path):
    small = tmp_path / "model"
    tf1.write(small, {"a": np.arange(9.0), "bias": np.ones([2, 2], "int32")})
    path = pathlib.Path(f"{small}{ending}")
    content = path.read_bytes()
    wanted = tf1.read(small)

    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        try:
            found = tf1.read(small)
        except ValueError as error:
            assert "is damaged or incomplete" in str(error)
            continue
        # What is not used may change: padding of the footer.
        assert {*found} == {*wanted}
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)


def test_text_and_arrays_in_parts(tmp_path):
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "model"),
        tensor_names=["parts", "parts", "text"],
        shape_and_slices=["4 2 0,2:-", "4 2 2,2:-", ""],
        tensors=[tf.zeros([2, 2]), tf.ones([2, 2]), tf.constant("text")],
    )

    found = tf1.read(tmp_path / "model")

    assert {*found} == {"parts", "text"}
    assert found["parts"].tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]
    assert found["text"] == b"text"
