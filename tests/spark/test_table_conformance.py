"""One suite for both lanes of `ivm.table`: every verb, on tables of every kind, does as Spark does or is refused.

A table of each kind is made once; what writes gets a copy of its folder. What a lane refuses stands in `REFUSED`, in
groups of verbs: a refusal that goes away, or comes, with a newer delta-rs is seen here first.

The tables lie in a folder, or under the URL in $IVM_TABLES_AT (see tests/spark/test_s3.py).
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.functions import to_json

from ivm.engine.rows import Rows, stage
from ivm.lake.shapes import plain
from ivm.names import WEIGHT, literal, table_ref
from ivm.session import statements
from ivm.sql.render import columns_sql
from ivm.storage.location import Location
from ivm.table.protocol import Commit, Table, Verb, Wanted, forbidden
from ivm.table.rust import RustTable
from ivm.table.spark import SparkTable
from ivm.testing.types import EDGES, TypedLake
from ivm.zset.exact import hashable
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark

LANES = ("rust", "spark")
REMOTE = "IVM_TABLES_AT" in os.environ
#: Why Spark doesn't write there: its commits and delta-rs's would lose each other (see docs/locations.md).
BESIDE = "in an object store only delta-rs commits"
FEED = "'delta.enableChangeDataFeed' = 'true'"


@dataclass(frozen=True)
class Kind:
    """How a table is made: its columns beside `k bigint`, what follows them, and what is done to it.

    `{k}` in a row is its key, `{t}` in a statement the table. `given` are the columns that are inserted, all by
    default. Of `types` there is a column each; rows are of their edges.
    """

    columns: str
    row: str
    after: str = ""
    properties: str = ""
    then: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


def of_types(*types: str) -> Kind:
    """A kind with a column of each type."""
    return Kind(", ".join(f"c{i} {t}" for i, t in enumerate(types)), "", types=types)


STRANGE = ("", " ", "%2F", "a=b", "a/b", "é😀", "it's", "a b", "..", "__HIVE_DEFAULT_PARTITION__", "a%20b", "#", "?:")
STRANGE_ROWS = " UNION ALL ".join(f"SELECT {100 + i}, 1, {literal(s)}" for i, s in enumerate(STRANGE))
MAPPED = "'delta.columnMapping.mode' = '{}'"
KINDS = {
    "plain": Kind("n int, s string", "{k} % 3, 'row {k}'"),
    "strange names": Kind("`A` int, `b.c` string, `Ünï` int", "{k} % 3, 'row {k}', 1"),
    "deletion vectors": Kind("n int, s string", "{k} % 3, 's'", properties="'delta.enableDeletionVectors' = 'true'"),
    "mapped by name": Kind("n int, `a b` string", "{k} % 3, 's'", properties=MAPPED.format("name")),
    "mapped by id": Kind("n int, `a b` string", "{k} % 3, 's'", properties=MAPPED.format("id")),
    "renamed": Kind(
        "n int, s string, gone int", "{k} % 3, 's', 1", properties=MAPPED.format("name"),
        then=("ALTER TABLE {t} RENAME COLUMN s TO r", "ALTER TABLE {t} DROP COLUMN gone"),
    ),
    "partitioned": Kind("n int, s string", "{k} % 3, 's'", "PARTITIONED BY (s)", then=(
        "INSERT INTO {t} " + STRANGE_ROWS, "INSERT INTO {t} VALUES (200, 1, NULL)",
    )),
    "partitioned by others": Kind(
        "d date, m decimal(5,2), t timestamp_ntz, b boolean, n int",
        "DATE '2024-01-01' + CAST({k} AS int) % 2, -1.50, TIMESTAMP_NTZ '2024-03-10 07:30:00.000001', {k} % 2 = 0, 1",
        "PARTITIONED BY (d, m, t, b)", then=("INSERT INTO {t} VALUES (200, NULL, NULL, NULL, NULL, 1)",),
    ),
    "widened": Kind("n int, s string", "{k} % 3, 's'", properties="'delta.enableTypeWidening' = 'true'", then=(
        "ALTER TABLE {t} ALTER COLUMN n TYPE bigint", "INSERT INTO {t} VALUES (200, 9007199254740993, 's')",
    )),
    "padded": Kind("c char(5), v varchar(5)", "'a', 'a '"),
    "row tracking": Kind("n int, s string", "{k} % 3, 's'", properties="'delta.enableRowTracking' = 'true'"),
    "clustered": Kind("n int, s string", "{k} % 3, 's'", "CLUSTER BY (n)"),
    "in-commit timestamps": Kind("n int, s string", "1, 's'", properties="'delta.enableInCommitTimestamps' = 'true'"),
    "v2 checkpoints": Kind(
        "n int, s string", "1, 's'",
        properties="'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'",
    ),
    "check constraint": Kind("n int, s string", "1, 's'", then=("ALTER TABLE {t} ADD CONSTRAINT few CHECK (n < 10)",)),
    "not null": Kind("n int NOT NULL, s string", "1, 's'"),
    "generated": Kind("n int, g bigint GENERATED ALWAYS AS (k * 2)", "1, {k} * 2"),
    "identity": Kind("n int, id bigint GENERATED ALWAYS AS IDENTITY", "1", given=("k", "n")),
    "defaults": Kind(
        "n int, s string DEFAULT 'none'", "1, DEFAULT",
        properties="'delta.feature.allowColumnDefaults' = 'supported'",
        then=("ALTER TABLE {t} ADD COLUMN late int", "ALTER TABLE {t} ALTER COLUMN late SET DEFAULT 7"),
    ),
    "append-only": Kind("n int, s string", "1, 's'", properties="'delta.appendOnly' = 'true'"),
    "variant": Kind("v variant", "parse_json('{{\"a\": {k}}}')"),
    "timestamps": of_types("timestamp", "array<timestamp>"),
    "types": of_types(
        *(t for t in EDGES if t not in {"variant", "timestamp", "char(3)", "char(5)", "varchar(5)"}),
        "struct<a:double,b:array<timestamp_ntz>>", "array<struct<a:decimal(38,0),b:binary>>", "map<date,array<float>>",
    ),
}  # fmt: skip

#: Rows of each table, but for those that statements of its kind add.
ROWS = 12
#: Verbs that read rows, and those that write some, in the order in which they are tried.
READS = (Verb.COUNT, Verb.READ, Verb.QUERY, Verb.FIND, Verb.FEED)
WRITES = (Verb.APPEND, Verb.MERGE, Verb.DELETE, Verb.COMPACT, Verb.VACUUM, Verb.REPLACE)
_READ, _WRITTEN = set(READS), set(WRITES)
#: What no lane does, since the table forbids it.
FORBIDDEN = {
    "append-only": {Verb.MERGE, Verb.DELETE, Verb.REPLACE},
    "identity": {Verb.MERGE, Verb.REPLACE},
    "variant": {Verb.MERGE},
}
#: What delta-rs doesn't do beside that.
REFUSED = {
    "mapped by name": _READ | _WRITTEN,
    "mapped by id": _READ | _WRITTEN,
    "renamed": _READ | _WRITTEN,
    "partitioned": _READ | _WRITTEN,
    "partitioned by others": _READ | _WRITTEN,
    "widened": _READ | _WRITTEN,
    "padded": _READ | _WRITTEN,
    "row tracking": _WRITTEN,
    "clustered": _WRITTEN,
    "in-commit timestamps": _WRITTEN,
    "identity": _WRITTEN,
    "defaults": _WRITTEN,
    "variant": _READ | _WRITTEN,
    "timestamps": _READ | _WRITTEN,
}
#: By day Spark writes to tables of these kinds only, and delta-rs to all but those; by night each to all.
BY_SPARK = ("plain", "partitioned", "clustered", "variant")
NOT_BY_RUST = ("v2 checkpoints", "check constraint", "generated", "not null")
#: By day Spark reads every second kind, and those that delta-rs doesn't read at all; delta-rs is asked of each.
NOT_READ_BY_RUST = [kind for kind in KINDS if REFUSED.get(kind, set()) >= _READ]
READ = [
    (lane, kind)
    for kind in KINDS
    for lane in LANES
    if NIGHTLY or lane == "rust" or kind in {*list(KINDS)[::2], *NOT_READ_BY_RUST}
]
WRITTEN = [
    (lane, kind)
    for kind in KINDS
    for lane in LANES
    if NIGHTLY or (kind in BY_SPARK if lane == "spark" else kind not in NOT_BY_RUST)
]
#: Of these the feed is read from the version on that has the newest columns: Spark reads none across the change.
CHANGED = {"renamed": 4, "widened": 4, "defaults": 4}


def bag(rows: pa.Table, columns: Sequence[str]) -> Counter:
    return Counter(zip(*(hashable(c) for c in plain(rows).select(columns).columns), strict=True))


_NUMBERS = itertools.count()


def place(folder: Path) -> Location:
    """Where a test's tables and rows lie: in its folder, or in one of its own under the URL."""
    return Location.of(os.environ["IVM_TABLES_AT"]) / f"{next(_NUMBERS)}" if REMOTE else Location.of(str(folder))


