"""GROUP BY, also by grouping sets, and DISTINCT: the core has the keys and what the calls read.

    COUNT(DISTINCT x) GROUP BY k   =   COUNT(x) GROUP BY k  of  DISTINCT k, x

So that both are kept as counts: how often each value occurs in its group, and how many of them do.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ivm.compile.units.made import Units
from ivm.compile.units.unpadded import unpadded
from ivm.plan.nodes import Call, Column, Core, Reduce
from ivm.sql.blocks import Block, Inline, Scope, as_type, conjuncts, leaf_column, leaf_item, plainly, rewritten, sql_of
from ivm.sql.calls import (
    SET,
    accumulated,
    counted_once,
    find_calls,
    grouping_calls,
    inner_column,
    key_names,
    over_arguments,
    typed_call,
)
from ivm.sql.maps import check_calls, decoded, encoded, has_map
from ivm.sql.rules import settled

#: A select list: name and expression of each column.
Selected = list[tuple[str, exp.Expression]]


def grouped(
    units: Units,
    blocks: list[Block],
    scopes: list[Scope],
    keys: list[exp.Expression],
    selected: Selected,
    having: exp.Expression | None,
    inline: Inline,
    sets: list[tuple[int, ...]] | None = None,
) -> list[Block]:
    """Make a unit of `blocks` GROUP BY `keys`, by each of the grouping `sets` if given.

    Returns the block that reads it.
    Keys, select list and HAVING are in terms of the scopes' names; each block computes them its own way.
    """
    conditions = list(conjuncts(having))
    if sets is not None:
        selected = [(n, grouping_calls(e, keys, sets)) for n, e in selected]
        conditions = [grouping_calls(c, keys, sets) for c in conditions]
        # Spark gives the lone empty set its row even of no rows, as without GROUP BY, but no other sets theirs.
        sets = None if sets == [()] and not keys else sets
    names = key_names(keys)
    calls = _named_calls([e for _, e in selected] + conditions)
    once = None if sets is not None or _dated(units, blocks) else counted_once([call for _, call in calls.values()])
    arguments: dict[str, tuple[str, exp.Expression]] = {}
    sums: dict[str, Call] = {}
    others: dict[str, exp.Expression] = {}
    for name, call in calls.values():
        if summed := accumulated(name, call if once is None else once, arguments):
            sums[name] = summed
        else:
            others[name] = over_arguments(call, arguments)
    computed = [*zip(names, keys, strict=True), *arguments.values()]
    core_blocks = [_computing(b, s, computed, inline) for b, s in zip(blocks, scopes, strict=True)]
    if once is None and sets is None and not others and not _dated(units, blocks):
        core_blocks = unpadded(units, core_blocks, len(keys), sums.values())
    if once is not None:
        core_blocks = distinct(units, core_blocks)
    if sets is not None:
        core_blocks = _by_sets(units, core_blocks, len(keys), sets)
        names, keys = [*names, SET], [*keys, inner_column(SET)]
    core, columns = units.core(units.aligned(core_blocks))
    types = {c.name: c.type for c in columns}
    mapped = {n: types[n] for n in names if has_map(types[n])}
    if mapped:
        encoded_blocks = [
            b.with_outs((n, encoded(e, mapped[n]) if n in mapped else e) for n, e in b.outs)
            for b in units.aligned(core_blocks)
        ]
        core, columns = units.core(encoded_blocks)
        types = {c.name: c.type for c in columns}
    valued = _valued(units, core, others, types)
    raises = units.analyzer.raises()
    made = tuple(
        typed_call(sums[n], types, raises) if n in sums else _settled(units, n, others[n], valued[n])
        for n, _ in calls.values()
    )
    lone = () if names or made else (Call("agg_1", "COUNT(*)", "count"),)
    reduce = Reduce(tuple(Column(n, types[n]) for n in names), made or lone)
    name = units.partitioned(core, reduce)
    by_key = {sql_of(k): n for n, k in zip(names, keys, strict=True)}
    by_call = {k: n for k, (n, _) in calls.items()}

    def key_value(n: str) -> exp.Expression:
        return decoded(leaf_column(name, n), mapped[n]) if n in mapped else leaf_column(name, n)

    outer: Scope = {
        (k.table.lower(), k.name.lower()): key_value(n)
        for n, k in zip(names, keys, strict=True)
        if isinstance(k, exp.Column)
    }

    def over_groups(node: exp.Expression) -> exp.Expression | None:
        text = sql_of(node)
        if text in by_call:
            return leaf_column(name, by_call[text])
        if text in by_key:
            return key_value(by_key[text])
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return exp.In(this=rewritten(node.this, over_groups), query=node.args["query"].copy())
        return node.copy() if isinstance(node, exp.Query) else None

    reader = Block([leaf_item(name, name)])
    reader.preds = [inline(rewritten(p, over_groups), outer, reader) for p in conditions]
    reader.outs = [(n, inline(rewritten(e, over_groups), outer, reader)) for n, e in selected]
    return [reader]


def _valued(units: Units, core: Core, calls: Mapping[str, exp.Expression], types: Mapping[str, str]) -> dict[str, str]:
    """The types that the calls order by. Raises UnsupportedError for calls that see what order maps are kept in."""
    check_calls(calls.values(), types)
    return units.ordered_types(core, calls)


def _computing(block: Block, scope: Scope, columns: Selected, inline: Inline) -> Block:
    """A block's rows with these columns, which are in terms of the scope's names."""
    made = Block(list(block.items), list(block.preds))
    made.outs = [(n, inline(e, scope, made)) for n, e in columns]
    return made


def _dated(units: Units, blocks: list[Block]) -> bool:
    """Whether rows hold as of a day: what did is kept for views of one unit only (see `ivm.rewrite.timed`)."""
    tables = [i.this.name for b in blocks for i in b.items if isinstance(i.this, exp.Table)]
    return any(units.relations[t].effective for t in tables)


def _named_calls(expressions: list[exp.Expression]) -> dict[str, tuple[str, exp.Expression]]:
    """The calls in expressions by their text, each with a name."""
    calls: dict[str, tuple[str, exp.Expression]] = {}
    for expression in expressions:
        for call in find_calls(expression):
            calls.setdefault(sql_of(call), (f"agg_{len(calls) + 1}", call))
    return calls


def distinct(units: Units, blocks: list[Block]) -> list[Block]:
    """DISTINCT, and UNION: a grouping by all columns without calls."""
    blocks = units.aligned(blocks)
    names = [n for n, _ in blocks[0].outs]
    scopes: list[Scope] = [{("", f"c{i}"): e for i, (_, e) in enumerate(b.outs)} for b in blocks]
    columns: list[exp.Expression] = [inner_column(f"c{i}") for i in range(len(names))]
    return grouped(
        units, blocks, scopes, columns, list(zip(names, [c.copy() for c in columns], strict=True)), None, plainly
    )


def _settled(units: Units, name: str, call: exp.Expression, type_: str) -> Call:
    chosen, rule = settled(call, type_)
    units.rules |= {rule} if rule else set()
    return Call(name, sql_of(chosen))


def _by_sets(units: Units, blocks: list[Block], keys: int, sets: list[tuple[int, ...]]) -> list[Block]:
    """Each block once for each grouping set, the keys that aren't in it NULL."""
    types = [c.type for c in units.types(blocks)[:keys]]
    result = []
    for number, members in enumerate(sets):
        for block in blocks:
            outs = [
                (n, e if i in members or i >= keys else as_type(exp.null(), types[i]))
                for i, (n, e) in enumerate(block.outs)
            ]
            result.append(block.with_outs([*outs, (SET, exp.Literal.number(number))]))
    return result
