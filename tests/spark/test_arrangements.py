"""Relations arranged by other keys: searched instead of scanned, shared between views, and never another answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ivm.refresh.arrangements
from ivm.errors import ViewError
from ivm.planner.limits import EMBEDDED
from ivm.refresh.inputs import Inputs
from ivm.trace.arranged import ArrangedTrace
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def small_like_large(lake):
    """Small relations are searched like large ones."""
    lake.limits = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1)


@pytest.fixture
def searches(monkeypatch):
    """The names of the arrangements that were searched."""
    found = []
    inner = ArrangedTrace.matching

    def matching(self, *args):
        found.append(self.path.rsplit("/", 1)[1].rsplit("_", 1)[0])
        return inner(self, *args)

    monkeypatch.setattr(ArrangedTrace, "matching", matching)
    return found


TABLES = {"a": "k int, x decimal(5,2), s string, l array<int>", "b": "k int, y int, s string"}
VIEWS = {
    "joined": "SELECT /*+ ARRANGE(a, K), ARRANGE(b, k) */ a.k, a.x, a.l, b.y FROM a JOIN b ON a.k = b.k",
    "lists": "SELECT /*+ ARRANGE(a, k) */ k, array_sort(collect_list(x)) AS l, max(size(l)) AS m FROM a GROUP BY k",
    "by_two": (
        "SELECT /*+ ARRANGE(b, s) */ a.k, a.s, sum(b.y) AS y, count(*) AS n "
        "FROM a LEFT JOIN b ON a.k = b.k AND a.s = b.s GROUP BY a.k, a.s"
    ),
    "over_views": "SELECT /*+ ARRANGE(lists, k) */ b.s, max(m) AS m FROM lists JOIN b ON b.k = lists.k GROUP BY b.s",
}


@pytest.fixture
def made(lake):
    for name, columns in TABLES.items():
        lake.table(name, columns, rows=30)
    return lake.pipeline(VIEWS)


def test_what_is_searched_equals_a_recompute(made, lake, searches):
    batches = 6 if NIGHTLY else 2
    assert made.refresh().ok
    for batch in range(batches):
        for name in ("a", "b", "a"):
            lake.change(name)
        assert lake.differences(made) == {}
        if batch == batches // 2 - 1:
            assert [c for c in made.compact(keep_epochs=0) if "arrangements" in c.table]
    assert set(searches) == {"a__by_k", "b__by_k", "b__by_s", "lists__by_k"}
    by_relation = {(s["relation"], *s["keys"]): s["views"] for s in made.status()["arrangements"]}
    assert by_relation == {
        ("a", "k"): ["joined", "lists"],
        ("b", "k"): ["joined"],
        ("b", "s"): ["by_two"],
        ("lists", "k"): ["over_views"],
    }
    assert "searched in the arrangement of a by k (asked for by joined, lists)" in str(made.explain("lists"))


def test_status_needs_nothing_compiled(made, lake, spark):
    made.refresh()
    lake.insert("a", 2)
    made.refresh()
    again = lake.pipeline(VIEWS)
    again.context.compiled.clear()
    again.view("broken", "SELECT 1 FROM", file="views/broken.sql")
    assert again.status()["arrangements"] == made.status()["arrangements"] != []


def test_history_is_compacted_away(made, lake, spark, searches):
    made.refresh()
    for n in range(3):
        spark.sql(f"UPDATE {lake.ref('a')} SET x = {n}")
        made.refresh()
    before = {s["relation"]: s for s in made.status()["arrangements"]}["a"]
    made.compact(keep_epochs=0)
    after = {s["relation"]: s for s in made.status()["arrangements"]}["a"]
    assert after["since"] == after["upto"] == before["upto"] > before["since"]
    assert after["rows"] == spark.sql(f"SELECT * FROM {lake.ref('a')}").count() < before["rows"]
    searches.clear()
    lake.insert("a", 2)
    assert lake.differences(made) == {}
    assert "a__by_k" in searches


def test_a_source_that_was_restored_is_arranged_anew(made, lake, spark, searches):
    made.refresh()
    lake.insert("a", 3)
    assert lake.differences(made) == {}
    spark.sql(f"RESTORE TABLE {lake.ref('a')} TO VERSION AS OF 1")
    made.refresh()
    spark.sql(f"UPDATE {lake.ref('a')} SET k = 1 WHERE k = 2")
    searches.clear()
    assert lake.differences(made) == {}
    assert "a__by_k" in searches


def test_a_source_with_other_columns_is_arranged_anew(lake, spark, searches):
    lake.table("a", "k int, x int, s string", rows=20)
    lake.table("b", "k int, y int", rows=20)
    pipe = lake.pipeline({"v": "SELECT /*+ ARRANGE(a, k) */ a.k, a.x, b.y FROM a JOIN b ON a.k = b.k"})
    for change in ("INSERT INTO {} VALUES (1, 1, 'x')", "REPLACE", "DELETE FROM {} WHERE k = 1"):
        if change == "REPLACE":
            spark.sql(f"SELECT k, CAST(x AS bigint) AS x FROM {lake.ref('a')}").write.format("delta").mode(
                "overwrite"
            ).option("overwriteSchema", "true").save(lake.path("a"))
            lake.tables["a"] = [("k", "int"), ("x", "bigint")]
        else:
            spark.sql(change.format(lake.ref("a")))
        lake.insert("b", 2)
        pipe = lake.pipeline({"v": pipe.context.views["v"].sql})
        assert lake.differences(pipe) == {}
    searches.clear()
    lake.insert("b", 2)
    assert lake.differences(pipe) == {}
    assert searches


def test_a_view_with_more_columns_widens_the_arrangement(lake, searches):
    for name, columns in TABLES.items():
        lake.table(name, columns, rows=30)
    pipe = lake.pipeline({"joined": "SELECT /*+ ARRANGE(a, k) */ a.k, b.y FROM a JOIN b ON a.k = b.k"})
    pipe.refresh()
    lake.insert("b", 2)
    pipe.refresh()
    pipe.view("wider", "SELECT /*+ ARRANGE(a, k) */ a.k, a.s, b.y FROM a JOIN b ON a.k = b.k")
    for _ in range(2):
        assert lake.differences(pipe) == {}
        lake.insert("b", 2)
    assert len(pipe.status()["arrangements"]) == 1
    assert searches


def test_the_last_view_to_go_takes_the_arrangement_along(made, lake, searches):
    made.refresh()
    lake.insert("a", 2)
    lake.insert("b", 2)
    made.refresh()
    folder = made.context.layout.arrangements
    assert len(folder.list()) == 4
    rest = lake.pipeline({"lists": VIEWS["lists"]})
    lake.insert("a", 2)
    assert lake.differences(rest) == {}
    assert [f.name.rsplit("_", 1)[0] for f in folder.list()] == ["a__by_k"]


def test_operators_ask_for_arrangements_by_join_with_index(lake, searches):
    lake.table("edges", "src int, dst int", rows=30)
    lake.table("names", "src int, name string", rows=10)
    pipe = lake.pipeline({})

    @pipe.view
    def named(edges, names):
        return edges.filter("dst > 0").join_with_index(names, ["src"])

    for _ in range(3):
        assert lake.differences(pipe) == {}
        lake.change("edges")
    assert set(searches) == {"names__by_src"}


def test_a_feed_that_is_gone_makes_the_arrangement_anew(made, lake, searches, monkeypatch):
    made.refresh()
    lake.insert("a", 3)
    made.refresh()
    lake.insert("a", 3)
    inner = ivm.refresh.arrangements.source_delta

    def vacuumed(snapshot, *args):
        if snapshot.path.endswith("/a"):
            raise OSError("no such file")
        return inner(snapshot, *args)

    monkeypatch.setattr(ivm.refresh.arrangements, "source_delta", vacuumed)
    # As where it stands at another version than the views: else their delta serves it.
    monkeypatch.setattr(Inputs, "_read_before", lambda *_: None)
    searches.clear()
    assert lake.differences(made) == {}
    assert "a__by_k" in searches
    state = next(s for s in made.status()["arrangements"] if s["relation"] == "a")
    assert state["since"] == state["upto"]


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("c, k", r"names 'c', which it doesn't read.*It reads: a"),
        ("a, z", r"can't be arranged by 'z'.*by: k, x, s"),
        ("a, l", r"can't be arranged by 'l'"),
        ("a", r"names no key"),
        ("odd, k", r"has a column 'time_0'.*Rename it"),
    ],
)
def test_hints_that_mean_nothing_are_named(lake, hint, message):
    lake.table("a", TABLES["a"], rows=3)
    lake.table("odd", "k int, time_0 int", rows=3)
    with pytest.raises(ViewError, match=message):
        lake.pipeline({"v": f"SELECT /*+ ARRANGE({hint}) */ k FROM {'odd' if 'odd' in hint else 'a'}"})
