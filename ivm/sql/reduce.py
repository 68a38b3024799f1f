"""Grouping: cut a query at each GROUP BY or DISTINCT into units, and fuse the last one with its select list.

    SELECT post(keys, calls) FROM core GROUP BY keys HAVING h   =   post(reduce(core))

Invariant: a unit's core computes the group keys and every argument of a call as bare columns, so
that a delta of the core is all that the reduce needs.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ivm.names import RESERVED_PREFIX
from ivm.plan.nodes import Call, Column, Core, Output, Post, Reduce, Relation, Unit
from ivm.sql.analyzer import Analyzer
from ivm.sql.blocks import Block, conjuncts, leaf_column, sql_of, substituted, to_branch, to_expr
from ivm.sql.keys import core_key
from ivm.sql.render import core_sql, reduce_sql, schema_leaf
from ivm.sql.support import UnsupportedError

Scope = dict[tuple[str, str], exp.Expression]

#: The alias under which a post stage sees the reduced rows.
GROUP_ALIAS = f"{RESERVED_PREFIX}_group"
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def find_calls(node: exp.Expression) -> Iterator[exp.Expression]:
    """The outermost aggregate calls of an expression, with FILTER and the like around them."""
    if isinstance(node, exp.AggFunc) or (isinstance(node, _WRAPPERS) and has_calls(node.this)):
        yield node
        return
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query):
            yield from find_calls(child)


def has_calls(node: exp.Expression) -> bool:
    """Whether an expression aggregates."""
    return next(find_calls(node), None) is not None


class Units:
    """The units made so far, and the relations that leaves can read (units included)."""

    def __init__(self, view: str, relations: dict[str, Relation], analyzer: Analyzer) -> None:
        self.view = view
        self.relations = relations
        self.analyzer = analyzer
        self.made: dict[str, Unit] = {}

    def aligned(self, blocks: list[Block]) -> list[Block]:
        """Cast the branches of a UNION ALL to its common types, so that any of them may stand alone."""
        if len(blocks) == 1 or not all(b.leaves for b in blocks):
            return blocks
        names = [f"c{i}" for i in range(len(blocks[0].outs))]
        cores = [Core((to_branch(Block(b.leaves, b.preds, [(n, e) for n, (_, e) in zip(names, b.outs, strict=True)]), self.relations),)) for b in blocks]
        leaf = schema_leaf(self.relations)
        union = self.analyzer.schema("\nUNION ALL\n".join(core_sql(c, leaf) for c in cores))
        result = []
        for block, core in zip(blocks, cores, strict=True):
            own = self.analyzer.schema(core_sql(core, leaf))
            outs = [(n, e if a.type == u.type else exp.cast(e.copy(), u.type, dialect="spark")) for (n, e), a, u in zip(block.outs, own, union, strict=True)]
            result.append(Block(block.leaves, block.preds, outs))
        return result

    def distinct(self, blocks: list[Block]) -> list[Block]:
        """DISTINCT is a grouping by all columns without calls."""
        blocks = self.aligned(blocks)
        names = [n for n, _ in blocks[0].outs]
        scopes: list[Scope] = [{("", n.lower()): e for n, e in b.outs} for b in blocks]
        columns = [exp.column(exp.to_identifier(n, quoted=True)) for n in names]
        return self.grouped(blocks, scopes, columns, list(zip(names, [c.copy() for c in columns], strict=True)), None)

    def grouped(
        self,
        blocks: list[Block],
        scopes: list[Scope],
        keys: list[exp.Expression],
        selected: list[tuple[str, exp.Expression]],
        having: exp.Expression | None,
    ) -> list[Block]:
        """Make a unit of `blocks` GROUP BY `keys`; return the block that reads it.

        Keys, select list and HAVING are in terms of the scopes' names; each block computes them its own way.
        """
        if not all(b.leaves for b in blocks):
            raise UnsupportedError("no_source")
        names = _key_names(keys)
        post = [e for _, e in selected] + list(conjuncts(having))
        calls: dict[str, tuple[str, exp.Expression]] = {}
        for expression in post:
            for call in find_calls(expression):
                calls.setdefault(sql_of(call), (f"agg_{len(calls) + 1}", call))
        arguments: dict[str, tuple[str, exp.Expression]] = {}
        specs = [_call_spec(name, call, arguments) for name, call in calls.values()]
        core_blocks = [
            Block(
                b.leaves,
                b.preds,
                [(n, substituted(k, s)) for n, k in zip(names, keys, strict=True)] + [(n, substituted(a, s)) for n, a in arguments.values()],
            )
            for b, s in zip(blocks, scopes, strict=True)
        ]
        core_blocks = self.aligned(core_blocks)
        core = Core(tuple(to_branch(b, self.relations) for b in core_blocks))
        self._check_scalars(core)
        types = {c.name: c.type for c in self.analyzer.schema(core_sql(core, schema_leaf(self.relations)))}
        for n in names:
            if "map<" in types[n] or types[n] == "variant":
                raise UnsupportedError("unorderable", types[n])
        reduce = Reduce(tuple(Column(n, types[n]) for n in names), tuple(_typed(spec, types) for spec in specs))
        return [self._reader(core, reduce, dict(zip(names, keys, strict=True)), {k: n for k, (n, _) in calls.items()}, selected, having)]

    def _reader(
        self,
        core: Core,
        reduce: Reduce,
        keys: dict[str, exp.Expression],
        calls: dict[str, str],
        selected: list[tuple[str, exp.Expression]],
        having: exp.Expression | None,
    ) -> Block:
        name = f"{self.view}__{len(self.made) + 1}".lower()
        columns = self.analyzer.schema(reduce_sql(reduce, core_sql(core, schema_leaf(self.relations))))
        if not reduce.keys and not reduce.calls:
            raise UnsupportedError("clause", "a grouping without keys and calls")
        key = tuple(k.name for k in reduce.keys)
        post = Post(GROUP_ALIAS, (), tuple(Output(c.name, to_expr(leaf_column(GROUP_ALIAS, c.name))) for c in columns))
        self.made[name] = Unit(name, core, reduce, post, columns, key)
        self.relations[name] = Relation(name, "unit", columns, key)
        by_key = {sql_of(k): n for n, k in keys.items()}

        def over_groups(node: exp.Expression) -> exp.Expression:
            text = sql_of(node)
            if text in calls:
                return leaf_column(name, calls[text])
            if text in by_key:
                return leaf_column(name, by_key[text])
            return node

        outs = [(n, e.transform(over_groups)) for n, e in selected]
        preds = [p.transform(over_groups) for p in conjuncts(having)]
        for expression in [e for _, e in outs] + preds:
            stray = [c.sql() for c in expression.find_all(exp.Column) if c.table != name]
            if stray:
                raise UnsupportedError("clause", f"{', '.join(stray)} outside GROUP BY")
            if expression.find(exp.Query):
                raise UnsupportedError("subquery", "HAVING or the select list of a grouping")
        return Block([(name, name)], preds, outs)

    def _check_scalars(self, core: Core) -> None:
        leaf_sql = schema_leaf(self.relations)
        for branch in core.branches:
            expressions = [e.sql for e in (*branch.predicates, *(o.expr for o in branch.outputs)) if e.plain is None]
            sources = ", ".join(f"{leaf_sql(leaf)} AS `{leaf.alias}`" for leaf in branch.leaves)
            complaint = self.analyzer.scalar(expressions, sources) if expressions else None
            if complaint:
                raise UnsupportedError("expression", complaint)

    def finish(self, blocks: list[Block], columns: tuple[Column, ...]) -> tuple[Unit, ...]:
        """Close the program: the last unit is the view, fused with the grouping it reads if it can be."""
        top = self._fused(blocks, columns) or self._linear(blocks, columns)
        units = []
        for unit in [*self.made.values(), top]:
            if unit.reduce and not unit.reduce.linear and not unit.reduce.keys:
                raise UnsupportedError("global_reduce", ", ".join(c.sql for c in unit.reduce.calls if not c.function))
            units.append(unit)
        return tuple(units)

    def _linear(self, blocks: list[Block], columns: tuple[Column, ...]) -> Unit:
        core = Core(tuple(to_branch(b, self.relations) for b in blocks))
        self._check_scalars(core)
        for column in columns:
            if "map<" in column.type or column.type == "variant":
                raise UnsupportedError("unorderable", column.type)
        return Unit(self.view, core, None, None, columns, core_key(core, self.relations))

    def _fused(self, blocks: list[Block], columns: tuple[Column, ...]) -> Unit | None:
        if len(blocks) != 1 or len(blocks[0].leaves) != 1:
            return None
        (alias, name), block = blocks[0].leaves[0], blocks[0]
        inner = self.made.get(name)
        readers = [leaf.relation for u in self.made.values() for b in u.core.branches for leaf in b.leaves]
        if inner is None or inner.reduce is None or name in readers:
            return None
        scope = {(alias.lower(), c.name.lower()): leaf_column(GROUP_ALIAS, c.name) for c in inner.columns}
        post = Post(
            GROUP_ALIAS,
            tuple(to_expr(substituted(p, scope)) for p in block.preds),
            tuple(Output(n, to_expr(substituted(e, scope))) for n, e in block.outs),
        )
        carried = {o.expr.plain[1]: o.name for o in post.outputs if o.expr.plain}
        all_carried = all(k.name in carried for k in inner.reduce.keys)
        if not inner.reduce.linear and not all_carried:
            return None
        del self.made[name]
        key = tuple(carried[k.name] for k in inner.reduce.keys) if all_carried else ()
        return Unit(self.view, inner.core, inner.reduce, post, columns, key)


def _key_names(keys: list[exp.Expression]) -> list[str]:
    """A name for each group key: its column's own where that is free."""
    names: list[str] = []
    for i, key in enumerate(keys, 1):
        name = key.unnest().name.lower() if isinstance(key.unnest(), exp.Column) else f"key_{i}"
        free = name not in names and name.isidentifier() and not name.startswith((RESERVED_PREFIX, "agg_", "arg_"))
        names.append(name if free else f"key_{i}")
    return names


