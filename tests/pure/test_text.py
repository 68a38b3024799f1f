"""Text with places for leaves: no literal, name or alias is a place, whatever it reads, and a place is nothing else."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from ivm.compile.passes import parse_view
from ivm.names import ident, literal
from ivm.plan.nodes import Branch, Expr, Leaf, PlanError, Program, Text
from ivm.refresh.records import from_json, program_json
from ivm.sql.blocks import Block, leaf_column, leaf_item
from ivm.sql.dialect import IvmSpark
from ivm.sql.freeze import to_branch
from ivm.sql.render import branch_sql, unit_sql
from tests.pure.duck import DuckAnalyzer
from tests.pure.test_compile import ORDERS, RELATIONS

#: Words that look like what we, or an earlier version of us, could write for a leaf, among any others.
_MARKS = st.sampled_from(["⟦", "⟧", "\ue000", "\ue001", "0", "u", "`", "'", "\\", "--", "/*", "*/", "{", "}", "%s"])
WORDS = st.lists(_MARKS | st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"])).map("".join)
NAMES = WORDS.filter(lambda w: w != "" and not w.isspace())


def as_leaves(node: exp.Expression) -> exp.Expression:
    """As the compiler leaves tables and columns in a block."""
    if isinstance(node, exp.Table):
        return leaf_item(node.alias, node.name).this
    return leaf_column(node.table, node.name) if isinstance(node, exp.Column) else node


@given(value=WORDS, column=NAMES, alias=NAMES)
def test_only_tables_are_replaced(value, column, alias):
    subquery = (
        f"(SELECT max({ident(alias)}.ok) FROM orders AS {ident(alias)} WHERE {ident(alias)}.day <> {literal(value)})"
    )
    tree = sqlglot.parse_one(f"SELECT {literal(value)} AS {ident(column)}, {subquery} AS m", read=IvmSpark)
    tree = tree.transform(as_leaves)
    block = Block(
        [leaf_item("o", "orders")], [], [(column, tree.selects[0].unalias()), ("m", tree.selects[1].unalias())]
    )
    branch = to_branch(block, {"orders": ORDERS})
    assert [o.expr.text.leaves for o in branch.outputs] == [(), (alias,)]
    read = sqlglot.parse_one(branch_sql(branch, lambda leaf: f"`read {leaf.scope}`"), read=IvmSpark)
    assert [t.name for t in read.find_all(exp.Table)] == ["read 0", "read 1"]
    assert {t.alias for t in read.find_all(exp.Table)} == {"o", alias}
    assert read.selects[0].alias == column
    assert {s.this for s in read.find_all(exp.Literal) if s.is_string} == {value}


@given(value=WORDS)
def test_the_literals_of_a_program_are_the_views(value):
    sql = (
        f"SELECT o.ok, {literal(value)} AS mark "
        f"FROM orders AS o LEFT JOIN lines AS `⟦o⟧` ON `⟦o⟧`.ok = o.ok AND {literal(value)} <> ''"
    )
    program = parse_view("v", sql, dict(RELATIONS), DuckAnalyzer())
    assert from_json(Program, program_json(program)) == program
    (unit,) = program.units
    read = sqlglot.parse_one(unit_sql(unit, lambda leaf: f"`all of {leaf.relation}`"), read=IvmSpark)
    assert [t.name for t in read.find_all(exp.Table)] == ["all of orders", "all of lines"]
    assert [s.this for s in read.find_all(exp.Literal) if s.is_string and s.this != ""] == (
        [value, value] if value else []
    )


@given(one=st.lists(st.text(), min_size=1), other=st.lists(st.text(), min_size=1))
def test_texts_join_as_what_they_are_filled_with(one, other):
    texts = [Text(tuple(p if len(p) % 2 else [*p, ""])) for p in (one, other)]
    assert (texts[0] + texts[1]).leaves == texts[0].leaves + texts[1].leaves
    assert (texts[0] + texts[1]).filled(str.upper) == texts[0].filled(str.upper) + texts[1].filled(str.upper)


def test_a_text_without_its_leaf_is_no_branch_and_no_sql():
    lost = Expr(Text.of("EXISTS (SELECT 1 FROM ") + Text.leaf("u") + Text.of(" AS `u`)"))
    with pytest.raises(PlanError, match=r"no leaves \['u'\]"):
        Branch((Leaf("a", "orders", ("ok",)),), (lost,), ())
    with pytest.raises(PlanError, match="reads"):
        _ = lost.sql
