"""Columns of a subquery that the outer query's are compared with: what is walked along finds each row that matters."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ivm.planner.limits import EMBEDDED
from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

#: No relation is small enough to be read as a whole.
KEYED = replace(EMBEDDED, whole_rows=0)
TABLES = {"t": ("id", "a", "b"), "s": ("k", "x"), "r": ("k", "x")}
ROWS = {"t": [(1, 7, 5), (2, 5, 7)], "s": [(1, 7)], "r": []}


def rows(name, listed):
    schema = pa.schema([(c, pa.int32()) for c in TABLES[name]])
    return pa.Table.from_pylist([dict(zip(TABLES[name], row, strict=True)) for row in listed], schema)


@pytest.mark.parametrize(
    ("subquery", "changed"),
    [
        ("SELECT s.x, r.x FROM s JOIN r ON s.k = r.k", {"r": (1, 5)}),
        ("SELECT s.x, max(s.k) AS x FROM s GROUP BY s.x", {"s": (5, 7)}),
    ],
)
@pytest.mark.usefixtures("without_a_jvm")
def test_columns_of_a_subquery_are_told_apart_by_their_places(tmp_path, subquery, changed):
    view = {"v": f"SELECT t.id FROM t WHERE (t.a, t.b) IN ({subquery})"}
    scene = Scene(DuckSession(), tmp_path, view, tuple(TABLES), writes=WRITES, limits=KEYED)
    for name, listed in ROWS.items():
        write_deltalake(
            tmp_path / "sources" / name, rows(name, listed), configuration={"delta.enableChangeDataFeed": "true"}
        )
    assert scene.pipeline(tmp_path).refresh().ok
    for name, row in changed.items():
        write_deltalake(tmp_path / "sources" / name, rows(name, [row]), mode="append")
    pipe = scene.pipeline(tmp_path)
    assert {v.strategy for v in pipe.refresh().views.values()} == {"incremental"}
    assert pipe.read("v").collect()
    assert differences(pipe, scene.recomputed(tmp_path)) == []
