"""A walk goes on from rows that may be in a result only: their partners are in what it has reached by then."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.compile.passes import parse_view
from ivm.lake import native
from ivm.lake.keyed import KeyedReader
from ivm.pipeline import Pipeline
from ivm.plan.nodes import Column, Filter, Relation
from ivm.planner.limits import EMBEDDED
from ivm.rewrite.delta_join import delta_terms
from ivm.rewrite.slices import WHOLE, Facts, Match, Provider, Requests, walk_groups, walk_term
from tests.pure.duck import DuckAnalyzer
from tests.pure.duck_session import DuckSession

COLUMNS = {
    "lines": ("ok", "pk", "sk", "qty"),
    "orders": ("ok", "ck"),
    "parts": ("pk", "kind"),
    "suppliers": ("sk", "nk"),
    "nations": ("nk", "rk", "label"),
    "regions": ("rk", "title"),
}
KEYS = {"orders": ("ok",), "parts": ("pk",), "suppliers": ("sk",), "nations": ("nk",), "regions": ("rk",)}
SMALL = ("nations", "regions")
#: The others have a million.
ROWS = {"parts": 100_000, "lines": 4_000_000}
TEXTS = ("kind", "label", "title")
RELATIONS = {
    name: Relation(
        name, "source", tuple(Column(c, "string" if c in TEXTS else "bigint") for c in columns), KEYS.get(name, ())
    )
    for name, columns in COLUMNS.items()
}
BY_KIND = (Filter("kind", "=", ("b",)),)
BY_LABEL = (Filter("label", "=", ("x",)),)
OF_NATIONS = Match(("nk",), Provider("nations", WHOLE, ("nk",), filters=BY_LABEL))

#: Random lakes tried; the nightly run sets more.
EXAMPLES = int(os.environ.get("IVM_EXAMPLES", "4"))


def asked(sql: str, changed: str, sizes: Mapping[str, int] = ROWS) -> dict[str, set[Provider]]:
    """Who provides the keys of each relation, when one has changed."""
    units = parse_view("v", sql, dict(RELATIONS), DuckAnalyzer()).units
    unit = units[-1]
    facts = {n: Facts(r, sizes.get(n, 1_000_000), small=n in SMALL) for n, r in RELATIONS.items()}
    facts |= {u.name: Facts(Relation(u.name, "unit", u.columns), 1_000_000) for u in units}
    requests = Requests()
    walked = [
        (t, walk_term(t, facts, requests)) for b in unit.core.branches for t in delta_terms(b, frozenset({changed}))
    ]
    if unit.reduce is not None and not unit.reduce.linear:
        walk_groups(unit, walked, facts, requests)
    found: dict[str, set[Provider]] = {}
    for (relation, _), matches in requests.matches.items():
        found.setdefault(relation, set()).update(m.provider for m in matches)
    return found


def test_rows_without_a_partner_in_a_small_relation_lead_nowhere():
    sql = "SELECT l.ok, s.sk FROM lines l, suppliers s, nations n WHERE l.sk = s.sk AND s.nk = n.nk AND n.label = 'x'"
    assert asked(sql, "suppliers")["lines"] == {Provider("suppliers", 0, ("sk",), partners=(OF_NATIONS,))}


def test_a_small_relation_is_restricted_by_another():
    sql = (
        "SELECT l.ok, s.sk FROM lines l, suppliers s, nations n, regions r "
        "WHERE l.sk = s.sk AND s.nk = n.nk AND n.rk = r.rk AND r.title = 'y'"
    )
    regions = Match(("rk",), Provider("regions", WHOLE, ("rk",), filters=(Filter("title", "=", ("y",)),)))
    (provider,) = asked(sql, "suppliers")["lines"]
    assert provider.partners == (Match(("nk",), Provider("nations", WHOLE, ("nk",), partners=(regions,))),)


@pytest.mark.parametrize(
    "where", ["l.pk = p.pk AND p.kind = 'b'", "l.pk IN (SELECT pk FROM parts WHERE kind = 'b')"], ids=["join", "in"]
)
def test_what_is_selective_is_reached_first_and_restricts_the_rest(where):
    items = "lines l, orders o" + (", parts p" if "p.kind" in where else "")
    found = asked(f"SELECT l.qty, o.ck FROM {items} WHERE l.ok = o.ok AND {where}", "lines")
    (parts,) = found["parts"]
    assert parts == Provider("lines", 0, ("pk",))
    (provider,) = found["orders"]
    (partner,) = provider.partners
    assert (partner.columns, partner.provider.relation, partner.provider.filters) == (("pk",), "parts", BY_KIND)
    assert partner.provider.via == Match(("pk",), parts)
    assert provider.depth == 1


@pytest.mark.parametrize(
    "where",
    [
        "l.pk NOT IN (SELECT pk FROM parts WHERE kind = 'b')",
        "l.pk IN (SELECT pk FROM parts WHERE kind = 'b' UNION ALL SELECT sk FROM suppliers)",
        "(l.qty > 3 OR l.pk IN (SELECT pk FROM parts WHERE kind = 'b'))",
        "l.pk + 0 IN (SELECT pk FROM parts WHERE kind = 'b')",
        "EXISTS (SELECT 1 FROM orders o2 WHERE o2.ok = l.ok AND l.pk IN (SELECT pk FROM parts WHERE kind = 'b'))",
    ],
)
def test_a_row_may_matter_whatever_other_queries_find(where):
    found = asked(f"SELECT l.qty, o.ck FROM lines l, orders o WHERE l.ok = o.ok AND {where}", "lines")
    assert not any(p.partners for providers in found.values() for p in providers)


def test_what_an_outer_join_adds_restricts_nothing():
    sql = (
        "SELECT l.qty, o.ck, p.kind FROM lines l JOIN orders o ON l.ok = o.ok "
        "LEFT JOIN parts p ON l.pk = p.pk AND p.kind = 'b'"
    )
    assert not any(p.partners for providers in asked(sql, "lines").values() for p in providers)


def test_what_is_not_far_larger_does_not_wait_for_partners():
    sql = "SELECT l.qty, s.nk FROM lines l, suppliers s, orders o WHERE l.sk = s.sk AND l.ok = o.ok AND o.ck = 3"
    assert not any(p.partners for p in asked(sql, "lines")["suppliers"])


def test_long_chains_of_joins_with_filters_are_walked_in_no_time():
    """Each relation is reached by the one before, whose partners are restricted by where they came from."""
    number = 40
    sizes = {f"f{i}": 10**7 for i in range(number)} | {f"d{i}": 10**4 for i in range(number)}
    relations = {n: Relation(n, "source", (Column("k", "int"), Column("m", "int")), ("k",)) for n in sizes}
    items = ", ".join(sizes)
    facts_joined = [f"f{i}.m = f{i + 1}.k" for i in range(number - 1)]
    filtered = [f"f{i}.k = d{i}.k AND d{i}.m = 1" for i in range(number)]
    sql = f"SELECT f0.k FROM {items} WHERE {' AND '.join(facts_joined + filtered)}"
    (unit,) = parse_view("v", sql, relations, DuckAnalyzer()).units
    facts = {n: Facts(r, sizes[n]) for n, r in relations.items()}
    requests = Requests()
    for branch in unit.core.branches:
        for term in delta_terms(branch, frozenset({"f0"})):
            walk_term(term, facts, requests)
    matches = [m for of in requests.matches.values() for m in of]
    assert len(matches) == 2 * number - 1
    assert sum(1 for m in matches if m.provider.partners) >= 3
    # What sorts and tells them apart writes them out.
    assert max(len(repr(m)) for m in matches) < 100_000


def test_groups_wait_for_small_relations_only():
    sql = (
        "SELECT l.pk, max(l.qty) AS m FROM lines l, suppliers s, nations n, parts p "
        "WHERE l.sk = s.sk AND s.nk = n.nk AND n.label = 'x' AND l.pk = p.pk AND p.kind = 'b' GROUP BY l.pk"
    )
    # An empty relation is waited for as little as a large one.
    for sizes in (ROWS, {**ROWS, "parts": 0}):
        providers = asked(sql, "suppliers", sizes)["v"]
        assert {p.relation for p in providers} == {"lines"}
        assert not any(p.partners for p in providers)


VIEWS = {
    "joined": (
        "SELECT l.qty, o.ck, s.sk, n.label FROM lines l, orders o, suppliers s, nations n, parts p WHERE l.ok = o.ok "
        "AND l.sk = s.sk AND s.nk = n.nk AND n.label = 'x' AND l.pk = p.pk AND p.kind = 'b'"
    ),
    "by_region": (
        "SELECT n.label, sum(l.qty) AS q, count(*) AS c FROM lines l JOIN suppliers s ON l.sk = s.sk "
        "JOIN nations n ON s.nk = n.nk JOIN regions r ON n.rk = r.rk WHERE r.title = 'y' GROUP BY n.label"
    ),
    "most": (
        "SELECT l.pk, max(l.qty) AS m FROM lines l, suppliers s, nations n, parts p WHERE l.sk = s.sk "
        "AND s.nk = n.nk AND n.label = 'x' AND l.pk = p.pk AND p.kind = 'b' GROUP BY l.pk"
    ),
    "listed": (
        "SELECT s.sk, s.nk FROM suppliers s, nations n WHERE s.nk = n.nk AND n.label = 'x' AND s.sk IN "
        "(SELECT l.sk FROM lines l WHERE l.pk IN (SELECT pk FROM parts WHERE kind = 'b') "
        "AND l.qty > (SELECT sum(k.qty) - 9 FROM lines k WHERE k.pk = l.pk AND k.sk = l.sk))"
    ),
    "twice": (
        "SELECT a.ok, b.qty FROM lines a, lines b, parts p, suppliers s WHERE a.ok = b.ok AND a.pk = p.pk "
        "AND p.kind = 'b' AND b.sk = s.sk AND s.nk IN (1, 2)"
    ),
    "padded": (
        "SELECT o.ok, l.qty, s.nk FROM orders o JOIN parts p ON o.ck = p.pk LEFT JOIN lines l ON l.ok = o.ok "
        "LEFT JOIN suppliers s ON s.sk = l.sk AND s.nk = 1 WHERE p.kind = 'b'"
    ),
    "cycle": (
        "SELECT o.ok, s.sk FROM orders o, lines l, suppliers s, nations n WHERE o.ok = l.ok AND l.sk = s.sk "
        "AND o.ck = s.nk AND s.nk = n.nk AND n.label = 'x'"
    ),
}


def made(name: str, rng: random.Random, number: int) -> pa.Table:
    """Rows whose keys repeat, with NULLs among them."""

    def value(column: str) -> int | str | None:
        if rng.random() < 0.05:
            return None
        if column in TEXTS:
            return rng.choice({"kind": "ab", "label": "xz", "title": "yw"}[column])
        return rng.randrange({"ok": 12, "qty": 9}.get(column, 5))

    columns = [[value(c) for _ in range(number)] for c in COLUMNS[name]]
    types = [pa.string() if c in TEXTS else pa.int64() for c in COLUMNS[name]]
    return pa.table([pa.array(v, t) for v, t in zip(columns, types, strict=True)], names=COLUMNS[name])


@pytest.mark.usefixtures("without_a_jvm")
@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_views_are_what_a_recompute_gives(seed, tmp_path, monkeypatch):
    rng, spark = random.Random(seed), DuckSession()
    numbers = {"lines": 60, "orders": 40, "parts": 8, "suppliers": 8, "nations": 4, "regions": 2}
    for name, number in numbers.items():
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / name), made(name, rng, number), configuration=feed)
    asked_for = []
    find = KeyedReader.find

    def spied(self, columns, keys, *args, **kwargs):
        asked_for.append(sum(k.num_rows for _, k, _ in keys))
        return find(self, columns, keys, *args, **kwargs)

    monkeypatch.setattr(KeyedReader, "find", spied)

    def pipeline(root: str) -> Pipeline:
        # Only nations and regions are small, and read here or by Spark; each unit has slices of its own.
        limits = replace(EMBEDDED, whole_rows=6, shared_rows=-1, native_whole_rows=-1 if seed % 2 else 6)
        pipe = Pipeline("p", spark, tmp_path / root, engine="auto", limits=limits)
        for name in numbers:
            pipe.source(name, str(tmp_path / name))
        for view, sql in VIEWS.items():
            pipe.view(view, sql)
        return pipe

    kept = pipeline("root")
    first = kept.refresh()
    assert first.ok, {v: r.error for v, r in first.views.items()}
    for epoch in range(4):
        for name in rng.sample(sorted(numbers), rng.randrange(1, 4)):
            column = COLUMNS[name][0]
            DeltaTable(str(tmp_path / name)).delete(f"{column} = {rng.randrange(5)}")
            write_deltalake(str(tmp_path / name), made(name, rng, rng.randrange(3)), mode="append")
        report = kept.refresh()
        assert report.ok, {v: r.error for v, r in report.views.items()}
        assert {str(r.strategy) for r in report.views.values()} <= {"incremental", "unchanged"}
        again = pipeline(f"again{epoch}")
        assert again.refresh().ok
        for view in VIEWS:
            one, other = (native.table(f"{p.root}/{view}").to_pyarrow_table().to_pylist() for p in (kept, again))
            assert Counter(map(str, one)) == Counter(map(str, other)), view
    assert asked_for
