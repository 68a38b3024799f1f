"""What epochs of tiny changes leave behind is bounded: files are removed with what they held.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.housekeeping import Retention
from ivm.refresh import compact
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow
EPOCHS, LOOK = 28, 14


def test_files_do_not_grow_with_epochs(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setattr(compact, "ARCHIVED", 6_000)
    source, root = str(tmp_path / "t"), tmp_path / "root"
    feed = {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "4"}
    write_deltalake(source, rows(range(20)), configuration=feed)
    checks = {"totals": {"state": [{"expect_column_values_to_not_be_null": {"column": "k"}}]}}
    pipe = ivm.Pipeline(
        "growth", DuckSession(), root, checks=checks, retention=Retention(hours=0, epochs=4, compact_every=4)
    )
    pipe.source("t", source)
    pipe.view("totals", "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k")
    pipe.view("large", "SELECT k, s FROM totals WHERE s > 10")
    assert pipe.refresh().ok
    looks, full = [], []
    for epoch in range(1, EPOCHS + 1):
        DeltaTable(source).delete(f"v = {epoch}")
        write_deltalake(source, rows([epoch, epoch + 100]), mode="append")
        assert pipe.refresh().ok
        if epoch % LOOK == 0:
            looks.append(Counter(str(f.relative_to(root).parent) for f in root.rglob("*") if f.is_file()))
            archive = DeltaTable(root / "_ivm" / "archive").get_add_actions()
            full.append({a["path"] for a in archive.to_struct_array().to_pylist() if a["size_bytes"] > 6_000})
    first, last = looks[0], looks[-1]
    # Logs are cleaned with every tenth commit.
    assert {folder: (first[folder], n) for folder, n in last.items() if n > first[folder] + 12} == {}
    # What is large in an archive is read and written once: compacting costs no more after a year.
    assert full[0]
    assert full[0] < full[1]
    # A checkpoint lists the files that are there, not a week's that are gone.
    listed = pq.read_table(max((root / "_ivm" / "epochs" / "_delta_log").glob("*.checkpoint.parquet")))
    assert len(listed) - listed["remove"].null_count < EPOCHS
    kept = {int(f.name[:10]) for f in (root / "_ivm" / "checks").glob("*.json*")}
    archived = DeltaTable(root / "_ivm" / "archive_checks").to_pyarrow_table().to_pylist()
    assert len({row["epoch"] for row in archived} | kept) == EPOCHS + 1
    assert all(json.loads(line)["success"] for row in archived for line in row["results"].splitlines())


def rows(values):
    return pa.table({"k": pa.array([v % 5 for v in values], pa.int64()), "v": pa.array(list(values), pa.int64())})
