"""What a pipeline does where tables that aren't its own are gone, or lie where it would write. DuckDB is Spark here."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from ivm.errors import SourceError, StateError
from ivm.pipeline import Pipeline
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow

FED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with two sources and a view of each."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    folder = tmp_path / "shop"
    (folder / "views").mkdir(parents=True)
    for name in ("orders", "people"):
        add(tmp_path, name, 1, 2)
        (folder / "views" / f"of_{name}.sql").write_text(f"SELECT k, count(*) AS n FROM {name} GROUP BY k")
    sources = {name: {"path": str(tmp_path / name)} for name in ("orders", "people")}
    (folder / "pipeline.yml").write_text(
        yaml.safe_dump({"name": "shop", "root": str(tmp_path / "root"), "sources": sources})
    )
    return folder


def add(place, name, *keys):
    write_deltalake(str(place / name), pa.table({"k": pa.array(keys, pa.int64())}), mode="append", configuration=FED)


def rows(place, view):
    return sorted(
        map(tuple, (r.values() for r in DeltaTable(str(place / "root" / view)).to_pyarrow_table().to_pylist()))
    )


def test_a_source_that_is_gone_stops_what_reads_it_and_nothing_else(shop, tmp_path):
    assert Pipeline.load(shop, DuckSession()).refresh().ok
    shutil.move(tmp_path / "people", tmp_path / "elsewhere")
    add(tmp_path, "orders", 2)
    report = Pipeline.load(shop, DuckSession()).refresh()
    assert not report.ok
    assert "people" in report.views["of_people"].error
    assert rows(tmp_path, "of_orders") == [(1, 1), (2, 2)]
    shutil.move(tmp_path / "elsewhere", tmp_path / "people")
    add(tmp_path, "people", 3)
    assert Pipeline.load(shop, DuckSession()).refresh().ok
    assert rows(tmp_path, "of_people") == [(1, 1), (2, 1), (3, 1)]


def test_a_source_that_never_was_is_said_at_once(shop, tmp_path):
    shutil.rmtree(tmp_path / "people")
    with pytest.raises(SourceError, match="people"):
        Pipeline.load(shop, DuckSession())


def test_a_table_that_others_wrote_is_not_built_over(shop, tmp_path):
    add(tmp_path / "root", "of_people", 7)
    report = Pipeline.load(shop, DuckSession()).refresh()
    assert "did not write" in report.views["of_people"].error
    assert report.views["of_orders"].error == ""
    assert rows(tmp_path, "of_people") == [(7,)]
    shutil.rmtree(tmp_path / "root" / "of_people")
    assert Pipeline.load(shop, DuckSession()).refresh().ok
    assert rows(tmp_path, "of_people") == [(1, 1), (2, 1)]


def test_a_table_of_ones_own_is_built_anew_though_its_state_is_lost(shop, tmp_path):
    assert Pipeline.load(shop, DuckSession()).refresh().ok
    shutil.rmtree(tmp_path / "root" / "_ivm")
    add(tmp_path, "people", 3)
    pipe = Pipeline.load(shop, DuckSession())
    pipe.repair(dry_run=False)
    assert pipe.refresh().ok
    assert rows(tmp_path, "of_people") == [(1, 1), (2, 1), (3, 1)]


def test_rows_of_an_epoch_are_not_read_from_a_table_that_was_built_anew(shop, tmp_path):
    pipe = Pipeline.load(shop, DuckSession())
    for key in (3, 4):
        assert pipe.refresh().ok
        add(tmp_path, "people", key)
    assert sorted(pipe.read("of_people", epoch=1).collect()) == [(1, 1), (2, 1)]
    shutil.rmtree(tmp_path / "root" / "of_people")
    for key in (5, 6, 7):
        assert pipe.refresh().ok
        add(tmp_path, "people", key)
    with pytest.raises(StateError, match="built anew, or put back, after epoch 2"):
        pipe.read("of_people", epoch=2)
    assert len(pipe.read("of_people", epoch=pipe.context.log.manifest().epoch).collect()) == 6
