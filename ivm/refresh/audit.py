"""A published view against a recompute, as dearly as is asked for.

    full        every row, as `verify` compares them
    sample      every row of the groups whose key's hash falls into a share of its range; other groups each epoch
    checksum    count(*) and sum(hash(row)) of both sides: no matter in which order, and no rows are moved

Two bags that are equal have equal checksums; two that differ have the same with a chance of 2^-64. A checksum tells
that rows differ, not which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ivm.auditing import CHECKSUM, FULL, SAMPLE, check_share
from ivm.errors import ConfigError
from ivm.names import ident
from ivm.plan.nodes import Column
from ivm.refresh.context import Context
from ivm.refresh.run import committed_or_raise
from ivm.refresh.verify import Verification, comparable_sql, recompute_sql, seen_by_readers, verify_view
from ivm.sql.maps import has_float, has_map

#: A key's hash falls into one of so many parts.
_PARTS = 1_000_000


@dataclass(frozen=True)
class Audit:
    """What an audit found. `rows` are the published rows that were compared, `difference` tells what differs."""

    view: str
    how: str
    epoch: int
    equal: bool
    rows: int
    share: float = 1.0
    #: The columns by which groups were chosen; all columns where the view has no key.
    by: tuple[str, ...] = ()
    difference: str = ""

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        what = f" ({self.share:.2%} of the groups by {', '.join(self.by)})" if self.how == SAMPLE else ""
        if self.equal:
            return f"{self.view}: equal to a recompute by {self.how}{what}, {self.rows:,} rows"
        return f"{self.view}: DIFFERS from a recompute by {self.how}{what}: {self.difference}"


def audit(context: Context, view: str, how: str = FULL, sample: float = 0.01, seed: int | None = None) -> Audit:
    """Compare a view with a recompute at the versions that it has read.

    `sample` is the share of the groups, `seed` which ones (by default the epoch: other ones each time). Raises
    ConfigError for another way, and for a view without a column to choose groups by; StateError where the view was
    never refreshed, or its table is gone.
    """
    if how == FULL:
        return _told(context, view, FULL, verify_view(context, view))
    if how == CHECKSUM:
        return _by_checksum(context, view)
    if how != SAMPLE:
        raise ConfigError(f"There is no audit by {how!r}.", f"Choose one of: {FULL}, {SAMPLE}, {CHECKSUM}.")
    share = check_share(sample, "sample")
    keys = _keys(context, view)
    chosen = _chosen(keys, share, context.log.manifest().epoch if seed is None else seed)
    found = verify_view(context, view, where=chosen)
    rows = _numbers(context, f"SELECT count(*) AS n FROM {seen_by_readers(context, view)} WHERE {chosen}")[0]
    return _told(context, view, SAMPLE, found, rows, share, tuple(c.name for c in keys))


def _told(
    context: Context,
    view: str,
    how: str,
    found: Verification,
    rows: int | None = None,
    share: float = 1.0,
    by: tuple[str, ...] = (),
) -> Audit:
    settings = f"; the session's settings changed: {found.settings}" if found.settings else ""
    difference = "" if found.equal else f"{found.missing:,} rows missing, {found.unexpected:,} unexpected{settings}"
    epoch = context.log.manifest().epoch
    return Audit(found.view, how, epoch, found.equal, found.rows if rows is None else rows, share, by, difference)


def _keys(context: Context, view: str) -> list[Column]:
    """The columns whose hash chooses groups: the view's key, else all; none of which two equal values hash apart."""
    columns = context.compiled[view].program.columns
    key = committed_or_raise(context, view).key
    usable = [c for c in columns if not has_float(c.type) and not has_map(c.type) and "variant" not in c.type]
    found = [c for c in usable if c.name in key] or usable
    if not found:
        raise ConfigError(
            f"View {view!r} has no column to choose groups by: floats, maps and variants are not hashed exactly.",
            "Audit it in full, or by checksum.",
        )
    return found


def _chosen(keys: Sequence[Column], share: float, seed: int) -> str:
    """The condition that a row's group is chosen; over keys alone, so that Spark applies it before it groups."""
    wanted = max(1, round(share * _PARTS))
    first = (seed * 7_919 * wanted) % _PARTS
    part = f"pmod({_hash([ident(c.name) for c in keys])}, {_PARTS})"
    return f"({part} + {first}) % {_PARTS} < {wanted}"


def _hash(expressions: Sequence[str]) -> str:
    """Spark's hash of values; whether each is NULL is hashed, too, since Spark's own passes over NULLs."""
    return f"xxhash64({', '.join(f'{e} IS NULL, {e}' for e in expressions)})"


def _by_checksum(context: Context, view: str) -> Audit:
    columns = context.compiled[view].program.columns
    row = _hash([f"({comparable_sql(c)})" for c in columns])
    sums = f"SELECT count(*) AS n, CAST(coalesce(sum(CAST({row} AS decimal(38, 0))), 0) AS string) AS h FROM "
    fresh = recompute_sql(context, view, context.log.manifest())
    published = _numbers(context, f"{sums}{seen_by_readers(context, view)}")
    recomputed = _numbers(context, f"{sums}({fresh}) AS `__ivm_recomputed`")
    equal, difference = published == recomputed, ""
    if not equal:
        difference = f"{published[0]:,} rows are published, {recomputed[0]:,} are recomputed" + (
            "; their checksums differ" if published[0] == recomputed[0] else ""
        )
        if any(has_float(c.type) for c in columns):
            difference += "; floats at the edge of rounding may be the reason, which an audit in full tells"
    name, epoch = context.views[view].name, context.log.manifest().epoch
    return Audit(name, CHECKSUM, epoch, equal, published[0], difference=difference)


def _numbers(context: Context, sql: str) -> tuple[int, Any]:
    """The count, and the checksum where the statement has one."""
    row = context.spark().sql(sql).toArrow().to_pylist()[0]
    return int(row["n"]), row.get("h")
