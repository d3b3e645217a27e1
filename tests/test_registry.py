"""Tests of the tables that name extras."""

from albert_tf import registry
from albert_tf.checkpoints import heads


def test_every_reference_is_there():
    tables = {
        name: table for name, table in vars(registry).items() if name.isupper()
    }

    for table in tables.values():
        for reference in table.values():
            assert registry.load(reference) is not None


def test_a_head_and_a_task_have_the_names_by_which_they_are_found():
    for name, reference in registry.HEADS.items():
        assert registry.load(reference).head is heads.HEADS[name]
    assert [*registry.HEADS] == [*heads.HEADS] == [*registry.MODELS]
    for name, reference in registry.TASKS.items():
        assert name in registry.load(reference).task_names