def make(spark, kind: str, folder: Path) -> str:
    """A table with a history: inserted rows, some of them twice, then an update and a delete."""
    how, path = KINDS[kind], str(place(folder) / "t")
    ref, lake = table_ref(path), TypedLake(spark, folder, seed=7)

    def row(k: int) -> str:
        return f"({k}, {', '.join(map(lake.value, how.types)) if how.types else how.row.format(k=k)})"

    properties = ", ".join(p for p in (FEED, how.properties) if p)
    spark.sql(f"CREATE TABLE {ref} (k bigint, {how.columns}) USING delta {how.after} TBLPROPERTIES ({properties})")
    twice = row(3)
    listed = f"({', '.join(how.given)})" if how.given else ""
    rows = [row(1), row(2), twice, twice, *(row(k) for k in range(5, 1 + ROWS)), row(60)]
    spark.sql(f"INSERT INTO {ref} {listed} VALUES {', '.join(rows)}")
    if kind != "append-only":
        moved = f"MERGE INTO {ref} AS t USING (SELECT EXPLODE(ARRAY(2L, 60L)) AS j) AS s ON t.k = s.j "
        spark.sql(moved + "WHEN MATCHED AND s.j = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 61")
    for statement in how.then:
        spark.sql(statement.format(t=ref))
    return path


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """The table of a kind, made when it is first asked for."""
    known: dict[str, str] = {}

    def of(kind: str) -> str:
        if kind not in known:
            known[kind] = make(spark, kind, tmp_path_factory.mktemp("kind"))
        return known[kind]

    with statements(spark, small=True):
        yield of


