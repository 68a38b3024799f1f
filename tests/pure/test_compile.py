"""What the compiler makes of views: strategies, keys, walks, refusals; and plan nodes that can't be built wrong."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from ivm.compile.passes import parse_view
from ivm.errors import ViewError
from ivm.plan.nodes import Branch, Column, Expr, Leaf, Output, PlanError, Program, Relation, Text
from ivm.refresh.records import from_json, program_json
from ivm.rewrite.delta_join import delta_terms
from ivm.rewrite.slices import WHOLE, Facts, Requests, walk_groups, walk_term
from ivm.rewrite.stream_units import with_streams
from ivm.sql.blocks import Block, leaf_column, leaf_item
from ivm.sql.dialect import IvmSpark
from ivm.sql.freeze import to_branch
from ivm.sql.refusals import UnsupportedError, reason_codes
from ivm.sql.render import core_sql, unit_sql
from ivm.sql.text import query_tree, splice
from ivm.sql.volatile import volatile
from tests.pure.duck import DuckAnalyzer

CUSTOMER = Relation(
    "customer", "source", (Column("ck", "bigint"), Column("nation", "string"), Column("score", "double")), ("ck",)
)
ORDERS = Relation("orders", "source", (Column("ok", "bigint"), Column("ck", "bigint"), Column("day", "date")), ("ok",))
LINES = Relation("lines", "source", (Column("ok", "bigint"), Column("price", "decimal(15,2)"), Column("n", "int")))
RELATIONS = {r.name: r for r in (CUSTOMER, ORDERS, LINES)}
BIG = 1_000_000


def program(sql: str) -> Program:
    return parse_view("v", sql, dict(RELATIONS), DuckAnalyzer())


def walks(sql: str, changed: set[str]):
    (unit,) = program(sql).units
    facts = {
        n: Facts(r, BIG, ((("ck",), "customer"),) if n == "orders" else ((("ok",), "orders"),) if n == "lines" else ())
        for n, r in RELATIONS.items()
    }
    facts[unit.name] = Facts(Relation(unit.name, "unit", unit.columns), BIG)
    requests = Requests()
    walked = [
        (t, walk_term(t, facts, requests)) for b in unit.core.branches for t in delta_terms(b, frozenset(changed))
    ]
    return unit, walked, facts, requests


JOIN = (
    "SELECT c.nation, sum(l.price) AS s "
    "FROM customer c JOIN orders o ON o.ck = c.ck JOIN lines l ON l.ok = o.ok GROUP BY c.nation"
)


def _levels(reached):
    return {alias: r.level for alias, r in reached.items()}


def walkable(sql: str) -> set[tuple[str, str, str]]:
    """Of each equality that leaves are walked along: the relation it restricts, and the two that it compares."""
    found = set()
    for branch in (b for unit in program(sql).units for b in unit.core.branches):
        for edge in branch.edges:
            for alias, _ in (edge.left, edge.right):
                if branch.leaf(alias).scope == edge.scope:
                    pair = sorted(branch.leaf(a).relation for a, _ in (edge.left, edge.right))
                    found.add((branch.leaf(alias).relation, *pair))
    return found


@pytest.mark.parametrize("nested", [True, False])
def test_an_equality_of_nulls_is_not_walked_from_what_an_outer_join_pads(nested):
    """Without its lines an order would be padded, and its NULL would equal another one."""
    lines = "orders o LEFT JOIN lines l ON l.ok = o.ok"
    padded = f"(SELECT o.ok, l.n FROM {lines}) x" if nested else ""
    joined = (
        f"customer c LEFT JOIN {padded} ON x.ok = c.ck AND x.n {{0}} c.ck"
        if nested
        else f"{lines} LEFT JOIN customer c ON c.ck {{0}} l.n"
    )
    sql = f"SELECT c.nation FROM {joined}"
    assert {"customer", "lines"} in [{a, b} for _, a, b in walkable(sql.format("="))]
    assert {"customer", "lines"} not in [{a, b} for _, a, b in walkable(sql.format("<=>"))]


def test_an_equality_with_a_union_restricts_its_branches_alone():
    """What doesn't match a row of one branch may match one of another."""
    both = "(SELECT ok, ck FROM orders WHERE day > DATE '2024-01-01' UNION ALL SELECT ok, n FROM lines) u"
    found = walkable(
        f"SELECT c.nation, u.ok FROM customer x LEFT JOIN {both} ON u.ok = x.ck LEFT JOIN customer c ON c.ck = u.ck"
    )
    assert not [pair for pair in found if pair[0] == "customer" and pair[1:] != ("customer", "customer")]


