"""The guard against another resolution: what sqlglot took each name for must be what Spark takes it for.

The statement whose columns are qualified is printed, and Spark optimizes it and the user's own text, over tables of
typed NULLs: their plans must be one. Where the round trip (`ivm.sql.round_trip`) compares what was parsed before any
name was looked up, this one compares columns, aliases, stars and joins by USING.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from ivm.names import RESERVED_PREFIX
from ivm.plan.nodes import Column, Relation
from ivm.sql.analyzer import Analyzer
from ivm.sql.dialect import IvmSpark, function_name
from ivm.sql.recursion import has_set_recursion, reads_itself, union_all
from ivm.sql.refusals import UnsupportedError
from ivm.sql.render import rows_of_nulls
from ivm.sql.text import splice


def check_resolved(
    written: exp.Expression, tree: exp.Expression, relations: Mapping[str, Relation], analyzer: Analyzer
) -> None:
    """Raises UnsupportedError where Spark makes another plan of the qualified tree than of what was written.

    That is taken as it was parsed, which the round trip has found to be what the user's text means. Of a recursive WITH
    each entry is compared by itself, reading those before it, and itself, as tables.
    """
    tables = {name: _table(r.columns, number) for number, (name, r) in enumerate(relations.items())}
    # Spark knows no recursion of sets: there the text that it was asked of before has bags, too.
    printed = union_all if has_set_recursion(tree) else str
    for mine, theirs, known in _parts(written, tree, tables, analyzer):
        read = _plainly(_comparable(theirs))
        one, other = (printed(t.sql(dialect=IvmSpark, comments=False)) for t in (_comparable(mine), _apart(read)))
        if not analyzer.alike(splice(one, known), splice(other, known)):
            told = read.sql(dialect=IvmSpark, comments=False)
            raise UnsupportedError("round_trip", "its columns resolved it reads: " + told[:300])


def _table(columns: Sequence[Column], number: int) -> str:
    return rows_of_nulls(columns, 2 + number)


def _parts(
    written: exp.Expression, tree: exp.Expression, tables: dict[str, str], analyzer: Analyzer
) -> Iterator[tuple[exp.Expression, exp.Expression, dict[str, str]]]:
    """What is compared, in pairs, and the tables that it reads."""
    entries, others = (t.args["with_"].expressions if t.args.get("with_") else [] for t in (written, tree))
    if not entries or not written.args["with_"].args.get("recursive"):
        yield written, tree, tables
        return
    if len(entries) != len(others):
        raise UnsupportedError("round_trip", "its WITH clause")
    known = dict(tables)
    for i, (mine, theirs) in enumerate(zip(entries, others, strict=True)):
        whole = exp.select("*").from_(exp.to_table(mine.alias, quoted=True))
        with_ = written.args["with_"].copy()
        with_.set("expressions", with_.expressions[: i + 1])
        whole.set("with_", with_)
        columns = analyzer.schema(splice(whole.sql(dialect=IvmSpark, comments=False), tables))
        before = dict(known)
        known[mine.alias.lower()] = _table(columns, len(known))
        yield mine.this, theirs.this, known if reads_itself(mine) else before
    mine, theirs = written.copy(), tree.copy()
    for body in (mine, theirs):
        body.set("with_", None)
    yield mine, theirs, known


def _comparable(tree: exp.Expression) -> exp.Expression:
    """A copy without what Spark plans by chance, or in two ways, though it means the same.

    >>> from sqlglot import parse_one
    >>> _comparable(parse_one("SELECT count(DISTINCT a), sum(DISTINCT b) FROM t, u")).sql()
    'SELECT COUNT(a), SUM(b) FROM t, u'
    """
    copy = tree.copy()
    for select in copy.find_all(exp.Select):
        select.set("hint", None)  # which names tables by their aliases
    for join in copy.find_all(exp.Join):
        if join.args.get("kind") == "CROSS" and "pivots" not in join.args:
            join.set("kind", None)  # a comma
    for distinct in list(copy.find_all(exp.Distinct)):
        if distinct.expressions and not isinstance(distinct.parent, exp.Select):
            # Of several, Spark computes one after another in an order of its own.
            values = distinct.expressions
            if distinct.index is not None:
                distinct.replace(values)
            else:
                distinct.replace(values[0] if len(values) == 1 else exp.Tuple(expressions=values))
    return copy


def _apart(tree: exp.Expression) -> exp.Expression:
    """The qualified tree with table aliases that no column can be called by.

    A column of a table outside could be read as a field of a column inside otherwise, by us as by Spark.

    >>> from sqlglot import parse_one
    >>> _apart(parse_one("SELECT a.k FROM t AS a WHERE EXISTS(SELECT 1 FROM u AS b WHERE a.k = b.k)")).sql()
    'SELECT __ivm_a.k FROM t AS __ivm_a WHERE EXISTS(SELECT 1 FROM u AS __ivm_b WHERE __ivm_a.k = __ivm_b.k)'
    """
    tree = tree.copy()
    for node in tree.find_all(exp.Table, exp.Subquery, exp.Lateral, exp.Values, exp.Unnest, exp.Pivot, exp.Column):
        alias = node.args.get("alias")
        named = node.args.get("table") if isinstance(node, exp.Column) else alias.this if alias is not None else None
        if isinstance(named, exp.Identifier):
            named.set("this", f"{RESERVED_PREFIX}_{named.name}")
    return tree


def _plainly(tree: exp.Expression) -> exp.Expression:
    """The tree without what Spark plans otherwise, though it means the same.

    >>> from sqlglot import parse_one
    >>> rank = "rank() OVER (ORDER BY t.a)"
    >>> query = parse_one(f"SELECT t.a AS a, {rank} AS r FROM t QUALIFY {rank} = 1")
    >>> _plainly(query).sql()
    'SELECT t.a, RANK() OVER (ORDER BY t.a) AS r FROM t QUALIFY r = 1'
    """
    copy = tree.copy()
    _with_lists(copy)
    for select in copy.find_all(exp.Select):
        group = select.args.get("group")
        for call in [key for key in (group.expressions if group else ()) if function_name(key) == "window"]:
            for other in [n for n in select.find_all(exp.Anonymous) if n == call and n.parent is not group]:
                other.replace(exp.column("window"))
        qualify = select.args.get("qualify")
        aliases = {
            e.this.sql(): e.alias for e in select.expressions if isinstance(e, exp.Alias) and e.this.find(exp.Window)
        }
        for node in list(qualify.find_all(exp.Expression)) if qualify is not None and aliases else []:
            if (alias := aliases.get(node.sql())) and not isinstance(node.parent, exp.Window):
                node.replace(exp.column(exp.to_identifier(alias)))
        for e in list(select.expressions):
            if isinstance(e, exp.Alias) and (e.alias.startswith("_col_") or _is_called(e.this, e.alias)):
                e.replace(e.this.copy())
    return copy


def _with_lists(tree: exp.Expression) -> None:
    """Put names that a list gives a query's columns, which sqlglot has put into it, into a list again.

    Spark plans the two otherwise where there are windows. A query that may name its own columns is left alone.
    """
    for item in tree.find_all(exp.Subquery, exp.CTE):
        select = item.this
        if not isinstance(select, exp.Select) or any(select.args.get(k) for k in _NAMING) or not item.alias:
            continue
        renamed = [e for e in select.expressions if isinstance(e, exp.Alias) and isinstance(e.this, exp.Column)]
        names = [e.alias_or_name for e in select.expressions]
        if renamed and all(names) and select.find(exp.Window) and not item.alias_column_names:
            item.args["alias"].set("columns", [exp.to_identifier(name) for name in names])
            for e in renamed:
                e.replace(e.this.copy())


#: Clauses that may name what the select list gives.
_NAMING = ("order", "sort", "cluster", "distribute", "group", "having", "qualify", "limit", "offset", "distinct")


def _is_called(node: exp.Expression, alias: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == alias.lower()
