"""Views written with operators: what they mean, against the in-process Z-sets, on DuckDB; and what they refuse."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.compile.passes import parse_view
from ivm.errors import ViewError
from ivm.plan.nodes import Column, Relation
from ivm.zset.arrays import ZSet
from ivm.zset.collection import Collection
from tests.pure.duck import DuckAnalyzer, duck

EDGES, MORE = Collection.relation("edges", ["src", "dst"]), Collection.relation("more", ["src", "w"])
RELATIONS = {
    "edges": Relation("edges", "source", (Column("src", "int"), Column("dst", "int"))),
    "more": Relation("more", "source", (Column("src", "int"), Column("w", "int"))),
}
#: (the view, the same over Z-sets)
PAIRS = {
    "map": (EDGES.map(s="src + dst"), lambda e, m: e.map(lambda c: {"s": c["src"] + c["dst"]})),
    "filter": (EDGES.filter("src > 1"), lambda e, m: e.filter(lambda c: c["src"] > 1)),
    "concat": (
        EDGES.concat(EDGES.map(src="dst", dst="src")),
        lambda e, m: e + e.map(lambda c: {"src": c["dst"], "dst": c["src"]}),
    ),
    "join": (EDGES.join(MORE, ["src"]), lambda e, m: e.join(m, ["src"])),
    "join_with_index": (
        EDGES.join_with_index(MORE, ["src"]),
        lambda e, m: e.indexed(["src"]).join_with_index(m.indexed(["src"])),
    ),
    "semijoin": (
        EDGES.semijoin(MORE, ["src"]),
        lambda e, m: e.semijoin(m.map(lambda c: {"src": c["src"]}).distinct(), ["src"]),
    ),
    "antijoin": (EDGES.antijoin(MORE, ["src"]), lambda e, m: e.antijoin(m, ["src"])),
    "distinct": (EDGES.map(src="src").distinct(), lambda e, m: e.map(lambda c: {"src": c["src"]}).distinct()),
    "count": (EDGES.map(src="src").count("n"), lambda e, m: e.map(lambda c: {"src": c["src"]}).count(["n"])),
    "count_total_u": (
        EDGES.map(src="src").count_total_u("n"),
        lambda e, m: e.map(lambda c: {"src": c["src"]}).count(["n"]),
    ),
    "explode": (
        EDGES.explode(["src"], total="dst").count("n"),
        lambda e, m: e.explode(["src"], ["dst"]).count(["total", "n"]),
    ),
    "degrees": (
        EDGES.map(src="src").count_total().map(n="count").count_total(),
        lambda e, m: e.map(lambda c: {"src": c["src"]}).count().map(lambda c: {"n": c["count"]}).count(),
    ),
    "reduce": (EDGES.reduce(["src"], m="max(dst)"), lambda e, m: e.reduce(["src"], lambda _, c: {max(c): 1}, ["m"])),
    "top_k": (EDGES.top_k(["src"], "dst", 2), lambda e, m: e.top_k(["src"], ["dst"], 2)),
}
rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)


def zset(names, listed):
    return ZSet({n: [r[i] for r in listed] for i, n in enumerate(names)}) if listed else ZSet.of(names, {})


@settings(max_examples=60)
@given(rows, rows, st.sampled_from(sorted(PAIRS)))
def test_a_view_means_what_its_operators_mean(edges, more, name):
    view, reference = PAIRS[name]
    connection = DuckAnalyzer().connection
    for table, (a, b), listed in (("edges", ("src", "dst"), edges), ("more", ("src", "w"), more)):
        connection.execute(f"CREATE TABLE {table} ({a} int, {b} int)")
        if listed:
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", listed)
    found = Counter(connection.execute(duck(view.sql)).fetchall())
    wanted = reference(zset(["src", "dst"], edges), zset(["src", "w"], more)).rows()
    assert found == {tuple(v[0] if isinstance(v, tuple) else v for v in row): n for row, n in wanted.items()}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_every_operator_is_maintained(name):
    program = parse_view("v", PAIRS[name][0].sql, dict(RELATIONS), DuckAnalyzer())
    assert program.incremental, program.refusals


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: EDGES.join(MORE, ["dst"]), "no column dst"),
        (lambda: EDGES.join(EDGES, ["src"]), "both sides of the join have a column dst"),
        (lambda: EDGES.join(MORE, ["src"], "sideways"), "no join 'sideways'"),
        (lambda: EDGES.reduce(["x"], n="count(*)"), "no column x"),
        (lambda: EDGES.count_u(), "one integer column"),
        (lambda: EDGES.map(), "at least one column"),
        (lambda: EDGES.flat_map("explode(array(1))", ["src"]), "column src twice"),
        (lambda: EDGES.iterate(lambda x: x.map(src="src")), "no column dst"),
    ],
)
def test_what_makes_no_sense_is_named(wrong, message):
    with pytest.raises(ViewError, match=f"(?i){message}"):
        wrong()
