import re

import pytest

from albert_tf.optimization import decay_filter

# The expressions of google-research/albert, optimization.py.
_REFERENCE = re.compile("LayerNorm|layer_norm|bias")


def _check_against_reference(names):
    excluded = {name for name in names if decay_filter.is_excluded(name)}

    assert excluded == {name for name in names if _REFERENCE.search(name)}
    assert set() < excluded < set(names)


@pytest.mark.parametrize("stem", ["lamb", "adamw_clip"])
def test_the_role_decides_as_the_reference_on_recorded_names(recorded, stem):
    keys = [key for key in recorded(stem) if key.startswith("init/")]

    _check_against_reference([key.removeprefix("init/") for key in keys])


@pytest.mark.parametrize("model", ["model_base", "model_groups"])
def test_the_role_decides_as_the_reference_on_released_names(
    shared_data, model
):
    import tensorflow as tf

    prefix = shared_data / "golden" / model / "model.ckpt-best"
    names = tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map()

    _check_against_reference(
        [
            name
            for name in names
            if not name.endswith(("/adam_m", "/adam_v", "global_step"))
        ]
    )


def test_a_kernel_below_a_layer_named_after_bias_is_decayed():
    assert not decay_filter.is_excluded("bias_head/kernel")
    assert not decay_filter.is_excluded("kernel")


def test_a_bare_bias_is_excluded():
    assert decay_filter.is_excluded("bias")
