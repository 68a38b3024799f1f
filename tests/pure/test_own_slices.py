"""Units that share datasets get the rows and columns that they asked for themselves, each row once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from ivm.feed.arrow_datasets import ArrowDatasets
from ivm.feed.datasets import Asker
from ivm.feed.found import FoundRows
from ivm.feed.input import Input
from ivm.lake.keyed import KeyedReader
from ivm.names import WEIGHT
from ivm.plan.nodes import IN_NEW, IN_OLD, Column, Leaf
from ivm.planner.limits import EMBEDDED
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import DELTA, Match, Provider, Requests
from ivm.storage.location import Location

#: t by the delta of d; u by those rows of t; t by those rows of u.
NEAR = Match(("a",), Provider("d", DELTA, ("x",)))
OTHER = Match(("c",), Provider("d", DELTA, ("y",)))
ACROSS = Match(("b",), Provider("t", 1, ("b",), OTHER))
BACK = Match(("a",), Provider("u", 2, ("a",), ACROSS))
COLUMNS = {"d": "xy", "t": "abcn", "u": "ab"}


def asker(matches: dict[tuple[str, int], set[Match]], **columns: str) -> Asker:
    return Asker(Requests(matches), {relation: set(names) for relation, names in columns.items()})


ASKERS = {
    "near": asker({("t", 1): {NEAR}}, t="an"),
    "far": asker({("t", 1): {OTHER}, ("u", 2): {ACROSS}, ("t", 3): {BACK}}, t="c"),
    "neither": asker({}, t="n"),
}


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """What a seed makes: the rows of t and u, the loaded datasets, and the columns with which t was read."""

    def made(seed: int, limits=EMBEDDED, later=None, before=()):
        rng, folder = random.Random(seed), tmp_path / str(seed)

        def rows(names: str, n: int) -> pa.Table:
            return pa.table({c: pa.array([rng.choice([None, *range(8)]) for _ in range(n)], pa.int64()) for c in names})

        tables = {"d": rows("xy", 3), "t": rows("abcn", 60), "u": rows("ab", 12)}
        inputs = {}
        for relation, table in tables.items():
            columns = tuple(Column(c, "bigint") for c in COLUMNS[relation])
            write_deltalake(str(folder / relation), table)
            # Of t the first two rows are new, and one that was like the third is gone.
            delta = {"d": table, "t": pa.concat_tables([table.slice(0, 2), table.slice(2, 1)]), "u": None}[relation]
            if delta is not None:
                weights = [1, 1, -1] if relation == "t" else [1] * delta.num_rows
                delta = delta.append_column(WEIGHT, pa.array(weights, pa.int32()))
            inputs[relation] = Input(
                relation, columns, table.schema, str(folder / relation), 0, State.NEW, True, delta, table.num_rows
            )
        read = []
        find = KeyedReader.find

        def spied(self, columns, keys, *args, **kwargs):
            if self._delta.table_uri.rstrip("/").endswith("/t"):
                read.append("".join(columns))
            return find(self, columns, keys, *args, **kwargs)

        monkeypatch.setattr(KeyedReader, "find", spied)
        requests = Requests()
        for one in ASKERS.values():
            requests.merge(one.requests)
        scratch, found = Location.of(str(folder / "scratch")), FoundRows(1000)
        for name in before:
            earlier = ArrowDatasets(pytest.fail, scratch, name, inputs, limits).sharing(found)
            earlier.load(ASKERS[name].requests, (ASKERS[name],))
        loaded = ArrowDatasets(pytest.fail, scratch, "x", inputs, limits).sharing(found)
        loaded.load(requests, tuple(ASKERS.values()), later or {})
        return tables, loaded, read

    return made


def bag(rows: pa.Table) -> Counter[str]:
    return Counter(map(str, rows.to_pylist()))


def take(rows: pa.Table, numbers: set[int]) -> pa.Table:
    return rows.take(pa.array(sorted(numbers), pa.int64()))


def keys(rows: pa.Table, column: str) -> set[int]:
    return set(rows[column].to_pylist()) - {None}


def where(rows: pa.Table, column: str, wanted: set[int]) -> set[int]:
    """The numbers of the rows."""
    return {i for i, v in enumerate(rows[column].to_pylist()) if v in wanted}


def delta_keys(tables, relation: str, column: str) -> set[int]:
    return keys(tables[relation].slice(0, 3), column)


def expected(tables) -> dict[str, set[int]]:
    """The rows of t that each asks for, by the definition."""
    t, u = tables["t"], tables["u"]
    near = where(t, "a", delta_keys(tables, "d", "x"))
    other = where(t, "c", delta_keys(tables, "d", "y"))
    # The delta of t provides keys, too, of the rows that the keys of d mean.
    across = where(u, "b", keys(take(t, other), "b"))
    return {"near": near, "far": other | where(t, "a", keys(take(u, across), "a")), "neither": set()}


LARGE = replace(EMBEDDED, shared_rows=-1)


@pytest.mark.parametrize("seed", range(25))
def test_each_gets_what_it_asked_for(datasets, seed):
    tables, loaded, read = datasets(seed, LARGE)
    wanted = expected(tables)
    for name, columns in (("near", ["a", "n"]), ("far", ["a", "b", "c"]), ("neither", ["n"])):
        slice_ = loaded.seen_by(ASKERS[name])._slice("t")
        assert bag(slice_) == bag(take(tables["t"], wanted[name]).select(columns)), name
    assert read[:1] in ([], ["abcn"])
    assert set(read[1:]) <= {"abc"}, "the second round is far's alone"


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("before", ["near", "far"])
def test_columns_of_what_is_known_are_not_read_for_others(datasets, seed, before):
    """An earlier wave found what one of them asks for: only what the other one does is read, with its columns."""
    tables, loaded, read = datasets(seed, LARGE, before=[before])
    wanted = expected(tables)
    for name, columns in (("near", ["a", "n"]), ("far", ["a", "b", "c"]), ("neither", ["n"])):
        slice_ = loaded.seen_by(ASKERS[name])._slice("t")
        assert bag(slice_) == bag(take(tables["t"], wanted[name]).select(columns)), name
    assert set(read) <= {"an", "abc"}


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_are_asked_for_afterwards_are_read_as_well(datasets, seed):
    _, _, read = datasets(seed, LARGE, {"t": {"n"}})
    assert set(read) <= {"abcn"}


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("before", [[], ["near"], ["far"]], ids=str)
def test_both_states_of_an_own_slice_are_those_of_its_columns(datasets, seed, before):
    """Rows are told apart by the columns that the unit reads: those which look alike to it may replace each other."""
    tables, loaded, _ = datasets(seed, LARGE, before=before)
    wanted = expected(tables)
    t = tables["t"]
    for name, columns in (("near", ["a", "n"]), ("far", ["a", "b", "c"])):
        view = loaded.seen_by(ASKERS[name])
        view.signed(Leaf("t", "t", tuple(columns)), 1)
        (called,) = [n for n in loaded._registered if n.startswith(f"__ivm_x_both_{view._own['t'].number}_t")]
        rows = loaded.readable(called, False, None).read()
        assert rows.column_names[: len(columns)] == columns
        new = bag(rows.filter(pc.equal(rows[IN_NEW], 1)).select(columns))
        # All rows that are wanted are there once, and of the others those that the delta brought.
        there = bag(take(t, wanted[name]).select(columns))
        assert new == bag(take(t, wanted[name] | {0, 1}).select(columns))
        old = bag(rows.filter(pc.equal(rows[IN_OLD], 1)).select(columns))
        assert old == new - bag(t.slice(0, 2).select(columns)) + bag(t.slice(2, 1).select(columns))
        assert view.rows_read(["t"]) == there.total(), "those that are in one state only are counted as well"


@pytest.mark.parametrize("seed", range(5))
def test_both_states_of_rows_that_all_read(datasets, seed):
    tables, loaded, _ = datasets(seed)
    t, columns = tables["t"], list(COLUMNS["t"])
    loaded.signed(Leaf("t", "t", tuple(columns)), 1)
    rows = loaded.readable("__ivm_x_both_t", False, None).read()
    new, old = (bag(rows.filter(pc.equal(rows[flag], 1)).select(columns)) for flag in (IN_NEW, IN_OLD))
    wanted = expected(tables)
    assert new == bag(take(t, wanted["near"] | wanted["far"] | {0, 1}))
    assert old == new - bag(t.slice(0, 2)) + bag(t.slice(2, 1))


def test_all_read_the_same_of_few_rows(datasets):
    tables, loaded, read = datasets(1)
    near, far = (loaded.seen_by(ASKERS[name]) for name in ("near", "far"))
    assert set(read) <= {"abcn"}
    assert near._own == far._own == {}
    wanted = expected(tables)
    assert bag(near._slice("t")) == bag(take(tables["t"], wanted["near"] | wanted["far"]))
