"""The real dbt on the project of the tests: what it compiles is taken over, and its 'ivm' models show what ivm keeps.

Where dbt (with dbt-spark) is: $IVM_DBT, else on the path. Run at night.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

from ivm.adopt import switch_on
from ivm.dbt import project as projects
from ivm.errors import ConfigError
from ivm.pipeline import Pipeline
from tests.dbt_project import MANIFEST, Dbt, put, trimmed, write_tables

PROGRAM = os.environ.get("IVM_DBT") or shutil.which("dbt")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("IVM_NIGHTLY") != "1", reason="a minute or two; IVM_NIGHTLY=1 runs it"),
    pytest.mark.skipif(PROGRAM is None, reason="dbt isn't installed: put it on the path, or name it by IVM_DBT"),
]


def without_its_time(manifest):
    """A trimmed manifest without what is another in each run, or each version of dbt's own macros."""
    meta = {k: v for k, v in manifest["metadata"].items() if k not in ("invocation_id", "dbt_version")}
    return {**manifest, "metadata": meta, "macros": None}


@pytest.fixture
def dbt(tmp_path):
    with Dbt(PROGRAM, tmp_path / "dbt") as served:
        yield served


def test_the_real_dbt(spark, dbt, tmp_path):
    lake = write_tables(tmp_path / "lake", "orders", "order_lines")
    places = {
        "raw.orders": str(lake / "orders"),
        "raw.lines": str(lake / "order_lines"),
        "regions": str(dbt.warehouse / "shop.db" / "regions"),
    }
    dbt("deps")
    dbt("run-operation", "raw_tables", "--args", json.dumps({"lake": str(lake)}))
    dbt("seed")

    dbt("compile", "--full-refresh")
    written, kept = (json.loads(f.read_text()) for f in (dbt.manifest, MANIFEST))
    assert without_its_time(trimmed(written)) == without_its_time(kept), "renew it: python -m tests.dbt_project TARGET"
    dbt("run", "--select", "stg_orders", "daily")
    dbt("compile")
    with pytest.raises(ConfigError, match="Model daily is incremental"):
        projects.take(dbt.manifest, places=places)
    assert "max(placed_on)" in json.loads(dbt.manifest.read_text())["nodes"]["model.shop.daily"]["compiled_code"]
    dbt("compile", "--full-refresh")
    assert "max(placed_on)" not in projects.take(dbt.manifest, places=places).adoption.views["daily"]

    dbt("run", "--select", "revenue", "best", marts="table")
    as_tables = {m: dbt.rows(f"shop.{m}") for m in ("revenue", "best")}
    dbt("compile", "--full-refresh", marts="ivm")
    taken = projects.take(dbt.manifest, places=places)
    assert sorted(taken.declared) == ["model.shop.best", "model.shop.revenue"]
    shop = tmp_path / "shop"
    projects.write(taken, shop, "shop", str(tmp_path / "out"))
    switch_on(taken.adoption.without_feed)
    given = ("--vars", (shop / "dbt_vars.json").read_text())
    select = ("run", "--select", "revenue", "best")
    dbt(*select, *given, marts="ivm", ok=False)  # ivm has published nothing yet
    assert dbt.rows("shop.revenue") == as_tables["revenue"], "nothing was dropped for it"
    pipe = Pipeline.load(shop, spark)
    assert pipe.refresh().ok
    assert "needs to know what ivm adopted" in dbt(*select, marts="ivm", ok=False)
    dbt(*select, *given, marts="ivm")
    assert {m: dbt.rows(f"shop.{m}") for m in as_tables} == as_tables

    put(lake, "orders", "id = 3", (5, "bob", "south", "d0", "paid"))
    put(lake, "order_lines", "order_id = 2", (5, 1, 10, 10))
    report = pipe.refresh()
    assert {report.views[m].strategy for m in as_tables} == {"incremental"}
    assert (
        dbt.rows("shop.revenue")
        == sorted(tuple(map(str, row)) for row in pipe.read("revenue").collect())
        != as_tables["revenue"]
    )
    assert pipe.verify("revenue").equal

    best = dbt.project / "models" / "marts" / "best.sql"
    best.write_text(best.read_text().replace("20", "30"))
    assert "ivm keeps an older query of model.shop.best" in dbt(*select, *given, marts="ivm", ok=False)
    dbt("compile", "--full-refresh", marts="ivm")
    projects.write(projects.take(dbt.manifest, places=places), shop, "shop", "", again=True)
    assert Pipeline.load(shop, spark).refresh().ok
    dbt(*select, "--vars", (shop / "dbt_vars.json").read_text(), marts="ivm")
    assert [row[0] for row in dbt.rows("shop.best")] == ["bob"]
