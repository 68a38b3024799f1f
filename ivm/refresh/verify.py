"""Compare a published view with Spark's own result of its SQL, as bags, at the versions the view has read.

The recompute runs the user's own text, not ours, from the sources up: views that it reads are replaced by their SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ivm.lake import native
from ivm.names import ident, table_ref
from ivm.plan.nodes import Column
from ivm.refresh.context import Context
from ivm.refresh.records import Manifest
from ivm.refresh.run import committed_or_raise
from ivm.sql.parse import splice

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

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return f"{self.view}: equal to a full recompute ({self.rows:,} rows)"
        return f"{self.view}: DIFFERS, {self.missing:,} rows missing, e.g. {list(self.sample_missing)}, {self.unexpected:,} unexpected, e.g. {list(self.sample_unexpected)}"


def verify_view(context: Context, view: str) -> Verification:
    """Raises StateError where the view was never refreshed."""
    state = committed_or_raise(context, view)
    manifest = context.log.manifest()
    columns = context.compiled[view].program.columns
    comparable = ", ".join(f"{_comparable(c)} AS {ident(c.name)}" for c in columns)
    published = f"SELECT {comparable} FROM {table_ref(context.layout.table(view, True), state.version)}"
    recomputed = f"SELECT {comparable} FROM ({recompute_sql(context, view, manifest)}) AS `__ivm_recomputed`"
    spark = context.spark()
    missing = spark.sql(f"({recomputed}) EXCEPT ALL ({published})").limit(100_000).toArrow().to_pylist()
    unexpected = spark.sql(f"({published}) EXCEPT ALL ({recomputed})").limit(100_000).toArrow().to_pylist()
    return Verification(
        context.views[view].name, not missing and not unexpected, state.rows, len(missing), len(unexpected), tuple(missing[:3]), tuple(unexpected[:3])
    )


def recompute_sql(context: Context, view: str, manifest: Manifest) -> str:
    """The view's own text over the versions that the view has read."""
    cursors = {r: c for n, s in manifest.units.items() if n == view or n.startswith(f"{view}__") for r, c in s.cursors.items()}
    replacement = {}
    for relation in context.compiled[view].program.relations:
        cursor = cursors[relation]
        if relation in context.sources:
            location = context.sources[relation].location
            ref = table_ref(native.local_path(location), cursor.version)
            replacement[relation] = f"(SELECT * FROM {ref})"
        elif cursor.epoch == manifest.units[relation].epoch:
            replacement[relation] = f"({recompute_sql(context, relation, manifest)})"
        else:
            replacement[relation] = f"(SELECT * FROM {table_ref(context.layout.table(relation, True), cursor.version)})"
    return splice(context.views[view].sql, replacement)


def _comparable(column: Column) -> str:
    """Floats to FLOAT_DIGITS significant digits, maps as sorted entries; all else as it is."""
    name = ident(column.name)
    if column.type in ("double", "float"):
        return f"CASE WHEN isnan({name}) THEN 'NaN' WHEN {name} = 0 THEN '0' ELSE format_string('%.{FLOAT_DIGITS - 1}e', CAST({name} AS double)) END"
    if "map<" in column.type or "variant" in column.type:
        return f"to_json({name}, map('sortKeys', 'true'))" if column.type.startswith("struct") else f"to_json(array_sort(map_entries({name})))"
    return name