def test_a_walk_goes_from_the_delta_along_the_edges():
    _, walked, _, requests = walks(JOIN, {"customer"})
    assert [_levels(reached) for _, reached in walked] == [{"o": 1, "l": 2}]
    assert {(r, level, m.columns, m.provider.relation) for (r, level), ms in requests.matches.items() for m in ms} == {
        ("orders", 1, ("ck",), "customer"),
        ("lines", 2, ("ok",), "orders"),
    }
    assert not requests.whole


def test_requests_of_all_terms_and_views_share_slices():
    _, _, _, requests = walks(JOIN, {"customer", "orders", "lines"})
    assert set(requests.matches) == {("orders", 1), ("lines", 2), ("lines", 1), ("customer", 1), ("customer", 2)}


def test_leaves_without_an_edge_are_read_whole():
    _, walked, _, requests = walks("SELECT o.ok, l.n FROM orders o JOIN lines l ON l.n < o.ok", {"orders"})
    assert _levels(walked[0][1]) == {"l": WHOLE}
    assert requests.whole == {"lines"}


def test_floating_keys_are_not_walked():
    _, walked, _, _ = walks("SELECT a.ck FROM customer a JOIN customer b ON a.score = b.score", {"customer"})
    assert [_levels(reached) for _, reached in walked] == [{"b": WHOLE}, {"a": WHOLE}]


def test_affected_groups_are_read_by_their_keys_with_nulls():
    unit, walked, facts, requests = walks(
        "SELECT o.ck, max(l.price) AS m FROM orders o JOIN lines l ON l.ok = o.ok GROUP BY o.ck", {"lines"}
    )
    levels, own = walk_groups(unit, walked, facts, requests)
    assert tuple(map(_levels, levels)) == ({"o": 2, "l": 3},)
    assert own == 2
    assert all(m.nulls for m in requests.matches["v", 2])


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT ok, day FROM orders", ("ok",)),
        ("SELECT o.ok, c.nation FROM orders o JOIN customer c ON c.ck = o.ck", ("ok",)),
        ("SELECT day FROM orders", ()),
        ("SELECT nation, count(*) AS n FROM customer GROUP BY nation", ("nation",)),
        ("SELECT count(*) AS n FROM customer GROUP BY nation", ()),
        ("SELECT ok FROM orders UNION ALL SELECT ck FROM customer", ()),
    ],
)
def test_keys_of_views(sql, key):
    assert program(sql).units[-1].key == key


