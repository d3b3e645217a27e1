"""Tests of the tables that name extras."""

from albert_tf import registry


def test_every_reference_is_there():
    tables = {
        name: table for name, table in vars(registry).items() if name.isupper()
    }

    for table in tables.values():
        for reference in table.values():
            assert registry.load(reference) is not None
