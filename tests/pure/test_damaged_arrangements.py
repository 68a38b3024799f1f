"""An arrangement is only a copy: one that is damaged is made anew, and neither stops anything nor is believed.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ivm.testing.recovery import differences
from ivm.trace import arranged
from tests.scenes import change

pytestmark = pytest.mark.slow


#: What the scene is made ready for.
BEFORE = "compact"


def arrangement(lake):
    return Path(lake.pipeline(lake.folder).context.layout.arrangement("orders", ["cust"]))


def garbled(folder):
    """The newest commit can't be read."""
    max((folder / "_delta_log").glob("*.json")).write_text("{\n")


def beheaded(folder):
    """The first commit is gone."""
    (folder / "_delta_log" / f"{0:020d}.json").unlink()


def emptied(folder):
    """No log is left."""
    shutil.rmtree(folder / "_delta_log")


def bereft(folder):
    """Its data files are gone."""
    for file in folder.glob("*.parquet"):
        file.unlink()


def thinned(folder):
    """Somebody deleted a row."""
    DeltaTable(str(folder)).delete("cust = 1")


DAMAGES = [garbled, beheaded, emptied, bereft, thinned]


def refreshed(lake):
    """The strategy of the view that searches the arrangement, all views being right."""
    report = lake.pipeline(lake.folder).refresh()
    assert report.ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []
    return report.views["named"].strategy


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_arrangement_is_made_anew(lake, damage):
    damage(arrangement(lake))
    for _ in range(3):  # what is bereft shows only when it is searched
        change(lake)
        assert refreshed(lake) == "incremental"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_arrangement_stops_no_compaction_and_no_status(lake, damage):
    damage(arrangement(lake))
    pipe = lake.pipeline(lake.folder)
    (shown,) = pipe.status()["arrangements"] or [{"error": "gone"}]
    assert damage is bereft or shown["error"]
    pipe.compact(keep_epochs=0)
    assert pipe.context.log.manifest().compacted == pipe.context.log.manifest().epoch
    change(lake)
    refreshed(lake)
    change(lake)
    assert refreshed(lake) == "incremental"


def test_maintenance_of_an_arrangement_by_others_is_accepted(lake):
    before = arrangement(lake)
    table = DeltaTable(str(before))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    begun = table.version()
    change(lake)
    assert refreshed(lake) == "incremental"
    assert DeltaTable(str(before)).history()[0]["version"] == begun + 1


def test_a_change_between_two_of_our_commits_is_noticed(lake, monkeypatch):
    """Somebody deletes rows after the arrangement was looked at, before it is carried on."""
    write = arranged.write_deltalake

    def late(table, *args, **kwargs):
        monkeypatch.setattr(arranged, "write_deltalake", write)
        thinned(arrangement(lake))
        write(table, *args, **kwargs)

    change(lake)
    monkeypatch.setattr(arranged, "write_deltalake", late)
    for _ in range(2):
        refreshed(lake)
        change(lake)
    assert refreshed(lake) == "incremental"
