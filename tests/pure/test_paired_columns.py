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
#: Integers that are one double.
ODD, EVEN = 2**53 + 1, 2**53
SCHEMAS = {
    "t": {"id": pa.int32(), "k": pa.int32(), "a": pa.int64(), "b": pa.int64()},
    "s": {"k": pa.int32(), "x": pa.int64()},
    "r": {"k": pa.int32(), "x": pa.int64()},
    "d": {"k": pa.int32(), "x": pa.float64()},
}
ROWS = {"t": [(1, 1, 7, 5), (2, 1, 5, 7), (3, 1, ODD, 0)], "s": [(1, 7)], "r": [], "d": [(1, 0.5)]}


def append(folder, name, rows):
    schema = pa.schema(SCHEMAS[name])
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    fed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(folder / "sources" / name, table, mode="append", configuration=fed)


def changed(folder, condition, name, row):
    """The ids of the rows of t that meet a condition, after a row was appended to a table."""
    view = {"v": f"SELECT t.id FROM t WHERE {condition}"}
    scene = Scene(DuckSession(), folder, view, tuple(SCHEMAS), writes=WRITES, limits=KEYED)
    for source, rows in ROWS.items():
        append(folder, source, rows)
    assert scene.pipeline(folder).refresh().ok
    append(folder, name, [row])
    pipe = scene.pipeline(folder)
    assert {v.strategy for v in pipe.refresh().views.values()} == {"incremental"}
    assert differences(pipe, scene.recomputed(folder)) == []
    return sorted(i for (i,) in pipe.read("v").collect())


@pytest.mark.parametrize(
    ("subquery", "name", "row"),
    [
        ("SELECT s.x, r.x FROM s JOIN r ON s.k = r.k", "r", (1, 5)),
        ("SELECT s.x, max(s.k) AS x FROM s GROUP BY s.x", "s", (5, 7)),
    ],
)
@pytest.mark.usefixtures("without_a_jvm")
def test_columns_are_told_apart_by_their_places(tmp_path, subquery, name, row):
    assert changed(tmp_path, f"(t.a, t.b) IN ({subquery})", name, row) == [1]


#: As doubles, which the union makes of both branches, the values are one.
UNION = "SELECT s.x FROM s WHERE s.k = t.k UNION ALL SELECT d.x FROM d WHERE d.k = t.k"


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (f"t.a IN ({UNION})", [1, 3]),
        (f"EXISTS (SELECT 1 FROM ({UNION}) AS u WHERE u.x = t.a)", [1, 3]),
        (f"EXISTS (SELECT 1 FROM ({UNION}) AS u WHERE u.x = {ODD} AND t.b >= 0)", [1, 2, 3]),
    ],
    ids=["in", "exists", "filter"],
)
@pytest.mark.usefixtures("without_a_jvm")
def test_values_of_a_union_are_compared_in_the_type_that_it_gives_them(tmp_path, condition, wanted):
    assert changed(tmp_path, condition, "s", (1, EVEN)) == wanted