def of_lane(lane: str, path: str, spark, scratch: Path) -> RustTable | SparkTable:
    if lane == "rust":
        return RustTable(path)
    return SparkTable(path, lambda: spark, place(scratch) / "scratch")


def by_spark(spark, path: str, where: str = "true", version: int | None = None) -> pa.Table:
    """What Spark itself says; VARIANTs as texts."""
    frame = spark.sql(f"SELECT * FROM {table_ref(path, version)} WHERE {where}")
    variants = [f.name for f in frame.schema.fields if "variant" in f.dataType.simpleString()]
    return plain(frame.withColumns({c: to_json(c) for c in variants}).toArrow())


def refused(table: RustTable | SparkTable, verbs: Sequence[Verb]) -> dict[Verb, str]:
    """The verbs that a lane doesn't do, with its reason."""
    if isinstance(table, RustTable):
        told = {v: table.capability(v) for v in verbs}
    else:  # it looks at the table each time, which is always the same
        snapshot = table.snapshot()
        told = {v: BESIDE if REMOTE and v.writes else forbidden(v, snapshot) for v in verbs}
        assert table.capability(verbs[-1]) == told[verbs[-1]]
    return {v: why for v, why in told.items() if why}


@pytest.mark.parametrize(("lane", "kind"), READ)
def test_what_is_read_is_what_spark_reads(spark, made, tmp_path, kind, lane):
    path = made(kind)
    table = of_lane(lane, path, spark, tmp_path)
    left = refused(table, READS)
    assert set(left) == (REFUSED.get(kind, set()) & _READ if lane == "rust" else set()), left
    rows = by_spark(spark, path)
    names = [n for n in rows.column_names if kind != "variant" or n != "v"]
    for verb in READS:
        if verb not in left:
            told, expected = observed(spark, verb, table, rows, names, CHANGED.get(kind, 0))
            assert told == expected, verb
    assert [(c.name, c.type) for c in table.columns()] == spark.sql(f"SELECT * FROM {table_ref(path)}").dtypes


def observed(
    spark, verb: Verb, table: Table, rows: pa.Table, names: Sequence[str], since: int
) -> tuple[object, object]:
    """What a lane says, and Spark itself; the feed from version `since` on."""
    if verb is Verb.COUNT:
        return (table.count(), table.count(1)), (rows.num_rows, by_spark(spark, table.path, version=1).num_rows)
    if verb is Verb.READ:
        older = by_spark(spark, table.path, "k > 5", 1)
        one = [n for n in names if n in older.column_names][-1:]  # some were renamed, or added, since
        some = table.read(one, lambda quoted: f"{quoted('k')} > 5", version=1)
        return (bag(table.read(names), names), bag(some, one)), (bag(rows, names), bag(older, one))
    if verb is Verb.QUERY:
        asked = table.query(lambda t, q: f"SELECT {q('k')} AS key, count(*) AS n FROM {t} GROUP BY {q('k')}")
        return bag(asked, ["key", "n"]), Counter(Counter(rows["k"].to_pylist()).items())
    if verb is Verb.FIND:
        wanted = pa.array([1, 2, 3, 60, 200, 99, None], pa.int64())  # 2 was deleted, 60 became another
        keys, picked = pa.table({"k": wanted}), rows.filter(pc.is_in(rows["k"], wanted))
        few, fewer = (
            table.find(names, [Wanted(("k",), keys)], where=lambda q: f"{q('k')} > 1"),
            picked.filter(pc.greater(picked["k"], 1)),
        )
        found = table.find(names, [Wanted(("k",), keys)])
        return (bag(found, names), bag(few, names)), (bag(picked, names), bag(fewer, names))
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", since)
    feed = reader.load(Location.of(table.path).spark).toArrow()
    told = [*names, "_change_type"]
    return bag(table.feed(since, table.snapshot().version, names, 1000), told), bag(feed, told)


