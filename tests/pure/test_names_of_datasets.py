"""What stands for parts and states of relations: no two are alike, whatever the relations are called."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from ivm.feed.arrow_datasets import ArrowDatasets, _Own
from ivm.feed.datasets import Part
from ivm.feed.input import Input
from ivm.feed.staged_datasets import StagedDatasets
from ivm.names import WEIGHT
from ivm.plan.nodes import Column
from ivm.portable.translations import form
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import Match, Provider
from ivm.storage.location import Location

STATES = (State.NEW, State.OLD)
#: Each is a part of x, as far as names are concerned, or what a part of it is called.
ENDS = ("new", "old", "rows", "both", "delta", "given", "met", "changes", "keys", "slice", "1", "new_rows", "rows_1")
RELATIONS = ("x", *(f"x_{end}" for end in ENDS), *(f"{start}_x" for start in ENDS if not start[0].isdigit()), "keys")


def relation(name: str) -> Input:
    rows = pa.table({"n": pa.array([1], pa.int64())})
    delta = rows.append_column(WEIGHT, pa.array([1], pa.int32()))
    return Input(name, (Column("n", "bigint"),), rows.schema, f"/{name}", 0, State.NEW, True, delta, 1, given=rows)


@pytest.fixture
def made(tmp_path):
    """Datasets of all these relations; nothing is read, and no Spark is there to be asked."""

    def of(kind):
        inputs = {name: relation(name) for name in RELATIONS}
        return kind(lambda: pytest.fail("Spark was asked"), Location.of(str(tmp_path)), "t", inputs)

    return of


def names(datasets, name: str) -> list[str]:
    """Those of one relation."""
    parts = [datasets._name(name, part) for part in Part]
    bags = [datasets._whole_bag(name, state) for state in STATES]
    sums = [f"`{datasets._sums_name(name, what)}`" for what in ("met", "changes", "accumulators")]
    return [*parts, *bags, datasets._table(name), *sums]


def test_all_names_are_distinct(made):
    datasets = made(ArrowDatasets)
    found = [n for name in RELATIONS for n in names(datasets, name)]
    own = made(ArrowDatasets)
    for number in (0, 1):
        own._own = {name: _Own(number, frozenset(), ("n",)) for name in RELATIONS}
        found += [own._name(name, part) for name in RELATIONS for part in (Part.ROWS, Part.BOTH)]
    assert len(found) == len(set(found))
    for name in found:
        text, _ = form(f"SELECT * FROM {name}", "t")
        assert text == f"SELECT * FROM {name.replace('`__ivm_t_', '`__ivm_@_')}", "the tag comes first"


def test_all_places_are_distinct(made, monkeypatch):
    """Staged rows of a round are not put where keys lie, or those of another round."""
    places = []

    def staged(_spark, _sql, place, *_):
        places.append(place.url)
        return SimpleNamespace(num_rows=1, ref="`staged`")

    monkeypatch.setattr("ivm.feed.staged_datasets.stage", staged)
    datasets = made(StagedDatasets)
    datasets._spark = lambda: None
    datasets.bound.ready = lambda _: None
    datasets._rounds = SimpleNamespace(through=lambda _: None)
    for number in range(1, 4):
        for name in RELATIONS:
            datasets._load_round(number, {name: {Match(("n",), Provider(name, number, ("n",)))}})
    for name in RELATIONS:
        datasets._name(name, Part.BOTH)
    assert len(places) == (3 + 3 + 1) * len(RELATIONS) == len(set(places))
