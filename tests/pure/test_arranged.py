"""Arranged traces on Delta, against accumulations in plain Python."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.errors import StateError
from ivm.names import WEIGHT
from ivm.refresh.arrangements import Arranged, Followed, brought_up
from ivm.storage.location import Location
from ivm.times.frontier import Frontier
from ivm.times.reduce import accumulated
from ivm.trace.arranged import TIME, ArrangedTrace
from ivm.trace.store import Layout

PAIRS = st.tuples(st.integers(0, 3), st.integers(0, 3))


def batch(updates, dimensions=2):
    times = {
        f"time_{i}": pa.array([t[i] if dimensions > 1 else t for _, t, _ in updates], pa.int64())
        for i in range(dimensions)
    }
    return pa.table(
        {
            "k": pa.array([k for (k, _), _, _ in updates], pa.int64()),
            "v": pa.array([v for (_, v), _, _ in updates], pa.string()),
            **times,
            "w": pa.array([d for *_, d in updates], pa.int64()),
        }
    )


def trace(folder, dimensions=2):
    return ArrangedTrace.create(str(folder), {"k": pa.int64()}, {"v": pa.string()}, {"w": pa.int64()}, dimensions)


def rows(table):
    return {(r["k"], r["v"]): r["w"] for r in table.to_pylist()}


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.tuples(st.integers(0, 2), st.sampled_from("ab")), PAIRS, st.sampled_from([1, 1, -1])), max_size=8
    ),
    st.lists(PAIRS, min_size=1, max_size=2),
    PAIRS,
)
def test_compaction_changes_nothing_that_readers_beyond_it_see(tmp_path_factory, updates, since, reader):
    made = trace(tmp_path_factory.mktemp("trace") / "t")
    if updates:
        made.append(batch(updates), Frontier.of((9, 9)))
    else:
        made.append(batch([]), Frontier.of((9, 9)))
    wanted = accumulated(updates, reader)
    assert rows(made.read(reader)) == wanted
    made.advance(Frontier.of(*since))
    if Frontier.of(*since).reached_by(reader):
        assert rows(made.read(reader)) == wanted
    else:
        with pytest.raises(StateError, match="was compacted up to"):
            made.read(reader)
    made.rewrite()
    assert made.description.since == Frontier.of(*since)


def test_batches_history_and_ranges(tmp_path):
    made = trace(tmp_path / "t", 1)
    made.append(batch([((1, "a"), 1, 1), ((2, "b"), 2, 1)], 1), Frontier.of(3))
    made.append(batch([((1, "a"), 3, -1), ((3, "c"), 4, 2)], 1), Frontier.of(5))
    assert rows(made.read(2)) == {(1, "a"): 1, (2, "b"): 1}
    assert rows(made.read(4)) == {(2, "b"): 1, (3, "c"): 2}
    assert rows(made.read(4, first=3)) == {(3, "c"): 2}
    assert rows(made.read(4, last=2)) == {(2, "b"): 1}
    assert made.history(2, 4).to_pylist() == [
        {"k": 1, "v": "a", "time_0": 3, "w": -1},
        {"k": 3, "v": "c", "time_0": 4, "w": 2},
    ]
    made.advance(Frontier.of(3))
    assert made.history(3, 4).to_pylist() == [{"k": 3, "v": "c", "time_0": 4, "w": 2}]


def test_differences_may_be_tuples(tmp_path):
    made = ArrangedTrace.create(str(tmp_path / "t"), {"k": pa.int64()}, {}, {"total": pa.int64(), "n": pa.int64()})
    made.append(pa.table({"k": [1, 1, 2], "time_0": [1, 2, 2], "total": [10, -10, 5], "n": [1, -1, 1]}), Frontier.of(3))
    assert made.read(2).to_pylist() == [{"k": 2, "total": 5, "n": 1}]


def test_what_a_trace_refuses(tmp_path):
    with pytest.raises(StateError, match="no trace at"):
        ArrangedTrace(str(tmp_path / "nothing"))
    made = trace(tmp_path / "t", 1)
    made.append(batch([((1, "a"), 1, 1)], 1), Frontier.of(2))
    with pytest.raises(StateError, match=r"complete up to \(2,\), not yet at 2"):
        made.read(2)
    with pytest.raises(StateError, match="batch has no column v"):
        made.append(batch([], 1).drop_columns("v"), Frontier.of(3))
    with pytest.raises(StateError, match=r"has no column z.*It has: k, v"):
        made.matching(1, ["k"], [(("z",), pa.table({"k0": [1]}), False)], Location.of(str(tmp_path / "keys")))
    with pytest.raises(StateError, match="outside of this batch"):
        made.append(batch([((1, "a"), 1, 1)], 1), Frontier.of(3))
    with pytest.raises(StateError, match="can't end at"):
        made.append(batch([], 1), Frontier.of(1))
    with pytest.raises(StateError, match="have 1 parts"):
        made.read((1, 1))
    made.advance(Frontier.of(1))
    with pytest.raises(StateError, match="only moves forward"):
        made.advance(Frontier.of(0))


def loaded(path, keys, start, at, origin, mark="") -> ArrangedTrace:
    """A trace of rows that lie staged in a file."""
    folder = Location.of(f"{path}_staged_{at}")
    folder.make()
    pq.write_table(start, (folder / "part-0.parquet").url)
    made = ArrangedTrace.load(str(path), keys, folder, start.schema, at, origin, mark)
    folder.drop()
    return made


def test_a_loaded_trace_is_searched_by_keys_at_a_time(tmp_path):
    start = batch([((k, v), 5, 1) for k in range(4) for v in "aab"], dimensions=1)
    made = loaded(tmp_path / "t", ["k"], start, 5, "here")
    assert (made.description.since, made.description.upper, made.description.origin) == (
        Frontier.of(5),
        Frontier.of(6),
        "here",
    )
    made.append(batch([((1, "a"), 7, -1), ((1, "c"), 7, 1), ((2, "a"), 7, -2)], dimensions=1), Frontier.of(8))

    def found(keys, as_of):
        wanted = [(("k",), pa.table({"k0": pa.array(keys, pa.int64())}), False)]
        return sorted(
            (r["k"], r["v"])
            for r in made.matching(as_of, ["k", "v"], wanted, Location.of(str(tmp_path / "keys"))).to_pylist()
        )

    assert found([1, 2, 9], 6 - 1) == [(1, "a"), (1, "a"), (1, "b"), (2, "a"), (2, "a"), (2, "b")]
    assert found([1, 2], 7) == [(1, "a"), (1, "b"), (1, "c"), (2, "b")]
    with pytest.raises(StateError, match="was compacted up to"):
        found([1], 4)
    with pytest.raises(StateError, match="complete up to"):
        found([1], 8)
    made.append(batch([((3, "b"), 8, -2)], dimensions=1), Frontier.of(9))
    assert found([3], 7) == [(3, "a"), (3, "a"), (3, "b")]
    with pytest.raises(StateError, match=r"holds \{'k': 3, 'v': 'b'.*less than zero times at 8"):
        found([3], 8)
    again = loaded(tmp_path / "t", ["v"], start.select(["v", "k", "time_0", "w"]), 9, "there")
    assert (again.description.keys, again.description.values, again.description.origin) == (("v",), ("k",), "there")


def test_an_arrangement_follows_only_the_history_that_it_came_from(tmp_path, monkeypatch):
    """Two commits of one number are told apart by their marks.

    A source's folder was put back from a copy, then written to.
    """
    layout = Layout(Location.of(str(tmp_path)))
    context, asked = SimpleNamespace(layout=layout), Arranged("t", ("k",), ("view",))
    start = batch([((1, "a"), 5, 1)], dimensions=1).rename_columns(["k", "v", "time_0", WEIGHT])
    loaded(layout.arrangement("t", ["k"]), ["k"], start, 5, "table", "five")
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    told = []

    def delta(after: int, mark: str, columns: object) -> pa.Table | None:
        told.append((after, mark))
        return (
            batch([((2, "b"), 6, 1)], dimensions=1).rename_columns(["k", "v", TIME, WEIGHT]) if mark == "five" else None
        )

    def brought(time: int, mark: str) -> str:
        found = brought_up(context, asked, Followed("table", time, mark, schema, "", delta), ["v"])
        return "anew" if found == "anew" else f"{found.description.upper.times[0] - 1} {found.description.mark}"

    monkeypatch.setattr("ivm.refresh.arrangements.rebuilt", lambda *_: "anew")
    assert brought(5, "five") == "5 five"
    assert brought(5, "another five") == "anew"
    assert brought(6, "six") == "6 six"
    assert told == [(5, "five")]
    assert brought(7, "seven") == "anew", "the feed after another commit tells nothing"
    assert told[1:] == [(6, "six")]


def test_the_log_does_not_grow_with_the_batches(tmp_path):
    """Seen: 47 entries after 47 epochs; Delta's own checkpoints come after 100 commits and keep 30 days."""
    made = trace(tmp_path / "t", 1)
    for time in range(1, 36):
        made.append(batch([((1, f"v{time}"), time, 1)], 1), Frontier.of(time + 1))
    assert len(list((tmp_path / "t" / "_delta_log").glob("*.json"))) <= 12
    assert len(ArrangedTrace(str(tmp_path / "t")).read(35).to_pylist()) == 35