@pytest.mark.parametrize(
    ("sql", "units"),
    [
        ("SELECT ck FROM orders", ["v"]),
        ("SELECT day, max(ok) AS m FROM orders GROUP BY day", ["v"]),
        ("SELECT max(ok) AS m FROM orders GROUP BY day", ["v__1", "v"]),
        ("SELECT count(*) AS n FROM (SELECT DISTINCT ck FROM orders) x", ["v__1", "v"]),
        (
            (
                "SELECT a.n + b.n AS n FROM (SELECT day, count(*) AS n FROM orders GROUP BY day) a "
                "JOIN (SELECT day, sum(ck) AS n FROM orders GROUP BY day) b ON a.day = b.day"
            ),
            ["v__1", "v__2", "v"],
        ),
    ],
)
def test_groupings_become_units_and_the_last_is_fused(sql, units):
    assert [u.name for u in program(sql).units] == units


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT ok FROM orders TABLESAMPLE (10 PERCENT)", "nondeterministic"),
        ("SELECT 1 AS one", "no_source"),
        ("SELECT ok, rand() AS r FROM orders", "nondeterministic"),
        (
            "SELECT c.ck FROM customer c WHERE c.ck IN "
            "((SELECT o.ok FROM orders o WHERE o.ck = c.ck) ORDER BY 1 LIMIT 1)",
            "clause",
        ),
    ],
)
def test_what_is_refused_has_a_code_a_sentence_and_a_mend(sql, code):
    compiled = program(sql)
    assert [r.code for r in compiled.refusals] == [code]
    assert compiled.refusals[0].reason
    assert compiled.refusals[0].mend
    assert compiled.units == ()


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("SELECT ok, user AS u FROM orders", True),
        ("SELECT ck, CURRENT_USER AS u FROM customer", True),
        ("SELECT user FROM people", False),
        ("SELECT p.user, p.`current_time` FROM people AS p", False),
        ("SELECT user FROM people WHERE day < current_date", True),
        ("SELECT ok, unix_timestamp() AS t FROM orders", True),
        ("SELECT aes_encrypt(nation, 'key') AS e FROM customer", True),
        ("SELECT aes_encrypt(nation, 'key', 'GCM', 'NONE') AS e FROM customer", True),
        ("SELECT kll_sketch_agg_bigint(ck) AS s FROM customer", True),
    ],
)
def test_what_the_session_or_the_time_decides_is_not_deterministic(sql, changes):
    people = Relation(
        "people", "source", (Column("user", "string"), Column("current_time", "string"), Column("day", "date"))
    )
    assert (volatile(query_tree(sql), {"people": people} if "people" in sql else {}) is not None) == changes


def test_order_by_is_ignored_for_storage():
    assert program("SELECT ok FROM orders ORDER BY ok DESC").incremental


def test_float_sums_are_not_accumulated_and_integer_sums_are():
    assert not program("SELECT nation, sum(score) AS s FROM customer GROUP BY nation").units[0].reduce.linear
    assert program("SELECT nation, sum(ck) AS s, avg(ck) AS a FROM customer GROUP BY nation").units[0].reduce.linear


def test_unknown_tables_are_named():
    with pytest.raises(ViewError, match=r"It reads nowhere, somewhere.*There are: customer, lines, orders"):
        program("SELECT * FROM nowhere, somewhere")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k FROM @t", "no name of a table"),
        ("SELECT k FROM {0}t", "no name of a table"),
        ("SELECT * FROM (" * 600 + "SELECT ok FROM orders" + ") q" * 600, "nests too deeply"),
    ],
)
def test_what_the_parser_stumbles_over_is_refused(sql, message):
    with pytest.raises(ViewError, match=message):
        program(sql)


def test_splice_leaves_all_else_alone():
    sql = "WITH orders AS (SELECT * FROM lines /* lines */) SELECT 'lines', l.n FROM orders l, lines WHERE lines.n = 1"
    assert splice(sql, {"lines": "X"}) == (
        "WITH orders AS (SELECT * FROM X AS `lines` /* lines */) "
        "SELECT 'lines', l.n FROM orders l, X AS `lines` WHERE lines.n = 1"
    )


def test_programs_survive_being_stored():
    for sql in (
        JOIN,
        "SELECT DISTINCT ck FROM orders UNION ALL SELECT n FROM lines",
        "SELECT ok, rand() AS r FROM orders",
    ):
        compiled = program(sql)
        assert from_json(Program, program_json(compiled)) == compiled


def test_reason_codes_are_distinct():
    codes = [r.code for r in reason_codes()]
    assert len(set(codes)) == len(codes)


def test_a_branch_can_not_read_what_no_leaf_has():
    with pytest.raises(PlanError, match="which no leaf has"):
        Branch(
            (Leaf("a", "orders", ("ok",)),), (), (Output("x", Expr(Text.of("`a`.`day`"), frozenset({("a", "day")}))),)
        )
    with pytest.raises(PlanError, match="aliases repeat"):
        Branch((Leaf("a", "orders", ()), Leaf("a", "lines", ())), (), ())


