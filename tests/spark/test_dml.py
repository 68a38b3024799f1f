"""Scripts of statements on sources, of every kind that Delta has.

After each, all views equal a recompute, and how they got there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ivm.testing.oracle import Lake

pytestmark = pytest.mark.spark

VIEWS = {
    "plain": "SELECT k, v + 1 AS w, s FROM t WHERE v > 1 OR v IS NULL",
    "sums": "SELECT k, sum(v) AS total, count(*) AS n, max(s) AS last FROM t GROUP BY k",
    "named": "SELECT u.name, count(t.v) AS n FROM u LEFT JOIN t ON t.k = u.k GROUP BY u.name",
    "ranked": "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v, s) AS r FROM t",
    "unknown": "SELECT DISTINCT s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
}
#: Views a script is followed by; each has others, so that each kind of view meets many kinds of statement.
FOLLOWED = len(VIEWS) if os.environ.get("IVM_NIGHTLY") == "1" else 1
ROWS = "(1, 1, 'a'), (1, 2, 'b'), (2, 3, 'a'), (2, NULL, NULL), (3, 4, 'c'), (3, 4, 'c'), (NULL, 5, 'e')"
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT * FROM VALUES (1, 10, 'm'), (7, 7, 'n') AS x(k, v, s)) AS x ON t.k = x.k\n"
    "    WHEN MATCHED AND t.v = 1 THEN UPDATE SET v = x.v WHEN MATCHED THEN DELETE\n"
    "    WHEN NOT MATCHED THEN INSERT (k, v, s) VALUES (x.k, x.v, x.s) "
    "WHEN NOT MATCHED BY SOURCE AND t.k = 3 THEN UPDATE SET s = 'gone'"
)

#: name: (what follows the columns of t, statements; after each comes a refresh). "=" before one: the refresh may be
#: full. Several by ";" make one refresh.
SCRIPTS: dict[str, tuple[str, list[str]]] = {
    "insert, update, delete": (
        "",
        ["INSERT INTO {t} VALUES (4, 4, 'd')", "UPDATE {t} SET v = v * 2 WHERE k = 1", "DELETE FROM {t} WHERE k = 2"],
    ),
    "delete everything, then fill again": ("", ["DELETE FROM {t}", f"INSERT INTO {{t}} VALUES {ROWS}"]),
    "insert overwrite": (
        "",
        [
            "INSERT OVERWRITE {t} VALUES (1, 1, 'a'), (9, 9, 'z')",
            "INSERT OVERWRITE {t} SELECT k, v, s FROM {t} WHERE k = 9",
        ],
    ),
    "merge": ("", [MERGE, MERGE.replace("t.v = 1", "t.v > 5")]),
    "keys of both sides at once": (
        "",
        [
            "UPDATE {t} SET k = k + 1; UPDATE {u} SET k = k + 1",
            "UPDATE {u} SET k = 2; UPDATE {t} SET k = NULL WHERE v = 4",
        ],
    ),
    "many commits in one refresh": (
        "",
        [
            (
                "INSERT INTO {t} VALUES (5, 1, 'x'); "
                "UPDATE {t} SET v = 2 WHERE k = 5; DELETE FROM {t} WHERE k = 5; INSERT INTO {t} VALUES (5, 3, 'y')"
            )
        ],
    ),
    "insert and delete again": (
        "",
        ["INSERT INTO {t} VALUES (8, 8, 'h'); DELETE FROM {t} WHERE k = 8", "UPDATE {t} SET s = s"],
    ),
    "deletion vectors": (
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        [
            "DELETE FROM {t} WHERE v = 3",
            "UPDATE {t} SET v = 8 WHERE k = 3",
            MERGE,
            "REORG TABLE {t} APPLY (PURGE); INSERT INTO {t} VALUES (2, 2, 'p')",
        ],
    ),
    "partitioned": (
        "PARTITIONED BY (k)",
        [
            "INSERT INTO {t} VALUES (1, 5, 'q')",
            "UPDATE {t} SET k = 3 WHERE k = 1",
            "DELETE FROM {t} WHERE k = 3",
            "INSERT INTO {t} REPLACE WHERE k = 2 VALUES (2, 1, 'r')",
        ],
    ),
    "clustered": (
        "CLUSTER BY (k)",
        ["INSERT INTO {t} VALUES (1, 5, 'q')", "OPTIMIZE {t}; DELETE FROM {t} WHERE k = 1"],
    ),
    "optimize and z-order": (
        "",
        [
            "INSERT INTO {t} VALUES (1, 5, 'q'); OPTIMIZE {t}",
            "OPTIMIZE {t} ZORDER BY (k); UPDATE {t} SET v = 0 WHERE k = 2",
        ],
    ),
    "vacuum": ("", ["DELETE FROM {t} WHERE k = 1", "VACUUM {t} RETAIN 168 HOURS; INSERT INTO {t} VALUES (1, 1, 'a')"]),
    "a column is added": (
        "",
        [
            "ALTER TABLE {t} ADD COLUMN extra int; INSERT INTO {t} VALUES (4, 4, 'd', 4)",
            "UPDATE {t} SET extra = 1; DELETE FROM {t} WHERE k = 4",
        ],
    ),
    "a column is added in front": (
        "",
        [
            "ALTER TABLE {t} ADD COLUMN extra int FIRST; INSERT INTO {t} VALUES (4, 4, 4, 'd')",
            "DELETE FROM {t} WHERE k = 4",
        ],
    ),
    "columns nobody reads are renamed and dropped": (
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        [
            "ALTER TABLE {t} ADD COLUMN extra int; INSERT INTO {t} VALUES (4, 4, 'd', 4)",
            "=ALTER TABLE {t} RENAME COLUMN extra TO other; INSERT INTO {t} VALUES (5, 5, 'e', 5)",
            "=ALTER TABLE {t} DROP COLUMN other; INSERT INTO {t} VALUES (6, 6, 'f')",
            "UPDATE {t} SET v = 1 WHERE k > 4",
        ],
    ),
    "a column becomes wider": (
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        [
            "=ALTER TABLE {t} ALTER COLUMN v TYPE bigint; INSERT INTO {t} VALUES (4, 5000000000, 'd')",
            "DELETE FROM {t} WHERE k = 1",
        ],
    ),
    "row tracking and new checkpoints": (
        (
            "TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
            "'delta.checkpointPolicy' = 'v2', 'delta.enableInCommitTimestamps' = 'true')"
        ),
        ["INSERT INTO {t} VALUES (4, 4, 'd')", "UPDATE {t} SET v = 1 WHERE k = 4", "DELETE FROM {t} WHERE k = 4"],
    ),
    "constraints and settings": (
        "",
        [
            "ALTER TABLE {t} ADD CONSTRAINT small CHECK (v IS NULL OR v < 100); INSERT INTO {t} VALUES (4, 4, 'd')",
            "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b'); DELETE FROM {t} WHERE k = 4",
        ],
    ),
    "restored": (
        "",
        [
            "INSERT INTO {t} VALUES (4, 4, 'd')",
            "=RESTORE TABLE {t} TO VERSION AS OF 1",
            "INSERT INTO {t} VALUES (4, 5, 'd')",
        ],
    ),
    "replaced": (
        "",
        [
            (
                "=CREATE OR REPLACE TABLE {t} (k int, v int, s string) "
                "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true'); INSERT INTO {t} VALUES (1, 1, 'a')"
            ),
            "INSERT INTO {t} VALUES (2, 2, 'b')",
        ],
    ),
    "the other side alone": (
        "",
        [
            "INSERT INTO {u} VALUES (NULL, 'none'), (1, 'twin')",
            "UPDATE {u} SET name = 'one' WHERE k = 1",
            "DELETE FROM {u}",
            "INSERT INTO {u} VALUES (3, 'three')",
        ],
    ),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_views_follow(spark, tmp_path: Path, script: str) -> None:
    more, statements = SCRIPTS[script]
    lake = Lake(spark, tmp_path)
    names = {"t": lake.ref("t"), "u": lake.ref("u")}
    spark.sql(f"CREATE TABLE {names['t']} (k int, v int, s string) USING delta {more}")
    spark.sql(f"CREATE TABLE {names['u']} (k int, name string) USING delta")
    for ref in names.values():
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"INSERT INTO {names['t']} VALUES {ROWS}")
    spark.sql(f"INSERT INTO {names['u']} VALUES (1, 'one'), (2, 'two'), (6, 'six')")
    lake.tables = {"t": [], "u": []}
    number = list(SCRIPTS).index(script)
    followed = [list(VIEWS)[(number + i) % len(VIEWS)] for i in range(FOLLOWED)]
    pipe = lake.pipeline({name: VIEWS[name] for name in followed})
    # What a first build gets wrong is still wrong after a statement, so it isn't compared by itself.
    assert pipe.refresh().ok
    for statement in statements:
        for part in statement.lstrip("=").split("; "):
            spark.sql(part.format(**names))
        before = pipe.context.log.manifest().epoch
        assert lake.differences(pipe) == {}, statement
        outcomes = (
            pipe.context.log.outcomes(pipe.context.log.manifest().epoch)
            if pipe.context.log.manifest().epoch > before
            else {}
        )
        full = {o.unit: o.reason for o in outcomes.values() if o.strategy == "full"}
        assert statement.startswith("=") or not full, (statement, full)


def test_a_view_is_built_anew_where_a_wider_type_shows_otherwise(lake, spark):
    ref = lake.ref("t")
    spark.sql(
        f"CREATE TABLE {ref} (k int, v int, f float) USING delta TBLPROPERTIES "
        "('delta.enableTypeWidening' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO {ref} VALUES (1, 1, 0.1F), (2, 2, 0.2F)")
    lake.tables = {"t": []}
    pipe = lake.pipeline({"shown": "SELECT k, hash(v) AS h, CAST(f AS STRING) AS x FROM t"})
    assert pipe.refresh().ok
    spark.sql(f"ALTER TABLE {ref} ALTER COLUMN v TYPE bigint")
    spark.sql(f"ALTER TABLE {ref} ALTER COLUMN f TYPE double")
    spark.sql(f"INSERT INTO {ref} VALUES (3, 3, 0.3)")
    assert lake.differences(pipe) == {}
