"""Which units are of views that are declared."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ivm.refresh.living import declared_units
from ivm.refresh.records import Manifest


class Names(dict):
    """Names that are looked up, and not gone through for each unit."""

    def __iter__(self):
        pytest.fail("all names were gone through")

    keys = items = values = __iter__


@pytest.mark.parametrize(
    ("unit", "declared"),
    [
        ("sales", True),
        ("sales__by_day", True),
        ("sales__1__by_day", True),
        ("sales_", False),
        ("sales_2", False),
        ("sale__by_day", False),
        ("two__words", True),
        ("two__words__by_day", True),
        ("two__wordsby_day", False),
        ("two", False),
        ("two__by_day", False),
        ("ends_", True),
        ("ends___by_day", True),
        ("ends__by_day", False),
        ("__", False),
        ("__sales", False),
    ],
)
def test_a_unit_is_of_the_view_whose_name_it_begins_with(unit, declared):
    context = SimpleNamespace(views=Names.fromkeys(("sales", "two__words", "ends_")))
    assert (unit in declared_units(context, Manifest(units={unit: None}))) is declared
