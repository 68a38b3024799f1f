"""Compare a published view with Spark's own result of its SQL, as bags, at the versions and the instant it has read.

The recompute runs the user's own text, not ours, from the sources up: views that it reads are replaced by their SQL.
Only where that text leaves Spark a choice (see `sql.rules`) does it run the compiled program's, over the same versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from ivm.errors import StateError
from ivm.execute.fixpoint import compute
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import Column
from ivm.refresh.context import Context
from ivm.refresh.instants import clock_rows, instant_of
from ivm.refresh.records import Cursor, Manifest, UnitState
from ivm.refresh.relations import source_table, unit_table
from ivm.refresh.run import committed_or_raise
from ivm.refresh.settings import changed, settings
from ivm.rewrite.statements import consolidated
from ivm.rewrite.timed import companion_name
from ivm.session import as_written
from ivm.sql.blocks import sql_of
from ivm.sql.maps import encoded, told_apart
from ivm.sql.render import unit_sql
from ivm.sql.temporal import at_instant
from ivm.sql.text import splice
from ivm.table.own import own

#: Floating point sums depend on the order of addition; they are compared to this many significant digits.
FLOAT_DIGITS = 10


@dataclass(frozen=True)
class Verification:
    """`missing` rows are in the recompute only, `unexpected` ones in the table only (counts, and a few of each)."""

    view: str
    equal: bool
    rows: int
    missing: int
    unexpected: int
    sample_missing: tuple[dict[str, Any], ...] = ()
    sample_unexpected: tuple[dict[str, Any], ...] = ()
    #: What is other in this session than in the one that built the view.
    settings: str = ""
    #: Why it could not be compared, where others were asked for, too.
    error: str = ""

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return f"{self.view}: equal to a full recompute ({self.rows:,} rows)"
        why = (
            f" (since it was built the session's settings changed: {self.settings}; the next refresh builds it anew)"
            if self.settings
            else ""
        )
        rows = (
            f"{self.missing:,} rows missing, e.g. {list(self.sample_missing)}, "
            f"{self.unexpected:,} unexpected, e.g. {list(self.sample_unexpected)}"
        )
        return f"{self.view}: DIFFERS, {rows}{why}"


@dataclass(frozen=True)
class Seen:
    """A view as one commit of the epoch log has it: the manifest, its state there, and the rows that readers see then.

    `rows` is a FROM item, a table at a version. Both sides of a comparison are of one of these, whatever is refreshed
    while it goes on.
    """

    manifest: Manifest
    state: UnitState
    rows: str


def verify_view(
    context: Context, view: str, recomputed: str | None = None, where: str = "", seen: Seen | None = None
) -> Verification:
    """Compare what readers see (`seen`, by default as of now).

    `recomputed` is a statement to compare with instead of the view's own SQL (a stored recompute); `where` a condition
    over the view's columns that both sides are restricted by.
    The table's newest version is compared, whoever made it; the last committed one while an epoch is being published.
    Raises StateError where the view was never refreshed, or its table is gone.
    """
    seen = seen or seen_by_readers(context, view)
    only = f" WHERE {where}" if where else ""
    columns = context.compiled[view].program.columns
    names = [c.name for c in columns]
    comparable = ", ".join(f"{comparable_sql(c)} AS {ident(c.name)}" for c in columns)
    fresh = recomputed or recompute_sql(context, view, seen.manifest)
    published = f"SELECT {comparable}, CAST(-1 AS bigint) AS {ident(WEIGHT)} FROM {seen.rows}{only}"
    rows = (
        f"SELECT {comparable}, CAST(1 AS bigint) AS {ident(WEIGHT)} FROM ({fresh}) AS `__ivm_recomputed`{only}\n"
        f"UNION ALL\n{published}"
    )
    spark, compared = context.spark(), consolidated(rows, [Column(n, "") for n in names])
    with as_written(spark, compared):
        differing = spark.sql(compared).limit(context.limits.sampled_rows).toArrow().to_pylist()
    weights = [row.pop(WEIGHT) for row in differing]
    missing = [row for row, weight in zip(differing, weights, strict=True) if weight > 0]
    unexpected = [row for row, weight in zip(differing, weights, strict=True) if weight < 0]
    return Verification(
        context.views[view].name,
        not differing,
        seen.state.rows,
        sum(w for w in weights if w > 0),
        -sum(w for w in weights if w < 0),
        tuple(missing[:3]),
        tuple(unexpected[:3]),
        changed(seen.state.settings, settings(spark)),
    )


def seen_by_readers(context: Context, view: str) -> Seen:
    """The table that readers see: its newest version, or the last committed one while an epoch is being published.

    Raises StateError where the view was never refreshed, or its table is gone.
    """
    while True:
        state = committed_or_raise(context, view)
        manifest, path = context.log.manifest(), context.layout.table(view, True)
        table = own(path)
        if not table.exists():
            raise StateError(
                f"The table of view {view!r} is gone from {path}.",
                f"The next refresh builds it anew; `ivm repair {view}` does it now.",
            )
        # An epoch that published before this is still open by the log that is read after it, or committed there.
        newest, open_epoch = table.snapshot().version, context.log.open_epoch()
        publishing = open_epoch is not None and context.log.has(open_epoch, "checked")
        if manifest.units.get(view) == state and context.log.manifest().epoch == manifest.epoch:
            return Seen(manifest, state, unit_table(context, view, state, state.version if publishing else newest))


def cursor_of(context: Context, view: str, relation: str, manifest: Manifest) -> Cursor:
    """How far a view had read a relation at an epoch. Raises StateError where the epoch knows nothing of it."""
    cursors = {
        r: c
        for n in context.compiled[view].unit_names
        if n in manifest.units
        for r, c in manifest.units[n].cursors.items()
    }
    # A relation that is named but not needed (in a WITH that nothing reads) has no cursor: any version will do.
    found = cursors.get(relation) or manifest.sources.get(relation)
    if found is None and relation not in manifest.units:
        raise StateError(
            f"{view!r} reads {relation!r}, which epoch {manifest.epoch} had not read yet.", "Run a refresh first."
        )
    return found or Cursor(manifest.units[relation].version, epoch=manifest.units[relation].epoch)


def recompute_sql(context: Context, view: str, manifest: Manifest, given: Mapping[str, str] | None = None) -> str:
    """The view's own text over the versions it has read, or over what is `given` for its relations (FROM items)."""
    replacement = dict(given or {})
    for relation in () if given else context.compiled[view].program.relations:
        cursor = cursor_of(context, view, relation, manifest)
        if relation in context.sources:
            replacement[relation] = f"(SELECT * FROM {source_table(context, relation, cursor)})"
        elif cursor.epoch == manifest.units[relation].epoch:
            replacement[relation] = f"({recompute_sql(context, relation, manifest)})"
        else:
            replacement[relation] = (
                f"(SELECT * FROM {unit_table(context, relation, manifest.units[relation], cursor.version)})"
            )
    program = context.compiled[view].program
    at = instant_of(manifest.units[n] for n in context.compiled[view].unit_names if n in manifest.units)
    if not program.rules:
        sql = context.views[view].sql
        return splice(at_instant(sql, at) if program.clocks and at is not None else sql, replacement)
    for clock in program.clocks if at is not None else ():
        replacement[clock.name] = clock_rows(clock, Cursor(at))
    # Spark alone may choose another of several results: the recompute chooses by the program's rules.
    for unit in (u for u in program.units if u.name != companion_name(view)):
        if unit.fixpoint:
            rows = compute(
                context.spark(),
                unit,
                lambda leaf: replacement[leaf.relation],
                context.layout.scratch(manifest.epoch, "verify"),
            )
        else:
            rows = unit_sql(unit, lambda leaf: replacement[leaf.relation])
        replacement[unit.name] = f"({rows})"
    return replacement[program.units[-1].name]


