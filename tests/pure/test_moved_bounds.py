"""A bound that moved asks for a range of rows, and others may ask for rows beyond it.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.planner.limits import EMBEDDED
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow

FEED = {"delta.enableChangeDataFeed": "true"}
VIEWS = {
    "ranked": "SELECT c.g, c.v, row_number() OVER (PARTITION BY c.g ORDER BY c.v) AS n FROM c, a WHERE c.x > a.m",
    "joined": "SELECT d.n, c.v FROM d LEFT JOIN c ON c.k = d.k",
}


def test_groups_beyond_a_bound_are_not_made_of_what_another_view_has_read_of_them(tmp_path, without_a_jvm):
    def write(name, mode="append", **columns):
        rows = pa.table({c: pa.array(v, pa.int64()) for c, v in columns.items()})
        write_deltalake(str(tmp_path / name), rows, mode=mode, configuration=FEED)

    def refreshed():
        pipe = ivm.Pipeline(
            "bounds", DuckSession(), tmp_path / "root", limits=replace(EMBEDDED, whole_rows=0, native_whole_rows=0)
        )
        for name in ("a", "c", "d"):
            pipe.source(name, str(tmp_path / name))
        for name, sql in VIEWS.items():
            pipe.view(name, sql, mode="incremental")
        report = pipe.refresh()
        assert report.ok, [v.error for v in report.views.values()]
        return {n: v.strategy for n, v in report.views.items()}, sorted(pipe.read("ranked").collect())

    write("a", m=[4])
    # Of group 2, far beyond the bound, the other view reads one row of two.
    write("c", k=[1, 2, 3], g=[1, 2, 2], v=[7, 8, 9], x=[5, 100, 100])
    write("d", n=[1], k=[1])
    assert refreshed()[1] == [(1, 7, 1), (2, 8, 1), (2, 9, 2)]
    DeltaTable(str(tmp_path / "a")).delete("m = 4")
    write("a", m=[6])
    write("d", n=[2], k=[3])
    strategies, found = refreshed()
    assert strategies == {"ranked": "incremental", "joined": "incremental"}
    assert found == [(2, 8, 1), (2, 9, 2)]
