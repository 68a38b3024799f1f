"""ORDER BY ... LIMIT from its stored rows, row by row: a table grows to the limit and past it, and shrinks again."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.planner.limits import EMBEDDED
from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32())])
VIEWS = {
    "smallest": "SELECT a, b FROM t ORDER BY a, b LIMIT 3",
    "largest": "SELECT a, b FROM t ORDER BY b DESC, a LIMIT 4",
    "joined": "SELECT l.a, r.b FROM (SELECT a, b FROM t ORDER BY a, b LIMIT 3) l LEFT JOIN t r ON l.b = r.a",
}
#: Behind all that is stored until the limits are reached; then before, between, and twice the same; NULLs.
ROWS = [(5, 1), (7, 2), (8, 0), (6, -1), (9, 9), (8, 3), (None, 4), (5, 1), (1, None), (2, 2), (9, 9)]


@pytest.mark.parametrize("few", [-1, 6, EMBEDDED.few_first_rows], ids=["stored", "either", "all"])
@pytest.mark.usefixtures("without_a_jvm")
def test_a_limit_is_reached_and_left_row_by_row(tmp_path, few):
    limits = replace(EMBEDDED, few_first_rows=few)
    scene = Scene(DuckSession(), tmp_path, VIEWS, ("t",), writes=WRITES, limits=limits)
    path = str(tmp_path / "sources" / "t")
    write_deltalake(path, SCHEMA.empty_table(), configuration={"delta.enableChangeDataFeed": "true"})
    assert scene.pipeline(tmp_path).refresh().ok
    strategies = set()
    for row in ROWS:
        write_deltalake(path, pa.Table.from_pylist([dict(zip("ab", row, strict=True))], SCHEMA), mode="append")
        strategies |= _right(scene, tmp_path)
    for b in (3, 9, 1):
        DeltaTable(path).delete(f"b = {b}")
        strategies |= _right(scene, tmp_path)
    assert "incremental" in strategies


def _right(scene, folder):
    """Refresh and compare; returns the strategies."""
    pipe = scene.pipeline(folder)
    report = pipe.refresh()
    assert report.ok, report
    assert differences(pipe, scene.recomputed(folder)) == []
    return {view.strategy for view in report.views.values()}
