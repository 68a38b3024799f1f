"""What happens to a source, event by event: the answer that docs/sources.md gives, then views equal to a recompute.

Each row of the page is an event here, by name and answer (tests/pure/test_docs.py compares them). After the event all
views are refreshed and compared with a recompute in Python of the table as Spark reads it now; at night again after
one more insert.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.errors import SourceError
from ivm.feed.deltas import source_delta
from ivm.feed.source import Source, _inspect_spark, gap
from ivm.lake import native
from ivm.pipeline import Pipeline
from ivm.refresh.run import step_plan
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k",
    "joined": "SELECT t.k, t.v, u.name FROM t JOIN u ON u.k = t.k",
}
NAMES = {1: "one", 2: "two", 3: "three"}
ROWS = [(1, 1), (1, 2), (2, 3), (2, None), (3, 4), (3, 4), (None, 5)]
FEED = "'delta.enableChangeDataFeed' = 'true'"
#: Commits in the range of one refresh.
MANY = int(os.environ.get("IVM_MANY_COMMITS", "3000"))


def expected(rows: list[tuple[Any, Any]]) -> dict[str, Counter]:
    """The views of these rows, computed by hand."""
    groups = defaultdict(list)
    for k, v in rows:
        groups[k].append(v)
    sums = {k: [v for v in vs if v is not None] for k, vs in groups.items()}
    return {
        "totals": Counter((k, sum(sums[k]) if sums[k] else None, len(vs)) for k, vs in groups.items()),
        "joined": Counter((k, v, NAMES[k]) for k, v in rows if k in NAMES),
    }


@dataclass
class Ground:
    """A source `t` with a pipeline over it; `u` never changes."""

    spark: Any
    folder: Path
    more: str = ""
    lane: str = "auto"
    views: dict[str, str] = field(default_factory=lambda: VIEWS)

    def __post_init__(self) -> None:
        self.path = self.folder / "t"
        self.t = f"delta.`{self.path}`"
        self.create()
        names = pa.table({"k": pa.array(NAMES, pa.int32()), "name": list(NAMES.values())})
        write_deltalake(str(self.folder / "u"), names, configuration={"delta.enableChangeDataFeed": "true"})
        self.pipe = Pipeline("sources", self.spark, self.folder / "root", lane=self.lane)
        self.pipe.source("t", self.path)
        self.pipe.source("u", self.folder / "u")
        for name, sql in self.views.items():
            self.pipe.view(name, sql)
        self.pipe.refresh()
        self.compare()

    def create(self) -> None:
        if self.more:
            clauses, _, properties = self.more.partition("|")
            properties = ", ".join(p for p in (FEED, properties) if p)
            self.sql(f"CREATE TABLE {{t}} (k int, v int, x int) USING delta {clauses} TBLPROPERTIES ({properties})")
            self.sql(f"INSERT INTO {{t}} VALUES {', '.join(f'({_sql(k)}, {_sql(v)}, 0)' for k, v in ROWS)}")
        else:
            self.put(*ROWS)

    def sql(self, text: str) -> None:
        for statement in text.split("; "):
            self.spark.sql(statement.format(t=self.t))

    def put(self, *rows: tuple[int | None, int | None], mode: Any = "append", **options: Any) -> None:
        """Write rows by delta-rs."""
        k, v = ([r[i] for r in rows] for i in (0, 1))
        data = pa.table(
            {"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.int32()), "x": pa.array([0] * len(rows), pa.int32())}
        )
        write_deltalake(
            str(self.path), data, mode=mode, configuration={"delta.enableChangeDataFeed": "true"}, **options
        )

    def insert(self) -> None:
        if self.more:
            self.sql("INSERT INTO {t} (k, v) VALUES (1, 7), (2, 8)")
        else:
            self.put((1, 7), (2, 8))

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    def entry(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020d}.json"

    def compare(self) -> None:
        now = [(r["k"], r["v"]) for r in self.spark.sql(f"SELECT k, v FROM {self.t}").collect()]
        for view, rows in expected(now).items():
            if view in self.views:
                published = native.read(native.table(self.pipe.context.layout.table(view, True)))
                assert Counter(zip(*(c.to_pylist() for c in published.columns), strict=True)) == rows, view


def _sql(value: int | None) -> str:
    return "NULL" if value is None else str(value)


@dataclass(frozen=True)
class Event:
    """What is done to a source, on which ground, and the answer.

    The answer is incremental, unchanged, full: REASON or refused: ERROR.
    """

    answer: str
    ground: str
    act: Callable[[Ground], Callable[[], Any] | None]


EVENTS: dict[str, Event] = {}
#: By name: clauses | properties of the table, by Spark; else delta-rs makes it.
GROUNDS = {
    "plain": "",
    "many": "",
    "reshaped": "",
    # RESTORE, say, has another answer once the feed is off; which event comes next is up to the workers.
    "feedless": "",
    "mapped": "|'delta.columnMapping.mode' = 'name'",
    "vectors": "|'delta.enableDeletionVectors' = 'true'",
    "partitioned": "PARTITIONED BY (k)",
    "clustered": "CLUSTER BY (v)",
    "wide": "|'delta.enableTypeWidening' = 'true'",
    "modern": (
        "|'delta.enableRowTracking' = 'true', "
        "'delta.checkpointPolicy' = 'v2', 'delta.enableInCommitTimestamps' = 'true'"
    ),
}
FULL, INCREMENTAL, UNCHANGED, REFUSED = "full: ", "incremental", "unchanged", "refused: "


def event(name: str, answer: str, ground: str = "plain") -> Callable[[Callable[[Ground], Any]], None]:
    def known(act: Callable[[Ground], Any]) -> None:
        assert name not in EVENTS
        EVENTS[name] = Event(answer, ground, act)

    return known


def statements(name: str, answer: str, text: str, ground: str = "plain") -> None:
    event(name, answer, ground)(lambda t: t.sql(text))


# -- writes ---------------------------------------------------------------------------------------

statements(
    "INSERT, UPDATE and DELETE",
    INCREMENTAL,
    (
        "INSERT INTO {t} VALUES (1, 9, 0), (3, 9, 0); "
        "UPDATE {t} SET v = 6 WHERE k = 1; UPDATE {t} SET k = 2 WHERE k = 3 AND v = 9; DELETE FROM {t} WHERE v = 3"
    ),
)
statements(
    "MERGE",
    INCREMENTAL,
    (
        "MERGE INTO {t} AS t USING (SELECT * FROM VALUES (1, 10), (7, 7) AS x(k, v)) AS x ON t.k = x.k "
        "WHEN MATCHED AND t.v > 1 THEN UPDATE SET v = x.v WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (k, v, x) VALUES (x.k, x.v, 0) "
        "WHEN NOT MATCHED BY SOURCE AND t.k = 3 THEN DELETE"
    ),
)


@event("INSERT, DELETE, MERGE and OVERWRITE by delta-rs", INCREMENTAL)
def _(t: Ground) -> None:
    t.put((2, 2), (3, 3))
    t.delta.delete("v = 2")
    matched = pa.table({"k": pa.array([1, 9], pa.int32()), "v": pa.array([5, 5], pa.int32())})
    merge = t.delta.merge(matched, "t.k = s.k", source_alias="s", target_alias="t")
    merge.when_matched_update({"v": "s.v"}).when_not_matched_insert({"k": "s.k", "v": "s.v"}).execute()
    t.put((3, 1), mode="overwrite", predicate="k = 3")
    t.put((1, 1), (2, 1), (2, 4), mode="overwrite")  # other rows than a new ground has


@event("UPDATE by delta-rs", FULL + "is an UPDATE by delta-rs, whose change files leave out rows")
def _(t: Ground) -> None:
    t.put((1, 4), (2, 4))
    t.delta.update(updates={"k": "2"}, predicate="k = 1 AND v = 4")


statements("an UPDATE that changes nothing", UNCHANGED, "UPDATE {t} SET v = v")
statements(
    "a commit without data",
    UNCHANGED,
    "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b'); INSERT INTO {t} SELECT * FROM {t} WHERE false",
)
statements("INSERT OVERWRITE", INCREMENTAL, "INSERT OVERWRITE {t} VALUES (1, 1, 0), (2, 9, 0)")
statements("INSERT REPLACE WHERE", INCREMENTAL, "INSERT INTO {t} REPLACE WHERE k = 2 VALUES (2, 1, 0), (2, 2, 0)")
statements("all rows deleted, the source is empty", INCREMENTAL, "DELETE FROM {t}")


@event("TRUNCATE", INCREMENTAL)
def _(t: Ground) -> None:
    t.sql(
        f"CREATE TABLE IF NOT EXISTS truncated USING delta LOCATION '{t.path}'; "
        "TRUNCATE TABLE truncated; DROP TABLE truncated"
    )


@event("a view that lags several refreshes behind", INCREMENTAL)
def _(t: Ground) -> None:
    for value in range(3):
        t.put((1, value), (3, value))
        t.delta.delete(f"v = {value} AND k = 1")
        t.pipe.refresh(["totals"])


@event("thousands of commits in one refresh", INCREMENTAL, "many")
def _(t: Ground) -> None:
    t.put((1, 1), (2, 3))
    version = t.delta.version()
    text = t.entry(version).read_text()
    (added,) = pa.table(t.delta.get_add_actions())["path"].to_pylist()[:1]
    for i in range(1, MANY):
        os.link(t.path / added, t.path / f"copy-{version}-{i}.parquet")
        t.entry(version + i).write_text(text.replace(added, f"copy-{version}-{i}.parquet"))
    t.delta.create_checkpoint()


@event("two sources on one path", INCREMENTAL)
def _(t: Ground) -> None:
    pipe = Pipeline("twins", t.spark, t.folder / "twins")
    pipe.source("a", t.path)
    pipe.source("b", t.path)
    pipe.view("pairs", "SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k")
    for act in (
        lambda: None,
        t.insert,
        lambda: t.sql("UPDATE {t} SET k = 3 WHERE v = 7"),
        lambda: t.sql("DELETE FROM {t} WHERE v > 7"),
    ):
        act()
        report = pipe.refresh().views["pairs"]
        assert not report.error
        counts = Counter(r["k"] for r in t.spark.sql(f"SELECT k FROM {t.t}").collect())
        assert {r["k"]: r["n"] for r in native.read(native.table(f"{t.folder}/twins/pairs")).to_pylist()} == {
            k: n * n for k, n in counts.items() if k
        }
    assert report.strategy == "incremental"


# -- history --------------------------------------------------------------------------------------


@event("RESTORE", FULL + "the source was restored at version")
def _(t: Ground) -> None:
    t.put((1, 1))
    t.pipe.refresh()
    t.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {t.delta.version() - 1}")


@event("RESTORE back and forth", FULL + "the source was restored at version")
def _(t: Ground) -> None:
    t.put((1, 1))
    newest = t.delta.version()
    t.delta.restore(newest - 1)
    t.delta.restore(newest)


def backup(t: Ground, lost: int, then: int) -> None:
    """Put back a copy that lacks `lost` commits that were read, and commit some more."""
    shutil.copytree(t.path, t.folder / "copy")
    for value in range(lost):
        t.put((1, value + 20))
    t.pipe.refresh()
    shutil.rmtree(t.path)
    shutil.move(t.folder / "copy", t.path)
    for value in range(then):
        t.put((2, value + 30))


event("a file backup is put back, older than what was read", FULL + "the source went back from version")(
    lambda t: backup(t, 2, 1)
)
event("a file backup is put back, and as many commits follow", FULL + "is not the commit that was read")(
    lambda t: backup(t, 2, 2)
)
event("a file backup is put back, and more commits follow", FULL + "is not the commit that was read")(
    lambda t: backup(t, 2, 4)
)
event("a file backup is put back that has all that was read", INCREMENTAL)(lambda t: backup(t, 0, 1))


@event("a file backup is put back while an epoch is open", INCREMENTAL)
def _(t: Ground) -> None:
    shutil.copytree(t.path, t.folder / "copy")
    t.put((1, 40))
    planned = step_plan(t.pipe.context)
    shutil.rmtree(t.path)
    shutil.move(t.folder / "copy", t.path)
    t.put((2, 41))
    again = step_plan(t.pipe.context)
    assert planned is not None
    assert again is not None
    assert again.epoch == planned.epoch + 1, "the plan is of another commit of that number"


statements(
    "CREATE OR REPLACE TABLE AS SELECT",
    FULL + "the source was replaced by another table",
    f"CREATE OR REPLACE TABLE {{t}} USING delta TBLPROPERTIES ({FEED}) AS SELECT k, v, x FROM {{t}} WHERE k = 1",
)


@event("the folder is removed and a table created anew", FULL + "the source was replaced by another table")
def _(t: Ground) -> None:
    versions = t.delta.version()
    shutil.rmtree(t.path)
    for value in range(versions + 3):
        t.put((1, value))


@event("a symbolic link is turned to another table", FULL + "the source was replaced by another table")
def _(t: Ground) -> None:
    shutil.move(t.path, t.folder / "first")
    t.path.symlink_to(t.folder / "first")
    assert t.pipe.refresh().views["totals"].strategy == "unchanged"
    t.put((1, 2))
    assert t.pipe.refresh().views["totals"].strategy == "incremental"
    t.path.unlink()
    for value in range(3):
        t.put((2, value))


FEED_OFF = (
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false'); INSERT INTO {t} VALUES (1, 6, 0)"
)
FEED_ON = f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEED})"
statements(
    "the feed is switched off and on again", FULL + "the change feed was off at version", f"{FEED_OFF}; {FEED_ON}"
)


statements("the feed is switched off", INCREMENTAL, FEED_OFF, "feedless")


@event("log entries that were read are cleaned up", INCREMENTAL)
def _(t: Ground) -> None:
    t.delta.create_checkpoint()
    for version in range(t.delta.version()):
        t.entry(version).unlink(missing_ok=True)
    t.put((1, 3))


@event("the log entry that was read last is cleaned up", FULL + "up to which the source was read, is gone")
def _(t: Ground) -> None:
    read = t.delta.version()
    t.put((1, 3))
    t.delta.create_checkpoint()
    for version in range(read + 1):
        t.entry(version).unlink(missing_ok=True)


@event("unread log entries are cleaned up", FULL + "is gone")
def _(t: Ground) -> None:
    for value in range(4):
        t.put((2, value))
    t.delta.create_checkpoint()
    for version in range(t.delta.version()):
        t.entry(version).unlink(missing_ok=True)


# -- files ----------------------------------------------------------------------------------------

statements("OPTIMIZE", UNCHANGED, "OPTIMIZE {t}")
statements("OPTIMIZE ZORDER BY", UNCHANGED, "OPTIMIZE {t} ZORDER BY (v)")


def vacuum(t: Ground) -> None:
    t.delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)


@event("VACUUM of files that were read", INCREMENTAL)
def _(t: Ground) -> None:
    t.sql("OPTIMIZE {t}")
    vacuum(t)
    t.put((1, 4), (3, 5))


@event("VACUUM inside the unread range", FULL + "its files were removed (VACUUM)")
def _(t: Ground) -> None:
    t.put((1, 4), (3, 5))
    t.sql("UPDATE {t} SET v = 6 WHERE v = 5; DELETE FROM {t} WHERE v = 4; OPTIMIZE {t}")
    vacuum(t)


@event("deletion vectors are written", INCREMENTAL, "vectors")
def _(t: Ground) -> None:
    t.insert()
    t.sql("DELETE FROM {t} WHERE v = 7; UPDATE {t} SET v = 9 WHERE v = 8")


statements(
    "deletion vectors are switched off",
    INCREMENTAL,
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false'); DELETE FROM {t} WHERE v = 3",
    "vectors",
)
statements(
    "deletion vectors are switched on",
    INCREMENTAL,
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true'); DELETE FROM {t} WHERE v = 1",
    "wide",
)
statements("REORG APPLY (PURGE)", UNCHANGED, "REORG TABLE {t} APPLY (PURGE)", "vectors")
statements(
    "row tracking and in-commit timestamps",
    INCREMENTAL,
    "INSERT INTO {t} VALUES (3, 5, 0); UPDATE {t} SET v = 2 WHERE v = 5",
    "modern",
)


statements(
    "checkpoints, of version 2",
    INCREMENTAL,
    (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '2'); "
        "INSERT INTO {t} (k, v) VALUES (3, 5), (3, 6); DELETE FROM {t} WHERE v = 5"
    ),
    "modern",
)


# -- schema ---------------------------------------------------------------------------------------

statements(
    "a column is added", INCREMENTAL, "ALTER TABLE {t} ADD COLUMN a int; INSERT INTO {t} VALUES (1, 4, 0, 4)", "mapped"
)
statements(
    "a column is added in front",
    INCREMENTAL,
    "ALTER TABLE {t} ADD COLUMN b int FIRST; INSERT INTO {t} (k, v) VALUES (1, 4)",
    "wide",
)
statements(
    "columns are reordered",
    FULL + "the columns it reads, changed",
    "ALTER TABLE {t} ALTER COLUMN v FIRST; INSERT INTO {t} (k, v) VALUES (3, 3)",
    "vectors",
)
statements(
    "a column that no view reads is renamed",
    FULL + "columns were renamed, dropped or changed in type",
    "ALTER TABLE {t} RENAME COLUMN x TO y; INSERT INTO {t} (k, v) VALUES (1, 5); ALTER TABLE {t} RENAME COLUMN y TO x",
    "mapped",
)
statements(
    "a column that no view reads is dropped",
    FULL + "columns were renamed, dropped or changed in type",
    "ALTER TABLE {t} ADD COLUMN d int; INSERT INTO {t} (k, v) VALUES (1, 5); ALTER TABLE {t} DROP COLUMN d",
    "mapped",
)


@event("a column that views read is renamed", REFUSED + "cannot be resolved", "mapped")
def _(t: Ground) -> Callable[[], Any]:
    t.sql("ALTER TABLE {t} RENAME COLUMN v TO w; INSERT INTO {t} (k, w) VALUES (1, 5)")
    return lambda: t.sql("ALTER TABLE {t} RENAME COLUMN w TO v")


@event("a column that views read is dropped", REFUSED + "cannot be resolved", "mapped")
def _(t: Ground) -> Callable[[], Any]:
    t.sql("ALTER TABLE {t} DROP COLUMN v")
    return lambda: t.sql("ALTER TABLE {t} ADD COLUMN v int; UPDATE {t} SET v = k WHERE k < 3")


statements(
    "a column that views read is dropped, and another one takes its name",
    FULL + "another column took the name of",
    (
        "ALTER TABLE {t} DROP COLUMN v; "
        "ALTER TABLE {t} ADD COLUMN v int; INSERT INTO {t} (k, v) VALUES (1, 5); DELETE FROM {t} WHERE k = 2"
    ),
    "mapped",
)
statements(
    "two columns change their names",
    FULL + "another column took the name of",
    (
        "ALTER TABLE {t} RENAME COLUMN v TO w; "
        "ALTER TABLE {t} RENAME COLUMN x TO v; ALTER TABLE {t} RENAME COLUMN w TO x; UPDATE {t} SET v = 4 WHERE k = 1"
    ),
    "mapped",
)
statements(
    "a column that no view reads becomes wider",
    INCREMENTAL,
    "ALTER TABLE {t} ALTER COLUMN x TYPE bigint; INSERT INTO {t} (k, v, x) VALUES (1, 5, 5000000000)",
    "wide",
)
statements(
    "column mapping is switched on",
    INCREMENTAL,
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name'); INSERT INTO {t} (k, v) VALUES (3, 5)",
    "modern",
)
statements(
    "a constraint is added",
    INCREMENTAL,
    "ALTER TABLE {t} ADD CONSTRAINT small CHECK (v IS NULL OR v < 1000); INSERT INTO {t} (k, v) VALUES (2, 6)",
    "modern",
)
statements(
    "rows are written to a partitioned table",
    INCREMENTAL,
    "INSERT INTO {t} VALUES (1, 5, 0); UPDATE {t} SET k = 3 WHERE k = 1; DELETE FROM {t} WHERE k = 2",
    "partitioned",
)


statements(
    "clustering is changed",
    INCREMENTAL,
    "ALTER TABLE {t} CLUSTER BY (k); INSERT INTO {t} (k, v) VALUES (3, 6); OPTIMIZE {t}",
    "clustered",
)


@event("NOT NULL is dropped", INCREMENTAL, "reshaped")
def _(t: Ground) -> None:
    shutil.rmtree(t.path)
    t.sql(
        f"CREATE TABLE {{t}} (k int NOT NULL, v int NOT NULL, x int) USING delta TBLPROPERTIES ({FEED}); "
        f"INSERT INTO {{t}} VALUES (1, 1, 0)"
    )
    t.pipe.refresh()
    t.sql(
        "ALTER TABLE {t} ALTER COLUMN k DROP NOT NULL; "
        "ALTER TABLE {t} ALTER COLUMN v DROP NOT NULL; INSERT INTO {t} VALUES (NULL, 1, 0), (2, NULL, 0)"
    )


@event("partitioning is changed", FULL + "the partitioning changed at version", "reshaped")
def _(t: Ground) -> None:
    rows = t.spark.sql("SELECT 1 AS k, 5 AS v, 0 AS x UNION ALL SELECT 3, 6, 0")
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("k").save(str(t.path))


statements(
    "a column that views read becomes wider",
    FULL + "the columns it reads, changed",
    "ALTER TABLE {t} ALTER COLUMN v TYPE bigint; INSERT INTO {t} (k, v) VALUES (1, 5000000000)",
    "wide",
)
# -- access ---------------------------------------------------------------------------------------


@event("the folder is missing", REFUSED + "there is nothing at")
def _(t: Ground) -> Callable[[], Any]:
    shutil.move(t.path, t.folder / "away")
    return lambda: shutil.move(t.folder / "away", t.path)


@event("the folder has no log", REFUSED + "is not a Delta table")
def _(t: Ground) -> Callable[[], Any]:
    shutil.move(t.path / "_delta_log", t.folder / "log")
    return lambda: shutil.move(t.folder / "log", t.path / "_delta_log")


@pytest.fixture(scope="module")
def grounds(spark, tmp_path_factory):
    """A ground is used again by the next event on it, as long as all went well."""
    kept: dict[str, Ground] = {}

    def ground(name: str) -> Ground:
        return kept.pop(name, None) or Ground(spark, tmp_path_factory.mktemp(name), GROUNDS[name])

    ground.keep = kept.__setitem__  # type: ignore[attr-defined]
    return ground


@pytest.mark.parametrize("name", EVENTS)
def test_event(grounds, name: str) -> None:
    told = EVENTS[name]
    ground = grounds(told.ground)
    mend = told.act(ground)
    if told.answer.startswith(REFUSED):
        refused(ground, told.answer.removeprefix(REFUSED))
        assert mend is not None
        mend()
        follow(ground)
    else:
        answered(ground, told.answer)
    # Else the next event of this ground follows, which must find some rows.
    if NIGHTLY or not ground.spark.sql(f"SELECT 1 FROM {ground.t} LIMIT 1").collect():
        ground.insert()
        answered(ground, INCREMENTAL)
    grounds.keep(told.ground, ground)


def refused(ground: Ground, error: str) -> None:
    """A refresh says so, and publishes nothing from this source."""
    try:
        said = [view.error for view in ground.pipe.refresh().views.values()]
    except SourceError as refusal:
        said = [str(refusal)]
    assert all(error in text for text in said), said


def follow(ground: Ground) -> dict[str, tuple[str, str]]:
    """Refresh and compare: each view's strategy and reason."""
    report = ground.pipe.refresh()
    assert report.ok, report.views
    ground.compare()
    return {name: (view.strategy, view.reason) for name, view in report.views.items()}


