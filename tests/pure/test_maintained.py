"""OPTIMIZE and VACUUM of a published table by somebody, while an epoch is open: what reads it is built again."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.refresh.run import step_plan
from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

VIEWS = {"v": "SELECT a, b FROM t WHERE a > 100", "over": "SELECT b, count(*) AS n FROM v GROUP BY b"}


def added(folder, *rows):
    write_deltalake(
        str(folder / "sources" / "t"),
        pa.table({"a": pa.array([a for a, _ in rows], pa.int32()), "b": pa.array([b for _, b in rows], pa.int32())}),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
    )


def maintained(folder):
    table = DeltaTable(str(folder / "root" / "v"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


@pytest.mark.usefixtures("without_a_jvm")
@pytest.mark.parametrize("row", [(1, 1), (300, 1)], ids=["that leaves it as it is", "that changes it"])
def test_between_the_plan_and_the_rest_of_an_epoch(tmp_path, row):
    scene = Scene(DuckSession(), tmp_path, VIEWS, ("t",), writes=WRITES)
    for rows in ([(200, 1)], [(300, 2)]):
        added(tmp_path, *rows)
        assert scene.pipeline(tmp_path).refresh().ok
    added(tmp_path, row)
    step_plan(scene.pipeline(tmp_path).context)
    maintained(tmp_path)
    assert scene.pipeline(tmp_path).refresh().ok
    pipe = scene.pipeline(tmp_path)
    state = pipe.context.log.manifest().units["v"]
    assert state.version == state.heads["table"].version
    report = pipe.backfill("over")
    assert report.ok, report
    assert differences(pipe, scene.recomputed(tmp_path)) == []
