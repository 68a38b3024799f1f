"""Normal form: a qualified tree to the units of a program (pure)."""

from __future__ import annotations

from sqlglot import exp

from ivm.compile.given import Given
from ivm.compile.queries.compiler import Compiler
from ivm.errors import ViewError
from ivm.plan.nodes import Program
from ivm.sql.refusals import UnsupportedError
from ivm.sql.temporal import as_relations


def normal_form(tree: exp.Expression, given: Given) -> Program:
    """The program that a qualified statement compiles to. Raises UnsupportedError for what has no delta rule.

    >>> from types import SimpleNamespace
    >>> from ivm.compile.given import Asked, given
    >>> from ivm.plan.nodes import Column, Relation
    >>> engine = SimpleNamespace(schema=lambda sql: (Column("x", "int"),), scalar=lambda expressions, from_sql: None)
    >>> asked = Asked("v", {"t": Relation("t", "source", (Column("a", "int"),))}, engine)
    >>> known = given(asked, "SELECT t.a AS x FROM t", "SELECT t.a AS x FROM t")
    >>> (unit,) = normal_form(known.tree, known).units
    >>> unit.name, [leaf.relation for leaf in unit.core.branches[0].leaves], unit.columns
    ('v', ['t'], (Column(name='x', type='int'),))
    """
    tree, clocks = as_relations(tree, given.analyzer)
    # Of no other relation may a program depend: it is kept for all pipelines that read these.
    relations = {n: given.relations[n] for n in given.reads} | {c.name: c.relation for c in clocks}
    compiler = Compiler(given.view, relations, given.analyzer)
    try:
        units = compiler.program(tree.copy(), given.columns)
    except (ViewError, UnsupportedError):
        compiler = Compiler(given.view, relations, given.analyzer, apart=True)
        units = compiler.program(tree, given.columns)
    rules = tuple(sorted(compiler.units.rules | ({given.beyond} if given.beyond else set())))
    return Program(given.view, given.columns, given.reads, units, (), True, rules, given.functions, clocks)
