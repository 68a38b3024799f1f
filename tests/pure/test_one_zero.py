"""Rows of a recursion by UNION are told apart as by DISTINCT, to which -0.0 is 0.0."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

BASE = pa.schema([("k", pa.int32()), ("x", pa.float64())])
EDGES = pa.table({"src": pa.array([1], pa.int32()), "dst": pa.array([2], pa.int32())})
REACHED = (
    "WITH RECURSIVE r (k, x) AS (SELECT k, x FROM base UNION SELECT e.dst, r.x FROM r JOIN e ON e.src = r.k) "
    "SELECT k, x FROM r"
)


@pytest.mark.usefixtures("without_a_jvm")
def test_a_negative_zero_is_no_second_row(tmp_path):
    scene = Scene(DuckSession(), tmp_path, {"v": REACHED}, ("base", "e"), writes=WRITES)
    base = tmp_path / "sources" / "base"
    fed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path / "sources" / "e", EDGES, configuration=fed)
    write_deltalake(base, pa.Table.from_pylist([{"k": 1, "x": 0.0}], BASE), configuration=fed)
    assert scene.pipeline(tmp_path).refresh().ok
    write_deltalake(base, pa.Table.from_pylist([{"k": 1, "x": -0.0}, {"k": 1, "x": 1.5}], BASE), mode="append")
    assert _rows(scene, tmp_path) == [(1, 0.0), (1, 1.5), (2, 0.0), (2, 1.5)]
    DeltaTable(base).delete("x = 1.5")
    assert _rows(scene, tmp_path) == [(1, 0.0), (2, 0.0)]


def _rows(scene, folder):
    """The view's rows after a refresh by what changed."""
    pipe = scene.pipeline(folder)
    assert {v.strategy for v in pipe.refresh().views.values()} == {"incremental"}
    assert differences(pipe, scene.recomputed(folder)) == []
    return sorted(pipe.read("v").collect())
