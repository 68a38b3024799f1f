"""WITH RECURSIVE kept up to date: against plain Python for sets, against Spark's own recursion for bags."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ivm.errors import ViewError
from ivm.lake import native
from ivm.names import WEIGHT
from ivm.plan.nodes import EPOCH
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark

#: Steps of each kind of change that a graph goes through.
ROUNDS = 2 if NIGHTLY else 1

VIEWS = {
    "closure": (
        "WITH RECURSIVE r AS (SELECT src, dst FROM e "
        "UNION SELECT r.src, e.dst FROM r JOIN e ON r.dst = e.src) SELECT src, dst FROM r"
    ),
    "squared": (
        "WITH RECURSIVE r AS (SELECT src, dst FROM e "
        "UNION SELECT a.src, b.dst FROM r a JOIN r b ON a.dst = b.src) SELECT src, dst FROM r"
    ),
    "reached": (
        "WITH RECURSIVE r (node) AS (SELECT node FROM roots "
        "UNION SELECT e.dst FROM r JOIN e ON e.src = r.node) SELECT node FROM r"
    ),
    "component": (
        "WITH RECURSIVE b AS (SELECT src, dst FROM e UNION ALL SELECT dst, src FROM e), "
        "r (node, seen) AS (SELECT src, src FROM b UNION SELECT b.dst, r.seen FROM r JOIN b ON b.src = r.node) "
        "SELECT node, min(seen) AS component FROM r GROUP BY node"
    ),
    "distance": (
        "WITH RECURSIVE r (node, d) AS (SELECT node, 0 FROM roots "
        "UNION SELECT e.dst, r.d + 1 FROM r JOIN e ON e.src = r.node WHERE r.d < 4) "
        "SELECT node, min(d) AS d FROM r GROUP BY node"
    ),
    "shortest": (
        "WITH RECURSIVE r (node, d) AS (SELECT node, CAST(node AS bigint) FROM roots "
        "UNION SELECT e.dst, r.d + abs(e.src - e.dst) FROM r JOIN e ON e.src = r.node) "
        "SELECT node, min(d) AS d FROM r GROUP BY node"
    ),
    "sides": (
        "WITH RECURSIVE even (node) AS (SELECT node FROM roots "
        "UNION SELECT e.dst FROM odd JOIN e ON e.src = odd.node), "
        "odd AS (SELECT e.dst AS node FROM even JOIN e ON e.src = even.node) "
        "SELECT 'even' AS side, node FROM even UNION ALL SELECT 'odd', node FROM odd"
    ),
    "hops": "WITH RECURSIVE hop (a, b) AS (SELECT e.src, e.dst FROM e JOIN seen ON seen.node = e.src), "
    "seen (node, label) AS (SELECT node, concat('n', node) FROM roots UNION SELECT hop.b, concat('n', hop.b) FROM hop) "
    "SELECT seen.label, count(*) AS n FROM seen JOIN hop ON hop.a = seen.node GROUP BY seen.label",
}


#: By night all; the others have each kind of step and of result.
CHOSEN = {n: v for n, v in VIEWS.items() if NIGHTLY or n not in ("reached", "shortest")}


def closed(pairs, step):
    found = set(pairs)
    while True:
        more = set(step(found)) - found
        if not more:
            return found
        found |= more


def expected(edges, roots):
    edges = {(a, b) for a, b in edges if a is not None and b is not None}
    both = edges | {(b, a) for a, b in edges}
    closure = closed(edges, lambda r: {(a, d) for a, b in r for c, d in edges if b == c})
    reached = closed({(r,) for r in roots}, lambda r: {(d,) for (a,) in r for c, d in edges if a == c})
    seen = closed({(a, a) for a, _ in both}, lambda r: {(d, s) for n, s in r for c, d in both if n == c})
    component = {n: min(s for m, s in seen if m == n) for n, _ in seen}
    distance = closed(
        {(r, 0) for r in roots}, lambda r: {(d, n + 1) for a, n in r for c, d in edges if a == c and n < 4}
    )
    shortest = {n: min(d for m, d in distance if m == n) for n, _ in distance}
    lengths = {r: r for r in roots}
    for _ in range(9):
        for a, b in edges:
            if a in lengths:
                lengths[b] = min(lengths.get(b, 10**6), lengths[a] + abs(a - b))
    sides = closed(
        {("even", r) for r in roots},
        lambda r: {("odd" if s == "even" else "even", d) for s, a in r for c, d in edges if a == c},
    )
    hops = Counter(f"n{a}" for a, _ in edges if (a,) in reached)
    shapes = {"closure": closure, "squared": closure, "reached": reached}
    return {
        **shapes,
        "component": set(component.items()),
        "distance": set(shortest.items()),
        "shortest": set(lengths.items()),
        "sides": sides,
        "hops": set(hops.items()),
    }


@pytest.fixture
def graph(lake, spark):
    lake.table("e", "id int, src int, dst int", rows=0)
    lake.table("roots", "node int", rows=0)
    return lake


def rows(pipe, view):
    return Counter(tuple(r) for r in pipe.read(view).collect())


def test_sets_equal_plain_python_after_inserts_and_deletes(graph, spark):
    random_ = random.Random(5)
    edges, roots = {}, {0}
    for i in range(9):
        edges[i] = (random_.randrange(8), random_.randrange(8))
    spark.sql(f"INSERT INTO {graph.ref('e')} VALUES {', '.join(f'({i}, {a}, {b})' for i, (a, b) in edges.items())}")
    spark.sql(f"INSERT INTO {graph.ref('roots')} VALUES (0)")
    pipe = graph.pipeline(CHOSEN, mode="incremental")
    for step in range(3 * ROUNDS + 1):
        report = pipe.refresh()
        assert {v.error for v in report.views.values()} == {""}, {n: v.error for n, v in report.views.items()}
        assert step == 0 or {v.strategy for v in report.views.values()} <= {"incremental", "unchanged"}
        # What a first build gets wrong is still wrong after a step, so it isn't compared by itself.
        wanted_rows = expected(set(edges.values()), roots) if step else {}
        for view, wanted in ((n, wanted_rows[n]) for n in CHOSEN if step):
            assert rows(pipe, view) == Counter(dict.fromkeys(wanted, 1)), (step, view, edges, roots)
        if step == 3 * ROUNDS:
            break
        if step % 3 == 0:  # delete: cycles must not keep themselves alive
            for i in random_.sample(sorted(edges), 3):
                del edges[i]
                spark.sql(f"DELETE FROM {graph.ref('e')} WHERE id = {i}")
        elif step % 3 == 1:  # insert, also in the other direction, and a root
            for i in range(100 + 10 * step, 103 + 10 * step):
                edges[i] = (random_.randrange(8), random_.randrange(8))
                spark.sql(f"INSERT INTO {graph.ref('e')} VALUES ({i}, {edges[i][0]}, {edges[i][1]})")
            roots.add(step)
            spark.sql(f"INSERT INTO {graph.ref('roots')} VALUES ({step})")
        else:  # move an edge
            i = random_.choice(sorted(edges))
            edges[i] = (edges[i][1], random_.randrange(8))
            spark.sql(f"UPDATE {graph.ref('e')} SET src = {edges[i][0]}, dst = {edges[i][1]} WHERE id = {i}")
    assert all(pipe.verify(v) for v in (CHOSEN if NIGHTLY else ("squared", "component", "hops")))
    least = [v for v in CHOSEN if "only the least" in str(pipe.explain(v))]
    assert least == [v for v in ("component", "distance", "shortest") if v in CHOSEN]


def test_a_cycle_that_lost_its_root_goes(graph, spark):
    spark.sql(f"INSERT INTO {graph.ref('e')} VALUES (1, 0, 1), (2, 1, 2), (3, 2, 1)")
    spark.sql(f"INSERT INTO {graph.ref('roots')} VALUES (0)")
    pipe = graph.pipeline({"reached": VIEWS["reached"]}, mode="incremental")
    pipe.refresh()
    assert rows(pipe, "reached") == Counter([(0,), (1,), (2,)])
    spark.sql(f"DELETE FROM {graph.ref('e')} WHERE id = 1")
    assert pipe.refresh().views["reached"].strategy == "incremental"
    assert rows(pipe, "reached") == Counter([(0,)])


BAGS = {
    "parts": (
        "WITH RECURSIVE r (whole, part, n) AS (SELECT whole, part, n FROM bom "
        "UNION ALL SELECT r.whole, b.part, r.n * b.n FROM r JOIN bom b ON b.whole = r.part) "
        "SELECT whole, part, sum(n) AS n FROM r GROUP BY whole, part"
    ),
    "paths": (
        "WITH RECURSIVE r (whole, part, depth) AS (SELECT whole, part, 1 FROM bom "
        "UNION ALL SELECT r.whole, b.part, r.depth + 1 FROM r JOIN bom b ON b.whole = r.part) "
        "SELECT whole, part, depth FROM r"
    ),
    "counted": (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) "
        "SELECT b.whole, n.i FROM bom b JOIN n ON n.i <= b.n"
    ),
}


def test_bags_equal_spark_after_inserts_and_deletes(lake, spark):
    random_ = random.Random(3)
    lake.table("bom", "id int, whole int, part int, n int", rows=0)

    def row(i):
        whole = random_.randrange(6)
        return f"({i}, {whole}, {whole + 1 + random_.randrange(3)}, {1 + random_.randrange(3)})"

    spark.sql(
        f"INSERT INTO {lake.ref('bom')} VALUES {', '.join(row(i) for i in range(12))}, (90, 1, 2, 1), (91, 1, 2, 1)"
    )
    pipe = lake.pipeline(BAGS, mode="incremental")
    assert pipe.refresh().ok
    for step in range(2 * ROUNDS):
        spark.sql(f"DELETE FROM {lake.ref('bom')} WHERE id = {random_.randrange(12)}")
        spark.sql(f"INSERT INTO {lake.ref('bom')} VALUES {row(20 + step)}")
        spark.sql(f"UPDATE {lake.ref('bom')} SET n = n + 1 WHERE id % 5 = {step}")
        assert lake.differences(pipe) == {}, step


def test_bags_that_read_each_other_equal_one_that_reads_itself(lake, spark):
    lake.table("bom", "id int, whole int, part int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('bom')} VALUES (1, 0, 1), (2, 1, 2), (3, 1, 2), (4, 2, 3), (5, 0, 3), (6, 3, 4)")
    mutual = (
        "WITH RECURSIVE even (whole, part) AS (SELECT whole, part FROM bom "
        "UNION ALL SELECT o.whole, b.part FROM odd o JOIN bom b ON b.whole = o.part),\n"
        "        odd AS (SELECT e.whole, b.part FROM even e JOIN bom b ON b.whole = e.part) "
        "SELECT 0 AS side, whole, part FROM even UNION ALL SELECT 1, whole, part FROM odd"
    )
    single = (
        "WITH RECURSIVE r (side, whole, part) AS (SELECT 0, whole, part FROM bom\n"
        "        UNION ALL SELECT 1 - r.side, r.whole, b.part FROM r JOIN bom b ON b.whole = r.part) "
        "SELECT side, whole, part FROM r"
    )
    pipe = lake.pipeline({"mutual": mutual, "single": single}, mode="incremental")
    changes = [
        f"DELETE FROM {lake.ref('bom')} WHERE id = 3",
        f"INSERT INTO {lake.ref('bom')} VALUES (7, 4, 5), (8, 4, 5)",
        f"UPDATE {lake.ref('bom')} SET part = 4 WHERE id = 1",
    ]
    for change in [*changes, ""]:
        report = pipe.refresh()
        assert {v.error for v in report.views.values()} == {""}
        assert rows(pipe, "mutual") == rows(pipe, "single")
        assert pipe.verify("mutual")
        assert pipe.verify("single")
        if change:
            spark.sql(change)
    assert max(rows(pipe, "mutual").values()) > 1
    assert "read each other are one recursion" in str(pipe.explain("mutual"))


def test_an_endless_bag_is_named(graph, spark):
    spark.sql(f"INSERT INTO {graph.ref('e')} VALUES (1, 0, 1), (2, 1, 0)")
    view = (
        "WITH RECURSIVE r AS (SELECT src, dst FROM e "
        "UNION ALL SELECT r.src, e.dst FROM r JOIN e ON r.dst = e.src) SELECT src, dst FROM r"
    )
    pipe = graph.pipeline({"endless": view})
    assert "did not end within 100 iterations" in pipe.refresh().views["endless"].error


def test_what_has_no_rule_is_refused_with_its_reason(graph):
    outer = (
        "WITH RECURSIVE r AS (SELECT src, dst FROM e "
        "UNION SELECT e.src, r.dst FROM e LEFT JOIN r ON e.dst = r.src) SELECT src, dst FROM r"
    )
    with pytest.raises(ViewError, match="INVALID_RECURSIVE_REFERENCE"):
        graph.pipeline({"outer": outer})
    twice = (
        "WITH RECURSIVE r AS (SELECT src, dst FROM e "
        "UNION ALL SELECT a.src, b.dst FROM r a JOIN r b ON a.dst = b.src) SELECT src, dst FROM r"
    )
    pipe = graph.pipeline({"twice": twice})
    assert "which UNION ALL is not linear in" in str(pipe.explain("twice"))


def test_a_set_can_be_refreshed_in_full_each_time(graph, spark):
    spark.sql(f"INSERT INTO {graph.ref('e')} VALUES (1, 0, 1), (2, 1, 2), (3, 2, 1)")
    spark.sql(f"INSERT INTO {graph.ref('roots')} VALUES (0)")
    pipe = graph.pipeline({"reached": VIEWS["reached"]}, mode="full")
    for wanted in ([(0,), (1,), (2,)], [(0,)]):
        report = pipe.refresh().views["reached"]
        assert (report.strategy, report.error) == ("full", "")
        assert rows(pipe, "reached") == Counter(wanted)
        assert pipe.verify("reached")
        spark.sql(f"DELETE FROM {graph.ref('e')} WHERE id = 1")
    assert "mode full" in str(pipe.explain("reached"))


def test_a_row_with_another_derivation_takes_nothing_along(graph, spark):
    pairs = [(a, b) for a in range(9) for b in range(9) if a != b]
    spark.sql(f"INSERT INTO {graph.ref('e')} VALUES {', '.join(f'({i}, {a}, {b})' for i, (a, b) in enumerate(pairs))}")
    spark.sql(f"INSERT INTO {graph.ref('roots')} VALUES (0)")
    pipe = graph.pipeline({"reached": VIEWS["reached"], "closure": VIEWS["closure"]}, mode="incremental")
    pipe.refresh()
    spark.sql(f"DELETE FROM {graph.ref('e')} WHERE src = 0 AND dst = 1")
    epoch = pipe.refresh().epoch
    assert all(pipe.verify(v) for v in ("reached", "closure"))
    state = pipe.context.log.manifest().units["reached__1"]
    assert len(rows(pipe, "reached")) == 9
    trace = native.table(pipe.context.layout.output_trace("reached__1", state.output_generation))
    moved = native.read(trace, ["c0", "__ivm_rank", WEIGHT], f"{EPOCH} = {epoch}").to_pylist()
    # Node 1 is two steps from the root now; all other nodes are as they were.
    assert sorted((r["c0"], r["__ivm_rank"], r[WEIGHT]) for r in moved) == [(1, 1, -1), (1, 2, 1)]


SEEDS = {
    "bag": (
        "WITH RECURSIVE w (a, d) AS (SELECT id, 1 FROM t "
        "UNION ALL SELECT a, d + 1 FROM w WHERE d < 5) SELECT a, d FROM w"
    ),
    "bag_of_many_types": (
        "WITH RECURSIVE w (a, s, p, l, d) AS (SELECT id, 'x', 1.5, array(1, 2), named_struct('n', 1) FROM t "
        "UNION ALL SELECT a, concat(s, 'y'), p, array(a), named_struct('n', d.n + 1) FROM w WHERE d.n < 3) "
        "SELECT * FROM w"
    ),
    "set": (
        "WITH RECURSIVE w (a, s, d) AS (SELECT id, 'x', 1 FROM t "
        "UNION SELECT a % 3, s, d + 1 FROM w WHERE d < 5) SELECT a, s, d FROM w"
    ),
    "least": (
        "WITH RECURSIVE w (a, d) AS (SELECT id, 1 FROM t UNION SELECT a % 3, d + 1 FROM w) "
        "SELECT a, min(d) AS d FROM w GROUP BY a"
    ),
    "seeds_of_two_kinds": (
        "WITH RECURSIVE w (a, d) AS (SELECT id, 1 FROM t "
        "UNION ALL SELECT id, v FROM t UNION ALL SELECT a, d + 1 FROM w WHERE d < 5) SELECT a, d FROM w"
    ),
}


def test_a_seed_may_hold_literals(lake):
    lake.table("t", "id int, v int", rows=4)
    pipe = lake.pipeline(SEEDS, mode="incremental")
    assert lake.differences(pipe) == {}
    for change in (
        "INSERT INTO {} VALUES (7, 1), (NULL, NULL), (9, 0)",
        "DELETE FROM {} WHERE id IS NULL OR id = 7",
        "UPDATE {} SET id = 8 WHERE id = 9",
    ):
        lake.spark.sql(change.format(lake.ref("t")))
        assert lake.differences(pipe) == {}
        assert {v.strategy for v in pipe.refresh().views.values()} == {"unchanged"}
