"""What OpenLineage is told of published views: built as plain data, and by the client's classes where it is installed.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from types import ModuleType

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.declarations import declared
from ivm.orchestration import lineage
from ivm.pipeline import Pipeline
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow

PIPELINE = """
name: shop
root: {folder}/root
sources:
  orders: {{path: {folder}/orders}}
"""
VIEWS = {
    "totals": "SELECT customer, sum(amount * 2) AS total, count(*) AS n FROM orders GROUP BY customer",
    "rich": "SELECT t.customer, o.amount FROM totals t JOIN orders o ON t.customer = o.customer WHERE t.total > 10",
    "whole": "SELECT customer FROM orders",
}


@pytest.fixture
def folder(tmp_path, without_a_jvm):
    """A pipeline folder whose views were published twice."""
    (tmp_path / "views").mkdir()
    (tmp_path / "pipeline.yml").write_text(PIPELINE.format(folder=tmp_path))
    for view, sql in VIEWS.items():
        mode = "full" if view == "whole" else "incremental"
        (tmp_path / "views" / f"{view}.sql").write_text(f"-- mode: {mode}\n{sql}")
    for rows in ({"customer": ["a", "b"], "amount": [1, 20]}, {"customer": ["a"], "amount": [7]}):
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / "orders"), pa.table(rows), mode="append", configuration=feed)
        assert Pipeline.load(tmp_path, spark=DuckSession()).refresh().ok
    return tmp_path


def test_tables_have_their_places_versions_and_rows(folder):
    inputs, outputs = lineage.datasets(declared(folder), ["totals", "whole"])
    assert inputs == [
        {"namespace": "file", "name": f"{folder}/orders", "facets": {"version": {"datasetVersion": "1"}}},
    ]
    totals, whole = outputs
    assert (totals["namespace"], totals["name"]) == ("file", f"{folder}/root/totals")
    version = str(DeltaTable(f"{folder}/root/totals").version())
    assert totals["facets"]["version"] == {"datasetVersion": version}
    assert totals["outputFacets"] == {"outputStatistics": {"rowCount": 2}}
    assert [f["name"] for f in totals["facets"]["schema"]["fields"]] == ["customer", "total", "n"]
    assert list(whole["facets"]["columnLineage"]["fields"]) == ["customer"]


def test_stores_are_named_by_their_buckets():
    assert (
        lineage.named("s3://lake/a/b") == lineage.named("s3a://lake/a/b") == {"namespace": "s3://lake", "name": "a/b"}
    )
    abfss = lineage.named("abfss://box@account.dfs.core.windows.net/a")
    assert abfss == {"namespace": "abfss://box@account.dfs.core.windows.net", "name": "a"}
    assert lineage.named("file:///lake/a") == lineage.named("/lake/a") == {"namespace": "file", "name": "/lake/a"}


def test_columns_lead_to_those_of_sources_and_of_other_views(folder):
    inputs, (rich,) = lineage.datasets(declared(folder), ["rich"])
    assert {d["name"] for d in inputs} == {f"{folder}/orders", f"{folder}/root/totals"}
    totals, orders = f"{folder}/root/totals", f"{folder}/orders"
    assert rich["facets"]["columnLineage"] == {
        "fields": {
            "customer": {"inputFields": [{"namespace": "file", "name": totals, "field": "customer"}]},
            "amount": {"inputFields": [{"namespace": "file", "name": orders, "field": "amount"}]},
        }
    }
    inputs, _ = lineage.datasets(declared(folder), ["totals", "rich"])
    assert [d["name"] for d in inputs] == [orders], "what the task made itself is no input"


def test_a_program_that_is_not_kept_costs_the_columns_only(folder):
    for file in (folder / "root" / "_ivm" / "programs").iterdir():
        file.unlink()
    inputs, (totals,) = lineage.datasets(declared(folder), ["totals"])
    assert [d["name"] for d in inputs] == [f"{folder}/orders"]
    assert "columnLineage" not in totals["facets"]


@pytest.fixture
def provider(monkeypatch):
    """A stand-in of the provider's public module; what it is told lies in `told`."""
    api = ModuleType("airflow.providers.openlineage.api")
    api.told, api.active = [], True
    api.is_openlineage_active = lambda: api.active
    api.emit_dataset_lineage = lambda **given: api.told.append(given)
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.api", api)
    return api


def test_nothing_is_told_where_nobody_listens_and_nothing_fails(folder, provider, monkeypatch, capsys):
    monkeypatch.setattr(lineage, "told", lambda kind, made: list(made))
    lineage.emit(str(folder), ["totals"])
    assert [d["name"] for d in provider.told.pop()["outputs"]] == [f"{folder}/root/totals"]
    lineage.emit(str(folder), [])
    provider.active = False
    lineage.emit(str(folder), ["totals"])
    assert provider.told == []
    provider.active = True
    lineage.emit(str(folder / "gone"), ["totals"])
    assert "OpenLineage is not told: ConfigError" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.api", None)
    lineage.emit(str(folder), ["totals"])


@pytest.mark.skipif(not importlib.util.find_spec("openlineage"), reason="openlineage-python is not installed")
def test_the_clients_classes_hold_the_same(folder):
    from openlineage.client.serde import Serde

    inputs, outputs = lineage.datasets(declared(folder), ["totals", "rich", "whole"])
    for kind, made in (("InputDataset", inputs), ("OutputDataset", outputs)):
        for dataset, given in zip(lineage.told(kind, made), made, strict=True):
            said = json.loads(Serde.to_json(dataset))
            assert plain(said) == plain(given)


def plain(value):
    """Without the client's marks (`_producer`, `_schemaURL`), and what is empty."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if not k.startswith("_") and v not in ([], {}, None)}
    return [plain(v) for v in value] if isinstance(value, list) else value
