"""A view's SQL to its program: sqlglot parses and qualifies, this module brings it to normal form.

Invariant: the program's columns are exactly Spark's own columns of the view (names and types), and
the statement that sqlglot understood means to Spark what the user wrote; else the view is refused.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from ivm.errors import ViewError
from ivm.plan.nodes import Column, PlanError, Program, Refusal, Relation, Unit
from ivm.sql.analyzer import Analyzer
from ivm.sql.compiler import Compiler
from ivm.sql.dialect import AGGREGATES, IvmSpark, function_name
from ivm.sql.expand import with_function_columns, with_generated_names, with_struct_fields, with_time_windows
from ivm.sql.functions import definitions, own_functions, volatile_function
from ivm.sql.mutual import merged
from ivm.sql.padding import compares_padded
from ivm.sql.recursion import has_set_recursion, union_all
from ivm.sql.render import typed_nulls
from ivm.sql.round_trip import check_round_trip
from ivm.sql.rules import MUTUAL_RECURSION, SET_RECURSION
from ivm.sql.support import UnsupportedError, refusal
from ivm.sql.text import first_line, query_tree, relation_tables, splice
from ivm.sql.volatile import MARKED_WORD, time_words, volatile, with_marked_words


def parse_view(view: str, sql: str, relations: dict[str, Relation], analyzer: Analyzer) -> Program:
    """Compile a view over `relations` (by lower-case name).

    Raises ViewError for unknown tables, for what the engine itself refuses, and for output columns that can't
    be stored. What can't be maintained is not an error: the program then has refusals and no units.
    """
    nulls = {name: typed_nulls(r.columns) for name, r in relations.items()}
    written, sql = sql, merged(sql, {n: r.columns for n, r in relations.items()}, analyzer.schema)
    tree = query_tree(sql)
    as_set = has_set_recursion(tree)
    beyond = MUTUAL_RECURSION if sql != written else SET_RECURSION if as_set else None
    tables = relation_tables(sql)
    unknown = sorted({name for name, *_ in tables if name.lower() not in relations})
    if unknown:
        raise ViewError(
            f"It reads {', '.join(unknown)}, which is neither a source nor a view of this pipeline.",
            f"There are: {', '.join(sorted(r.name for r in relations.values())) or 'none yet'}.",
        )
    # Spark refuses UNION in a recursion; the columns are those of UNION ALL.
    sql = union_all(sql) if as_set else sql
    columns = analyzer.schema(splice(sql, nulls))
    _check_storable(columns)
    reads = tuple(dict.fromkeys(name.lower() for name, *_ in tables))

    def refused(why: Refusal) -> Program:
        """The view refreshed in full by Spark, if Spark can run it."""
        if beyond:
            raise ViewError(f"{beyond}, and {why.reason}.", why.mend)
        return Program(
            view, columns, reads, refusals=(why,), deterministic=why.code != "nondeterministic", functions=functions
        )

    called = own_functions(tree, analyzer)
    functions = definitions(called)
    chance = volatile(tree, relations) or volatile_function(called) or _chance(sql, nulls, analyzer)
    if chance:
        return refused(refusal("nondeterministic", chance))
    padded = {c.name: c.type for name in reads for c in relations[name].padded}
    if padded and compares_padded(tree, padded):
        return refused(refusal("padded", ", ".join(f"{c} ({t})" for c, t in padded.items())))
    try:
        if any(function_name(f) == "session_window" for f in tree.find_all(exp.Anonymous)):
            raise UnsupportedError("clause", "session_window(), whose windows grow with the rows beside them,")
        check_round_trip(sql, query_tree(sql), relations, analyzer)
        tree = with_time_windows(tree.transform(_with_field_names))
        for expanded in (with_function_columns, with_struct_fields, with_generated_names):
            tree = expanded(tree, lambda probe: analyzer.schema(splice(probe, nulls)))
        tree = _with_aggregates(tree, analyzer)
        compiler = Compiler(view, relations, analyzer)
        try:
            units = compiler.program(_qualified(tree, relations), columns)
        except (ViewError, UnsupportedError):
            compiler = Compiler(view, relations, analyzer, apart=True)
            units = compiler.program(_qualified(tree, relations), columns)
    except UnsupportedError as unsupported:
        return refused(unsupported.refusal)
    except (PlanError, ViewError) as error:
        # What we made of the query, Spark or the plan's own rules refuse: then the query itself is what is run.
        return refused(refusal("compiled", first_line(error)))
    except Exception as error:  # noqa: BLE001 - a defect of the compiler must not keep a view from being refreshed
        return refused(refusal("defect", f"{type(error).__name__}: {first_line(error)}"))
    if variants := _variants(units, relations):
        return refused(refusal("variant", ", ".join(variants)))
    rules = tuple(sorted(compiler.units.rules | ({beyond} if beyond else set())))
    return Program(view, columns, reads, units=units, rules=rules, functions=functions)


def _check_storable(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ViewError(f"It has two columns named {column.name!r}.", "Give one of them an alias with AS.")
        seen.add(column.name.lower())
        if set(column.name) & set(" ,;{}()\n\t="):
            raise ViewError(
                f"It has a column named {column.name!r}, which Delta can't store.", "Give it an alias with AS."
            )
        if "void" in column.type or "interval" in column.type:
            raise ViewError(
                f"Column {column.name!r} has the type {column.type}, which Delta can't store.",
                "Cast it to a type that Delta has.",
            )


def _variants(units: tuple[Unit, ...], relations: dict[str, Relation]) -> list[str]:
    """The VARIANT columns that a delta of the view would have to carry.

    They are those it reads, or a table that has no others.
    """
    found: dict[str, None] = {}
    for leaf in (leaf for unit in units for branch in unit.core.branches for leaf in branch.leaves):
        types = {c.name: c.type for c in relations[leaf.relation].columns} if leaf.relation in relations else {}
        read = [c for c in leaf.columns if "variant" in types[c]] if types else []
        alone = list(types) if types and all("variant" in t for t in types.values()) else []
        found |= dict.fromkeys(f"{leaf.relation}.{c}" for c in read or alone)
    return list(found)


def _chance(sql: str, nulls: dict[str, str], analyzer: Analyzer) -> str | None:
    """What of a statement the engine itself says to give other answers.

    That is its functions (of the user's own, too), and words that it reads as a time.
    """
    if complaint := analyzer.chance(splice(sql, nulls)):
        return complaint
    words = time_words(sql)
    if words and analyzer.as_time(splice(with_marked_words(sql), nulls), MARKED_WORD):
        return f"{words[0]!r} as a date or a time"
    return None


def _with_field_names(node: exp.Expression) -> exp.Expression:
    """struct(a, b + 1 AS c) as named_struct('a', a, 'c', b + 1).

    Its fields are named after what they read, which we rename.

    >>> call = exp.Anonymous(this="STRUCT", expressions=[exp.column("a", "t"), exp.Literal.number(1)])
    >>> _with_field_names(call).sql("spark")
    "NAMED_STRUCT('a', t.a, 'col2', 1)"
    """
    if not isinstance(node, exp.Struct | exp.Anonymous) or (
        isinstance(node, exp.Anonymous) and node.name.lower() != "struct"
    ):
        return node
    if any(isinstance(e, exp.Star) or e.find(exp.Star) for e in node.expressions):
        return node
    fields: list[exp.Expression] = []
    for i, e in enumerate(node.expressions, 1):
        name = e.alias if isinstance(e, exp.Alias) else e.name if isinstance(e, exp.Column | exp.Dot) else ""
        fields += [exp.Literal.string(name or f"col{i}"), e.unalias().copy()]
    return exp.Anonymous(this="NAMED_STRUCT", expressions=fields)


def _with_aggregates(tree: exp.Expression, analyzer: Analyzer) -> exp.Expression:
    """Mark the calls of user-defined aggregates, which only Spark knows from scalar functions."""
    unknown = {
        f.name.lower(): len(f.expressions) for f in tree.find_all(exp.Anonymous) if f.name.lower() not in AGGREGATES
    }
    found = analyzer.aggregates(unknown) if unknown else frozenset()

    def marked(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Anonymous) and node.name.lower() in found and not isinstance(node.parent, exp.Dot):
            return exp.AnonymousAggFunc(this=node.this, expressions=node.expressions)
        return node

    return tree.transform(marked) if found else tree


def _qualified(tree: exp.Expression, relations: dict[str, Relation]) -> exp.Expression:
    schema = {r.name.lower(): {c.name.lower(): c.type for c in r.columns} for r in relations.values()}
    try:
        return qualify(tree.copy(), schema=schema, dialect=IvmSpark, quote_identifiers=False)
    except SqlglotError as error:
        raise UnsupportedError("parser", first_line(error)) from error