def answered(ground: Ground, answer: str) -> None:
    strategies = follow(ground)
    for name, (strategy, reason) in strategies.items():
        if answer.startswith(FULL):
            assert strategy == "full", (name, strategy, reason)
            assert answer.removeprefix(FULL) in reason, (name, reason)
        else:
            assert strategy in (answer, UNCHANGED), (name, strategy, reason)
    assert answer.startswith(FULL) or any(s == answer for s, _ in strategies.values()), strategies


def test_a_table_that_only_spark_reaches(spark, tmp_path):
    """Identity by DESCRIBE HISTORY, and a feed that Spark alone reads and counts."""
    ground = Ground(spark, tmp_path)
    source = Source("t", str(ground.path))
    read = _inspect_spark(source, str(ground.path), lambda: spark, "auto", "it is asked to")
    shutil.copytree(ground.path, tmp_path / "copy")
    ground.put((1, 1), (2, 2))
    now = _inspect_spark(source, str(ground.path), lambda: spark, "auto", "it is asked to")
    assert gap(now, read.version, read.table_id, read.fingerprint) == ""
    assert source_delta(now, read.version, now.version, ["k"], lambda: spark).num_rows == 2
    assert now.commits.at(now.version) is not None
    shutil.rmtree(ground.path)
    shutil.move(tmp_path / "copy", ground.path)
    ground.put((3, 3))
    other = _inspect_spark(source, str(ground.path), lambda: spark, "auto", "it is asked to")
    assert other.version == now.version
    assert "is not the commit that was read" in gap(other, now.version, now.table_id, now.fingerprint)
    ground.delta.restore(0)
    assert "was restored at version" in gap(
        _inspect_spark(source, str(ground.path), lambda: spark, "auto", "it is asked to"),
        other.version,
        other.table_id,
        other.fingerprint,
    )


def test_lanes(spark, tmp_path):
    """The lane native refuses what delta-rs can't be trusted with; the lane spark leaves delta-rs out."""
    ground = Ground(spark, tmp_path / "p", "PARTITIONED BY (k)")
    with pytest.raises(
        SourceError, match="can't be read by delta-rs alone, as the lane native asks: partition columns"
    ):
        Pipeline("native", spark, tmp_path / "native", lane="native").source("t", ground.path)
    for lane in ("native", "spark"):
        plain = Ground(spark, tmp_path / lane, lane=lane)
        plain.insert()
        answered(plain, INCREMENTAL)
