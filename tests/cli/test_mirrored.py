"""Several devices of one machine, with all that makes them fast, and one."""

import numpy as np
import pytest

# Four CPUs in place of the one.
FOUR = """
import tensorflow as tf
[cpu] = tf.config.list_physical_devices("CPU")
devices = [tf.config.LogicalDeviceConfiguration()] * 4
tf.config.set_logical_device_configuration(cpu, devices)
"""
NUM_STEPS = 20
# bfloat16 has 8 bits of a number: each rounding is off by 1 part in 512 at
# most.
ROUNDING = 2.0**-9


@pytest.fixture
def losses(pretraining_flags, workshop, run_alone, logged, tmp_path):
    """A function that returns the losses of a run, `[20]`."""

    def run(name, *flags, before=""):
        run_alone(
            "run_pretraining.py",
            *pretraining_flags,
            f"--albert_config_file={workshop / 'plain.json'}",
            "--train_batch_size=16",
            f"--num_train_steps={NUM_STEPS}",
            "--log_steps=1",
            "--nodo_eval",
            f"--output_dir={name}",
            *flags,
            folder=tmp_path,
            before=before,
        )
        lines = logged(tmp_path / name / "metrics.jsonl")
        return np.array([line["loss"] for line in lines if "loss" in line])

    return run


@pytest.mark.slow
def test_four_devices_accumulation_and_xla_have_the_losses_of_one(losses):
    fast = (
        "--strategy=mirrored",
        "--gradient_accumulation_steps=2",
        "--jit_compile",
    )
    one = losses("one")

    four = losses("four", *fast, before=FOUR)
    rounded = losses("rounded", *fast, "--precision=bfloat16", before=FOUR)

    assert len(one) == NUM_STEPS
    np.testing.assert_allclose(four, one, rtol=1e-5)
    np.testing.assert_allclose(rounded, one, rtol=ROUNDING)
    # It did compute in bfloat16.
    assert np.abs(rounded / one - 1).max() > 1e-6