def comparable_sql(column: Column) -> str:
    """Values as they are compared.

    Floats, also inside, have FLOAT_DIGITS significant digits, maps are sorted entries, variants are JSON; all else is
    as it is.
    """
    name = ident(column.name)
    if column.type == "variant":
        return f"named_struct('type', schema_of_variant({name}), 'value', to_json({name}))"
    if "variant" in column.type:
        return f"to_json({name})"
    return sql_of(encoded(exp.column(exp.to_identifier(column.name, quoted=True)), column.type, as_float=_rounded))


def hashed_sql(column: Column) -> list[str]:
    """What Spark's hash is taken of, so that it differs where values differ as they are compared.

    >>> hashed_sql(Column("a", "int"))
    ['(`a`) IS NULL', '`a`']
    """
    if "variant" in column.type:
        value = comparable_sql(column)
        return [f"({value}) IS NULL", value]
    name = exp.column(exp.to_identifier(column.name, quoted=True))
    return [sql_of(part) for part in told_apart(name, column.type, as_float=_rounded)]


def _rounded(value: exp.Expression, _: exp.DataType) -> exp.Expression:
    digits = exp.Anonymous(
        this="FORMAT_STRING",
        expressions=[exp.Literal.string(f"%.{FLOAT_DIGITS - 1}e"), exp.cast(value.copy(), "double")],
    )
    nan = exp.If(this=exp.Anonymous(this="ISNAN", expressions=[value.copy()]), true=exp.Literal.string("NaN"))
    zero = exp.If(
        this=exp.EQ(this=exp.Paren(this=value.copy()), expression=exp.Literal.number(0)), true=exp.Literal.string("0")
    )
    return exp.Case(
        ifs=[
            nan,
            zero,
            exp.If(this=exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.null())), true=digits),
        ]
    )
