"""What keeps a statement from being maintained whatever the compiler can do, each as a check (pure)."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ivm.compile.given import Given
from ivm.plan.nodes import Program, Refusal
from ivm.sql.dialect import function_name
from ivm.sql.expand import with_generated_names
from ivm.sql.functions import volatile_function
from ivm.sql.padding import compares_padded
from ivm.sql.refusals import UnsupportedError, refusal
from ivm.sql.resolved import check_resolved
from ivm.sql.round_trip import check_round_trip
from ivm.sql.temporal import without_filters
from ivm.sql.text import query_tree, splice
from ivm.sql.volatile import MARKED_WORD, time_words, volatile, with_marked_words


def not_deterministic(given: Given) -> Refusal | None:
    """It gives another answer each time it is asked, and not for its temporal filters alone."""
    tree = without_filters(given.tree, given.relations)
    chance = volatile(tree, given.relations) or volatile_function(given.called) or _chance(given)
    return refusal("nondeterministic", chance) if chance else None


def compares_char(given: Given) -> Refusal | None:
    """It compares columns that Spark pads only where it reads the table itself."""
    padded = {c.name: c.type for name in given.reads for c in given.relations[name].padded}
    if not padded or not compares_padded(given.tree, padded):
        return None
    return refusal("padded", ", ".join(f"{c} ({t})" for c, t in padded.items()))


#: Asked of the statement before any pass over its tree.
CHECKS: tuple[Callable[[Given], Refusal | None], ...] = (not_deterministic, compares_char)


def without_session_windows(tree: exp.Expression) -> exp.Expression:
    """The tree as it is. Raises UnsupportedError for session_window(), and for window() that nothing is grouped by.

    That one gives several rows for one, wherever it stands.
    """
    if any(function_name(f) == "session_window" for f in tree.find_all(exp.Anonymous)):
        raise UnsupportedError("clause", "session_window(), whose windows grow with the rows beside them,")
    for call in tree.find_all(exp.Anonymous):
        group = call.parent_select.args.get("group") if call.parent_select is not None else None
        keys = [key.unnest() for key in group.expressions] if group is not None else []
        if function_name(call) == "window" and call not in keys:
            raise UnsupportedError("clause", "window(), which is no key to group by,")
    return tree


def read_as_written(tree: exp.Expression, given: Given) -> exp.Expression:
    """The tree as it is. Raises UnsupportedError where it means something else to the engine than the user's text."""
    check_round_trip(given.sql, query_tree(given.sql), given.relations, given.analyzer)
    return tree


def resolved_as_written(tree: exp.Expression, given: Given) -> exp.Expression:
    """The qualified tree as it is. Raises UnsupportedError where its names mean something else to the engine."""
    written = with_generated_names(query_tree(given.sql), given.schema)
    check_resolved(written, tree, given.relations, given.analyzer)
    return tree


def without_hidden_columns(tree: exp.Expression) -> exp.Expression:
    """The qualified tree as it is. Raises UnsupportedError for columns that an expression reads but doesn't name.

    The compiler carries the columns that are named, under names of its own: a * in a function would stand for those,
    and a text in IDENTIFIER() for one of them. A lambda's parameter that is called as a table hides that table's
    columns, which get its name before them.
    """
    for star in tree.find_all(exp.Star):
        holder = star.parent
        counted = isinstance(holder, exp.Count) and not holder.expressions
        listed = isinstance(holder.parent if isinstance(holder, exp.Column) else holder, exp.Select)
        if not counted and not listed:
            raise UnsupportedError("clause", "a * in a function, which stands for all columns,")
    if any(function_name(f) == "identifier" for f in tree.find_all(exp.Anonymous)):
        raise UnsupportedError("clause", "IDENTIFIER(), which names a column by a text,")
    tables = {t.alias_or_name.lower() for t in tree.find_all(exp.Table, exp.Subquery, exp.Lateral, exp.CTE, exp.Values)}
    for function in tree.find_all(exp.Lambda):
        hidden = sorted(tables & {p.name.lower() for p in function.expressions})
        if hidden and function.this.find(exp.Column):
            raise UnsupportedError("clause", f"a lambda whose parameter {hidden[0]} is called as a table")
    return tree


def without_variants(program: Program, given: Given) -> Program:
    """The program as it is. Raises UnsupportedError for VARIANT columns that a delta of the view would have to carry.

    They are those it reads, or a table that has no others.
    """
    found: dict[str, None] = {}
    for leaf in (leaf for unit in program.units for branch in unit.core.branches for leaf in branch.leaves):
        relation = given.relations.get(leaf.relation)
        types = {c.name: c.type for c in relation.columns} if relation else {}
        read = [c for c in leaf.columns if "variant" in types[c]] if types else []
        alone = list(types) if types and all("variant" in t for t in types.values()) else []
        found |= dict.fromkeys(f"{leaf.relation}.{c}" for c in read or alone)
    if found:
        raise UnsupportedError("variant", ", ".join(found))
    return program


def _chance(given: Given) -> str | None:
    """What of a statement the engine itself says to give other answers.

    That is its functions (of the user's own, too), and words that it reads as a time.
    """
    if complaint := given.analyzer.chance(splice(given.sql, given.nulls)):
        return complaint
    words = time_words(given.sql)
    if words and given.analyzer.as_time(splice(with_marked_words(given.sql), given.nulls), MARKED_WORD):
        return f"{words[0]!r} as a date or a time"
    return None