def _argument(node: exp.Expression, arguments: dict[str, tuple[str, exp.Expression]]) -> str:
    return arguments.setdefault(sql_of(node), (f"arg_{len(arguments) + 1}", node))[0]


def _call_spec(name: str, call: exp.Expression, arguments: dict[str, tuple[str, exp.Expression]]) -> Call:
    """Turn a call over scope columns into one over core columns; what it reads goes to `arguments`."""
    inner, condition = call, None
    if isinstance(call, exp.Filter):
        inner, condition = call.this, call.expression.this
    function = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg"}.get(type(inner))
    operand = inner.this
    several = bool(inner.args.get("expressions"))
    if function and not isinstance(operand, exp.Distinct) and not several:
        star = isinstance(operand, exp.Star)
        if star and condition is None:
            return Call(name, "COUNT(*)", "count")
        value = exp.Literal.number(1) if star else operand.copy()
        if condition is not None:
            value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])
        argument = _argument(value, arguments)
        return Call(name, f"{function.upper()}(`{argument}`)", function, argument)

    def over_core(node: exp.Expression) -> exp.Expression:
        return exp.column(exp.to_identifier(_argument(node, arguments), quoted=True)) if isinstance(node, exp.Column) else node

    return Call(name, sql_of(call.transform(over_core)))