COUNTS = "(SELECT ck, count(*) AS n FROM orders GROUP BY ck)"


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        (f"SELECT n, count(*) AS m FROM {COUNTS} GROUP BY n", False),
        (f"SELECT n + 1 AS m FROM {COUNTS} WHERE n > 2 UNION ALL SELECT n FROM lines", False),
        (f"SELECT c.nation, sum(n) AS m FROM {COUNTS} k JOIN customer c ON c.ck = k.ck GROUP BY c.nation", True),
        (f"SELECT max(n) AS m FROM {COUNTS}", True),
        (f"SELECT ck FROM customer WHERE score > (SELECT avg(n) FROM {COUNTS})", False),
    ],
)
def test_counts_are_arranged_where_someone_looks_them_up(sql, kept):
    units = with_streams(program(sql)).units
    counts = next(u for u in units[:-1] if u.reads == ("orders",))
    assert counts.arranged is kept
    assert units[-1].arranged


def test_only_the_padded_side_is_restricted_by_its_on():
    unit = program(
        "SELECT c.ck, o.ok FROM customer c LEFT JOIN orders o ON o.ck = c.ck AND c.ck > 5 AND o.ok > 1 WHERE c.ck < 9"
    ).units[-1]
    filters = {leaf.relation: [(f.column, f.op) for f in leaf.filters] for leaf in unit.core.branches[0].leaves}
    assert filters == {"customer": [("ck", "<")], "orders": [("ok", ">")]}


def test_a_grouping_that_is_fused_with_what_reads_it_stays_for_others():
    """A chain that grows is cut into units; the first of them took the grouping from under a later reader."""
    entries = ["w AS (SELECT ck, count(*) AS n FROM orders GROUP BY ck)"]
    for i in range(12):
        entries.append(f"v{i} AS (SELECT ck, n * n - n * n + n AS n FROM {f'v{i - 1}' if i else 'w'})")
    made = program(f"WITH {', '.join(entries)} SELECT v11.ck, v11.n, w.n AS m FROM v11 JOIN w ON w.ck = v11.ck")
    assert not made.refusals
    known = set(RELATIONS)
    for unit in made.units:
        assert set(unit.core.relations) <= known
        known.add(unit.name)


class Named(DuckAnalyzer):
    """Says of each column that a statement names that it is an int: for statements that DuckDB can't run."""

    def schema(self, sql):
        return tuple(Column(name, "int") for name in parse_one(sql, read=IvmSpark).named_selects)


def on_spark(sql: str) -> Program:
    return parse_view("v", sql, dict(RELATIONS), Named())


ENTRY = "WITH lines AS (SELECT ok, n + 100 AS n FROM lines) "
LATERAL = (
    "SELECT o.ok, l.ck FROM orders o LEFT JOIN LATERAL (SELECT c.ck FROM customer c WHERE c.ck = o.ck) l ON l.ck > "
)


@pytest.mark.parametrize(
    "sql",
    [
        f"{ENTRY}SELECT o.ok, t.e FROM orders o LATERAL VIEW explode(array((SELECT max(lines.n) FROM lines))) t AS e",
        f"{ENTRY}SELECT o.ok, explode(array((SELECT max(lines.n) FROM lines))) AS e FROM orders o",
        f"{ENTRY}{LATERAL} (SELECT max(lines.n) FROM lines)",
        f"{LATERAL} (SELECT max(o.n + 100) FROM lines AS o)",
    ],
    ids=["generator", "generator of a select list", "ON", "ON, an outer table's name"],
)
def test_a_subquery_of_a_lateral_item_reads_what_its_names_mean(sql):
    """They went into the block as they were: an entry of WITH was the source called so, or another leaf was theirs."""
    inner, view = on_spark(sql).units
    assert "+ 100" in unit_sql(inner, lambda leaf: leaf.relation)
    assert [leaf.relation for leaf in inner.core.branches[0].leaves] == ["lines"]
    relations = {leaf.relation for leaf in view.core.branches[0].leaves}
    assert relations == {"orders", inner.name} | ({"customer"} if LATERAL in sql else set())