@pytest.mark.skipif(REMOTE, reason=f"Spark doesn't write there: {BESIDE}")
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("kind", ["plain", "deletion vectors"])
def test_rows_that_meet_a_condition_are_replaced(spark, made, tmp_path, kind, lane):
    lies = place(tmp_path) / "copy"
    Location.of(made(kind)).copy(lies)
    table, before = of_lane(lane, str(lies), spark, tmp_path), by_spark(spark, str(lies))
    few = before.filter(pc.equal(before["k"], 5)).slice(0, 1)
    schema = spark.sql(f"SELECT * FROM {table_ref(table.path)}").schema.json()
    table.replace(few, schema, Commit(owner="us"), where=lambda q: f"{q('k')} >= 5")
    names = before.column_names
    left = before.filter(pc.less(before["k"], 5))
    assert bag(by_spark(spark, table.path), names) == bag(left, names) + bag(few, names)
    assert table.exists()
    assert not of_lane(lane, str(place(tmp_path) / "nothing"), spark, tmp_path).exists()


@pytest.mark.parametrize("kind", KINDS)
def test_both_lanes_tell_of_the_same_table(spark, made, tmp_path, kind):
    native, other = (of_lane(lane, made(kind), spark, tmp_path).snapshot() for lane in LANES)
    assert replace(native, rows=None, schema="") == replace(other, schema="")


@pytest.mark.parametrize(("lane", "kind"), WRITTEN)
def test_what_is_written_is_what_spark_reads_then(spark, made, tmp_path, kind, lane):
    lies = place(tmp_path) / "copy"
    Location.of(made(kind)).copy(lies)
    path = str(lies)
    table = of_lane(lane, path, spark, tmp_path)
    left = refused(table, WRITES)
    lacking = REFUSED.get(kind, set()) & _WRITTEN if lane == "rust" else _WRITTEN if REMOTE else set()
    expected_left = FORBIDDEN.get(kind, set()) | lacking
    assert set(left) == expected_left, left
    given = list(KINDS[kind].given) or by_spark(spark, path, "false").column_names
    for version, verb in enumerate(WRITES):
        if verb in left:
            continue
        expected = written(spark, verb, table, tmp_path / verb.value, given, Commit("app/conformance", version))
        assert bag(by_spark(spark, path), given) == expected, verb
        if verb in {Verb.APPEND, Verb.MERGE, Verb.REPLACE, Verb.DELETE}:
            assert table.transaction("app/conformance") == version, verb
            written(spark, verb, table, tmp_path / f"{verb.value} again", given, Commit("app/conformance", version))
            assert bag(by_spark(spark, path), given) == expected, f"{verb}, a second time"


def written(
    spark, verb: Verb, table: RustTable | SparkTable, scratch: Path, given: list[str], commit: Commit
) -> Counter:
    """Let a lane do a verb; returns what the table is to hold then."""
    before = by_spark(spark, table.path)
    held = bag(before, given)

    def rows(where: str) -> tuple[Rows, Counter]:
        sql = f"SELECT {columns_sql(given)} FROM {table_ref(table.path)} WHERE {where}"
        if isinstance(table, RustTable):
            found = by_spark(spark, table.path, where).select(given)
            return found, bag(found, given)
        return stage(spark, sql, place(scratch)), bag(by_spark(spark, table.path, where), given)

    if verb is Verb.APPEND:
        more, added = rows("k = 3")
        table.append(more, commit)
        return held + added
    if verb is Verb.MERGE:
        picked = [before.filter(pc.equal(before["k"], k)).slice(0, 1) for k in (1, 3, 5)]
        changes = pa.concat_tables(picked)
        weights = pa.array([-1, -1, 2][: changes.num_rows], pa.int64())
        table.merge(changes.append_column(WEIGHT, weights), ["k"], commit)
        return held - bag(pa.concat_tables(picked[:2]), given) + bag(picked[2], given) + bag(picked[2], given)
    if verb is Verb.DELETE:
        table.delete(lambda quoted: f"{quoted('k')} = 5", commit)
        return bag(before.filter(pc.fill_null(pc.not_equal(before["k"], 5), True)), given)
    if verb is Verb.REPLACE:
        fewer, left = rows("k = 61")
        table.replace(fewer, spark.sql(f"SELECT * FROM {table_ref(table.path)}").schema.json(), commit)
        return left
    if verb is Verb.COMPACT:
        table.compact(commit)
    else:
        table.vacuum(0, commit)
    return held
