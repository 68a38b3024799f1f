"""Arranged traces on Delta, against accumulations in plain Python."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.errors import StateError
from ivm.times.frontier import Frontier
from ivm.times.reduce import accumulated
from ivm.trace.arranged import ArrangedTrace

PAIRS = st.tuples(st.integers(0, 3), st.integers(0, 3))


def batch(updates, dimensions=2):
    times = {f"time_{i}": pa.array([t[i] if dimensions > 1 else t for _, t, _ in updates], pa.int64()) for i in range(dimensions)}
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


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.tuples(st.integers(0, 2), st.sampled_from("ab")), PAIRS, st.sampled_from([1, 1, -1])), max_size=8),
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
    assert made.history(2, 4).to_pylist() == [{"k": 1, "v": "a", "time_0": 3, "w": -1}, {"k": 3, "v": "c", "time_0": 4, "w": 2}]
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
    with pytest.raises(StateError, match="outside of this batch"):
        made.append(batch([((1, "a"), 1, 1)], 1), Frontier.of(3))
    with pytest.raises(StateError, match="can't end at"):
        made.append(batch([], 1), Frontier.of(1))
    with pytest.raises(StateError, match="have 1 parts"):
        made.read((1, 1))
    made.advance(Frontier.of(1))
    with pytest.raises(StateError, match="only moves forward"):
        made.advance(Frontier.of(0))