@pytest.mark.parametrize("how", ["LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_an_on_inside_a_subquery_reads_the_outer_table_that_it_names(how):
    """It is the nearest of the two that are called o, whose leaf is o_2: the other's column was read in its place."""
    inmost = f"SELECT 1 FROM orders i {how} customer c ON c.ck = o.ok WHERE i.ok = o.n"
    inner = f"SELECT 1 FROM lines o WHERE o.n = x.ck AND EXISTS ({inmost})"
    (view,) = on_spark(f"SELECT o.ok FROM orders o, customer x WHERE EXISTS ({inner})").units
    (alias,) = (leaf.alias for leaf in view.core.branches[0].leaves if leaf.relation == "lines")
    assert alias == "o_2"
    assert f"`.`ck` = `{alias}`.`ok`" in core_sql(view.core, lambda leaf: leaf.relation)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT o.ok, t.e FROM orders o, explode(array((SELECT max(n) FROM lines))) t(e)", "a table function"),
        (
            "SELECT ok FROM orders UNION ALL SELECT n FROM lines ORDER BY (SELECT max(ck) FROM customer) LIMIT 3",
            "LIMIT",
        ),
        (
            "SELECT p.one FROM (SELECT ck, n FROM lines, orders) "
            "PIVOT (max(n + (SELECT max(ok) FROM orders)) FOR ck IN (1 AS one, 2 AS two)) p",
            "PIVOT with a subquery",
        ),
        (
            "SELECT (WITH w AS (SELECT n FROM lines l WHERE l.ok = o.ok) SELECT max(w.n) FROM w) AS m FROM orders o",
            "WITH of a query",
        ),
    ],
)
def test_a_subquery_that_is_not_compiled_is_refused(sql, reason):
    (refusal,) = on_spark(sql).refusals
    assert (refusal.code, refusal.reason[: len(reason)]) == ("clause", reason)


@pytest.mark.parametrize(
    "block",
    [
        Block([leaf_item("o", "orders")], [parse_one("EXISTS (SELECT 1 FROM lines AS l)")]),
        Block([leaf_item("o", "orders")], [parse_one("o.ok = 1")]),
        Block([leaf_item("o", "orders"), leaf_item("o", "lines")]),
        Block(
            [leaf_item("o", "orders")],
            [exp.Exists(this=exp.select("1").from_(leaf_item("o", "orders").this))],
        ),
    ],
    ids=["a table", "a column", "two tables of one alias", "an inner table of one alias"],
)
def test_a_block_that_is_not_in_terms_of_its_own_leaves_is_refused(block):
    """Names that are left as written can be those of a leaf, which would be read in their place."""
    with pytest.raises(UnsupportedError):
        to_branch(block.with_outs([("x", leaf_column("o", "ok"))]), dict(RELATIONS))


#: Spark pads its column `code`.
CODED = Relation(
    "coded",
    "source",
    (Column("id", "int"), Column("code", "string")),
    padded=(Column("code", "char(4)"),),
)
NAMED_IN_A_LIST = "WITH {rec}r(a, b) AS (SELECT {one} FROM coded {more}) SELECT a, b FROM r WHERE {where}"


@pytest.mark.parametrize(
    ("one", "more", "where", "padded"),
    [
        ("id, id", "", "b = 3", False),
        ("id, code", "", "a = 3", False),
        ("id, code", "", "b = 'x'", True),
        ("id, code AS c", "", "b = 'x'", True),
        ("id, rtrim(code)", "", "b = 'x'", False),
        ("*", "", "b = 'x'", True),
        ("id, 'x'", "UNION ALL SELECT id, code FROM coded", "b = 'x'", True),
        ("id, id", "UNION ALL SELECT a + 1, b FROM r WHERE a < 5", "a = 3", False),
        ("id, code", "UNION ALL SELECT a + 1, b FROM r WHERE a < 5", "a = 3", False),
        ("id, 'x'", "UNION ALL SELECT c.id, c.code FROM r JOIN coded c ON c.id = r.a + 1", "b = 'x'", True),
    ],
)
def test_names_in_a_list_are_followed_to_char_columns_by_their_places(one, more, where, padded):
    sql = NAMED_IN_A_LIST.format(one=one, more=more, where=where, rec="RECURSIVE " if " r " in more else "")
    refusals = parse_view("v", sql, {"coded": CODED}, DuckAnalyzer()).refusals
    assert ("padded" in {r.code for r in refusals}) is padded