def _typed(call: Call, types: dict[str, str]) -> Call:
    """Keep a call linear only where its argument's type makes the sum exact and Spark's result reproducible."""
    if call.function is None or call.argument is None:
        return call
    type_ = types[call.argument]
    exact = call.function == "count" or type_ in _INTEGERS or (type_.startswith("decimal(") and (call.function == "sum" or exact_average(type_)))
    return Call(call.name, call.sql, call.function if exact else None, call.argument, type_)


def decimal_of(type_: str) -> tuple[int, int]:
    """Precision and scale of a decimal type's name.

    >>> decimal_of("decimal(15,2)")
    (15, 2)
    """
    precision, scale = type_[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def exact_average(type_: str) -> bool:
    """Whether Spark's decimal division keeps enough digits for the average of this type to be rounded only once.

    Spark averages decimal(p,s) as sum decimal(p+10,s) over count decimal(20,0), rounded half up to scale s+4.
    Our quotient (see rewrite.accumulators) and its carry need p+12-s digits before the point, which leaves 38 less those after it.

    >>> exact_average("decimal(15,2)"), exact_average("decimal(32,4)")
    (True, False)
    """
    precision, scale = decimal_of(type_)
    digits = max(38 - (precision + 12 - scale), 6)
    return precision + 10 <= 38 and digits >= scale + 4
