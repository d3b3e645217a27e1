"""What follows from the settings of a run; test_refusals has invalid ones."""

import pytest

from tests.training import runs
from tests.training.test_refusals import finetuning, pretraining


def test_each_seed_has_its_own_directory():
    config = finetuning(output_dir="run", num_seeds=2, do_predict=True)

    found = config.seed_configs()

    assert [(one.random_seed, one.output_dir) for one in found] == [
        (12345, "run/seed-12345"),
        (12346, "run/seed-12346"),
    ]
    assert {(one.num_seeds, one.do_predict) for one in found} == {(1, False)}
    assert found[0].seed_configs() == []


@pytest.mark.parametrize(
    ("values", "uses_tpu", "has_remote_hosts"),
    [
        ({}, False, False),
        ({"strategy": "tpu"}, True, False),
        ({"tpu_name": "local"}, True, False),
        ({"tpu_name": "pod"}, True, True),
        ({"tpu_name": "pod", "strategy": "one"}, False, False),
    ],
)
def test_a_tpu_is_named_or_asked_for(values, uses_tpu, has_remote_hosts):
    config = pretraining(**values)

    assert config.uses_tpu == uses_tpu
    assert config.has_remote_hosts == has_remote_hosts


def test_a_batch_is_divided_over_replicas_times_micro_batches():
    sizes = {"train_batch_size": 12, "eval_batch_size": 2}
    config = runs.run_config(gradient_accumulation_steps=2, **sizes)

    config.check_batch_sizes(2, **sizes)
    with pytest.raises(ValueError, match="`train_.* of 8, .*batch_size=12"):
        config.check_batch_sizes(4, train_batch_size=True)
