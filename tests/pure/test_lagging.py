"""A view that lags behind one that it reads, which is arranged: it reads the other as it was. DuckDB for Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.pure.test_lost_log import Lake, ints

pytestmark = pytest.mark.slow


class Rebuilt(Lake):
    """`up` is built in full each time, but followed by what changed in it."""

    def pipe(self):
        made = super().pipe()
        made.view("up", "SELECT k, name FROM c WHERE k > 0", mode="full")
        made.view("d", "SELECT /*+ ARRANGE(up, k) */ o.id, u.name FROM o JOIN up u ON u.k = o.k")
        return made


@pytest.fixture
def lagging(tmp_path, without_a_jvm):
    """An arrangement that two batches of its view are still to be brought to; `d` has read the first of them."""
    lake = Rebuilt(tmp_path, {})
    lake.add("c", k=ints(*range(1, 40)), name=pa.array(["a"] * 39))
    lake.add("o", id=ints(1), k=ints(1))
    lake.refreshed()
    lake.add("o", id=ints(2), k=ints(2))
    lake.refreshed()
    assert list(lake.pipe().context.layout.arrangements.list()), "it is made"
    lake.add("c", k=ints(50), name=pa.array(["b"]))
    lake.refreshed()
    lake.add("c", k=ints(60), name=pa.array(["b"]))
    assert lake.pipe().refresh(["up"]).ok
    return lake


def test_rows_that_came_before_the_reader_lagged_are_found(lagging):
    lagging.add("o", id=ints(9), k=ints(50))
    assert lagging.refreshed().views["d"].strategy == "incremental"
    assert lagging.rows("d") == [(1, "a"), (2, "a"), (9, "b")]


def test_rows_that_came_while_the_reader_lagged_are_found_once(lagging):
    lagging.add("o", id=ints(9), k=ints(60))
    lagging.refreshed()
    assert lagging.rows("d") == [(1, "a"), (2, "a"), (9, "b")]
