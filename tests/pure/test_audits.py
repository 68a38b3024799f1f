"""Audits by checksum: what is kept costs the change only, confirms nothing wrong, and accuses nothing right.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.lake import native
from ivm.lake.intact import not_as_logged
from ivm.refresh.checksums import SCAN_EVERY
from tests.pure.test_quality import SMALL, Shop

pytestmark = pytest.mark.slow
MANY = [(i, f"n{i % 7}", i % 5) for i in range(10, 310)]


@pytest.fixture(autouse=True)
def _here(without_a_jvm):
    """Spark's functions are built in this process."""


@pytest.fixture
def shop(tmp_path):
    """A shop of 303 rows whose views were audited by checksum once, so that it is kept."""
    made = Shop(tmp_path, [])
    made.add(*MANY)
    assert made.pipe().refresh().ok
    for view in ("rows_", "names"):
        assert audited(made, view).scanned == "no checksum is kept"
    return made


def audited(shop, view="rows_", **options):
    found = shop.pipe().audit(view, "checksum", **options)
    assert found, str(found)
    return found


def place(shop, view="rows_"):
    return shop.folder / "root" / "_ivm" / "audits" / f"{view}.json"


def source(shop):
    return DeltaTable(str(shop.folder / "t"))


CHANGES = {
    "nothing": (lambda shop: None, 0),
    "inserts": (lambda shop: shop.add((1000, "x", 1), (1001, None, None)), 2),
    "copies": (lambda shop: shop.add((10, "n3", 0), (10, "n3", 0)), 1),
    "deletes": (lambda shop: source(shop).delete("id < 15"), 8),
    "updates": (lambda shop: source(shop).update(updates={"amount": "NULL"}, predicate="id IN (20, 21)"), 4),
    "NULL becomes a value": (lambda shop: source(shop).update(updates={"amount": "9"}, predicate="id = 3"), 2),
    "a value leaves and returns": (
        lambda shop: (source(shop).delete("id = 30"), shop.pipe().refresh(), shop.add((30, "n2", 0))),
        2,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_audit_reads_the_change_only(shop, change):
    act, rows = CHANGES[change]
    act(shop)
    assert shop.pipe().refresh().ok
    found = audited(shop)
    assert (found.rows_read, found.scanned) == (rows, "")
    assert found.rows == shop.published()
    assert audited(shop).rows_read == 0, "what was added is kept"
    again = audited(shop, rescan=True)
    assert (again.rows_read, again.scanned) == (shop.published(), "it was asked for")


def test_a_batch_that_is_held_back_counts_when_it_is_released(tmp_path):
    shop = Shop(tmp_path, [SMALL])
    assert shop.pipe().refresh().ok
    assert not shop.refreshed((4, "c", 101)).ok
    assert audited(shop).rows == 3
    pipe = shop.pipe()
    assert pipe.compact(0), "which numbers an epoch of its own"
    assert audited(shop).rows == 3
    assert shop.pipe().release("rows_").ok
    found = audited(shop)
    assert (found.rows, found.rows_read, found.scanned) == (4, 1, "")


def test_a_compaction_in_between_costs_a_scan_only_where_the_batches_are_gone(shop):
    assert shop.refreshed((1000, "x", 1)).ok
    shop.pipe().compact(10)
    assert audited(shop).scanned == ""
    assert shop.refreshed((1001, "x", 1)).ok
    assert shop.refreshed((1002, "x", 1)).ok
    shop.pipe().compact(0)
    found = audited(shop)
    assert "the output trace goes back to epoch" in found.scanned
    assert found.rows_read == 306
    assert shop.refreshed((1003, "x", 1)).ok
    assert audited(shop).rows_read == 1


def test_a_rebuild_in_between_costs_a_scan(shop):
    assert shop.pipe().backfill("names").ok
    assert audited(shop, "names")
    DeltaTable(str(shop.folder / "root" / "names")).delete("n > 0")
    assert shop.pipe().refresh().ok, "it is built anew"
    assert audited(shop, "names").scanned == "the view was built anew"


def test_the_table_is_read_in_every_tenth_audit_at_least(shop):
    scanned = [bool(audited(shop).scanned) for _ in range(2 * SCAN_EVERY)]
    assert [i for i, done in enumerate(scanned) if done] == [SCAN_EVERY - 1, 2 * SCAN_EVERY - 1]


def test_a_table_that_others_changed_is_read_and_found_to_differ(shop):
    table = DeltaTable(str(shop.folder / "root" / "rows_"))
    table.update(updates={"amount": "77"}, predicate="id = 10")
    found = shop.pipe().audit("rows_", "checksum")
    assert not found
    assert found.scanned == "the table was changed by others: UPDATE at version 1 was not ours"
    assert not shop.pipe().audit("rows_", "checksum"), "a difference is not kept"


def test_a_table_that_others_maintained_is_read(shop):
    assert shop.refreshed((1000, "x", 1)).ok
    DeltaTable(str(shop.folder / "root" / "rows_")).optimize.compact()
    assert audited(shop).scanned.startswith("the table is at version")


def test_a_file_that_was_written_again_is_read(shop):
    table = str(shop.folder / "root" / "rows_")
    (file,) = native.logged_files(table, native.table(table))
    os.utime(file.location.url, (file.modified / 1000 + 600,) * 2)
    assert not_as_logged(table) == f"the file {file.location.name} was written again after it was committed"
    os.truncate(file.location.url, file.size - 1)
    assert f"has {file.size - 1:,} bytes, and {file.size:,} by the table's log" in not_as_logged(table)
    os.unlink(file.location.url)
    assert not_as_logged(table) == f"the file {file.location.name} is gone"


def of_size(rows, size):
    """Rows as Parquet of so many bytes: what lacks stands before the footer, which says where all else lies."""
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer, store_schema=False, write_statistics=False, use_dictionary=False)
    data = buffer.getvalue().to_pybytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert len(data) <= size
    return data[:footer] + bytes(size - len(data)) + data[footer:]


def test_what_was_written_again_with_the_same_size_and_date_is_found_by_a_scan_only(shop):
    """What is kept can't know of it: that is why the table is read in every so many audits."""
    table = str(shop.folder / "root" / "names")
    (file,) = native.logged_files(table, native.table(table))
    rows, before = pq.read_table(file.location.url), os.stat(file.location.url)
    Path(file.location.url).write_bytes(of_size(rows.set_column(0, "name", pc.utf8_reverse(rows["name"])), file.size))
    os.utime(file.location.url, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert audited(shop, "names").scanned == ""
    assert not shop.pipe().audit("names", "checksum", rescan=True)


DAMAGED = {
    "wrong sum": lambda kept: {"sum": kept["sum"] + 1},
    "wrong rows": lambda kept: {"rows": 0},
    "audits below 0": lambda kept: {"audits": -5},
    "sum is text": lambda kept: {"sum": "many"},
    "another log": lambda kept: {"log": "ffff"},
    "an epoch to come": lambda kept: {"epoch": 99},
    "no batches": lambda kept: {"batches": []},
    "other hashes": lambda kept: {"meaning": 0},
}


def test_what_is_kept_can_be_damaged_without_harm(shop):
    kept = json.loads(place(shop).read_text())
    damaged = {what: json.dumps(kept | change(kept)) for what, change in DAMAGED.items()}
    for text in ("", "{", "[]", "\0\1", '{"format": 99}', '{"rows": 1}'):
        damaged[text] = text
    for number, (what, text) in enumerate(damaged.items(), 1):
        place(shop).write_text(text)
        assert shop.refreshed((1000 + number, "x", 1)).ok
        found = audited(shop)
        assert (bool(found.scanned), found.rows_read) == (True, 303 + number), what
        assert audited(shop).rows_read == 0, f"{what}: it is kept anew"


def test_the_files_of_an_object_store_are_looked_up_likewise(s3):
    table = f"{s3}/t"
    write_deltalake(table, pa.table({"a": [1, 2]}))
    assert not_as_logged(table) == ""
    (file,) = native.logged_files(table, native.table(table))
    file.location.write(b"other")
    assert "has 5 bytes" in not_as_logged(table)


def test_a_trace_that_others_changed_is_not_believed(shop):
    assert shop.refreshed((1000, "x", 1)).ok
    layout, state = shop.pipe().context.layout, shop.pipe().context.log.manifest().units["rows_"]
    DeltaTable(layout.output_trace("rows_", state.output_generation)).delete("id = 1000")
    assert "DELETE at version" in audited(shop).scanned


def test_an_audit_needs_no_right_to_write(shop, monkeypatch, caplog):
    monkeypatch.setattr(
        "ivm.storage.location.Location.write", lambda self, data: (_ for _ in ()).throw(OSError("full"))
    )
    assert shop.refreshed((1000, "x", 1)).ok
    assert audited(shop).rows_read == 1
    assert "is not kept: full" in caplog.text


#: Where a refresh comes in between: the first call of what is named, before it or after it.
BESIDE = {
    "the recompute": ("ivm.refresh.audit.checksum_of", "checksum"),
    "what is read of a sample": ("ivm.refresh.verify.recompute_sql", "sample"),
    "a recursion that is computed": ("ivm.refresh.verify.recompute_sql", "full"),
    **{f"the versions of an audit by {how}": ("ivm.refresh.verify.own", how) for how in ("checksum", "sample", "full")},
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("beside", BESIDE)
def test_a_refresh_beside_an_audit_makes_no_difference(tmp_path, monkeypatch, beside, first):
    shop = Shop(tmp_path, [])
    assert shop.pipe().refresh().ok
    (place, how), refreshed = BESIDE[beside], []
    module, name = place.rsplit(".", 1)
    asked = getattr(importlib.import_module(module), name)

    def refresh():
        if not refreshed:
            refreshed.append(True)
            assert shop.refreshed((9, "z", 9)).ok

    def slow(*arguments):
        if first:
            refresh()
        found = asked(*arguments)
        refresh()
        return found

    monkeypatch.setattr(place, slow)
    found = shop.pipe().audit("rows_", how, **({"sample": 1.0} if how == "sample" else {}))
    assert refreshed
    assert found, str(found)
    assert (found.epoch, found.rows) in ((1, 3), (2, 4))
    assert audited(shop).rows == 4
