"""What a view writes in quotes, backquotes and comments reaches its rows as is, in full and incremental refreshes."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

VIEWS = {
    "literal": "SELECT id, '⟦t⟧' AS mark FROM t",
    "literal_of_a_leaf": (
        "SELECT t.id, '⟦t⟧ ⟦u⟧ \ue0000\ue000' AS mark, (SELECT max(u.v) FROM u WHERE u.id = t.id) AS m FROM t"
    ),
    "names": (
        "SELECT `⟦t⟧`.id AS `⟦t⟧`, `⟦t⟧`.v AS `v⟧` "
        "FROM t AS `⟦t⟧` /* ⟦t⟧ */ LEFT JOIN u AS `⟦u⟧` ON `⟦t⟧`.id = `⟦u⟧`.id -- ⟦u⟧"
    ),
    "outer_join": (
        "SELECT t.id, concat('⟦u⟧', u.v) AS mark FROM t LEFT JOIN u ON u.id = t.id AND concat('⟦t⟧', u.v) <> '⟦u⟧'"
    ),
    "grouped": (
        "SELECT '⟦t⟧' AS g, concat(v, '⟦t⟧') AS k, max(id) AS m FROM t WHERE v <> '⟦t⟧' GROUP BY concat(v, '⟦t⟧')"
    ),
}


@pytest.mark.parametrize("mode", ["incremental", "full"])
def test_texts_are_the_users(lake, mode):
    lake.table("t", "id int, v string", rows=6)
    lake.table("u", "id int, v string", rows=6)
    pipe = lake.pipeline(VIEWS, mode=mode)
    assert lake.differences(pipe) == {}
    lake.insert("t", 2)
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, '⟦t⟧'), (2, '⟦u⟧')")
    lake.insert("u", 2)
    assert lake.differences(pipe) == {}
    assert {r.mark for r in pipe.read("literal").collect()} == {"⟦t⟧"}
