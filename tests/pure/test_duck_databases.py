"""DuckDB's databases are used again, empty."""

from __future__ import annotations

import pyarrow as pa
import pytest

duckdb = pytest.importorskip("duckdb")

from ivm.engine import duck  # noqa: E402 - needs DuckDB
from ivm.plan.nodes import Column  # noqa: E402

COLUMNS = (Column("a", "bigint"),)


@pytest.fixture(autouse=True)
def _none_idle(monkeypatch):
    monkeypatch.setattr(duck, "_idle", [])


def test_one_that_was_closed_is_taken_again_without_its_tables():
    first = duck.Database()
    first.load("t", lambda: pa.table({"a": pa.array([1], pa.int64())}), COLUMNS)
    taken = first.connection
    first.close()
    first.close()
    assert duck._idle == [taken]
    again = duck.Database()
    assert again.connection is taken
    again.load("t", lambda: pa.table({"a": pa.array([2, 3], pa.int64())}), COLUMNS)
    assert again.connection.sql("SELECT sum(a) FROM t").fetchall() == [(5,)]
    assert duck.Database().connection is not taken


def test_one_that_can_not_be_emptied_is_not():
    broken = duck.Database()
    broken.load("t", lambda: pa.table({"a": pa.array([1], pa.int64())}), COLUMNS)
    broken.connection.execute("DROP TABLE t")
    broken.close()
    assert duck._idle == []


def test_few_are_kept():
    for database in [duck.Database() for _ in range(4)]:
        database.close()
    assert len(duck._idle) == duck._KEPT
