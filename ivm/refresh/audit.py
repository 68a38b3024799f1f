"""A published view against a recompute, as dearly as is asked for.

    full        every row, as `verify` compares them
    sample      every row of the groups whose key's hash falls into a share of its range; other groups each epoch
    checksum    count(*) and sum(hash(row)) of both sides: no matter in which order, and no rows are moved. That of
                the published side is kept (see `ivm.refresh.checksums`), so that most audits read the change only

Two bags that are equal have equal checksums; two that differ have the same with a chance of 2^-64. A checksum tells
that rows differ, not which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ivm.auditing import CHECKSUM, FULL, SAMPLE, check_share
from ivm.errors import ConfigError
from ivm.plan.nodes import Column
from ivm.refresh.checksums import Forward, brought_forward, checksum_of, keep, row_hash, why_scan
from ivm.refresh.context import Context
from ivm.refresh.records import UnitState
from ivm.refresh.verify import Seen, Verification, recompute_sql, seen_by_readers, verify_view
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
    #: Rows that were read of what is published: the table's, or those of the trace's batches since the last audit.
    rows_read: int = 0
    #: Why an audit by checksum read the whole table; "" where it did not, and for the other ways, which always do.
    scanned: str = ""
    #: Why it could not be compared, where others were asked for, too.
    error: str = ""

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        what = f" ({self.share:.2%} of the groups by {', '.join(self.by)})" if self.how == SAMPLE else ""
        if self.equal:
            read = f", {self.rows_read:,} of what is published read" + (f" ({self.scanned})" if self.scanned else "")
            return f"{self.view}: equal to a recompute by {self.how}{what}, {self.rows:,} rows{read}"
        return f"{self.view}: DIFFERS from a recompute by {self.how}{what}: {self.difference}"


def audit(
    context: Context,
    view: str,
    how: str = FULL,
    sample: float = 0.01,
    seed: int | None = None,
    rescan: bool = False,
) -> Audit:
    """Compare a view with a recompute at the versions that it has read.

    `sample` is the share of the groups, `seed` which ones (by default the epoch: other ones each time). With `rescan`
    an audit by checksum reads the published table, whatever is kept of it. Raises
    ConfigError for another way, and for a view without a column to choose groups by; StateError where the view was
    never refreshed, or its table is gone.
    """
    if how == FULL:
        seen = seen_by_readers(context, view)
        return _told(seen, FULL, verify_view(context, view, seen=seen))
    if how == CHECKSUM:
        return _by_checksum(context, view, seen_by_readers(context, view), rescan)
    if how != SAMPLE:
        raise ConfigError(f"There is no audit by {how!r}.", f"Choose one of: {FULL}, {SAMPLE}, {CHECKSUM}.")
    share = check_share(sample, "sample")
    seen = seen_by_readers(context, view)
    keys = _keys(context, view, seen.state)
    chosen = _chosen(keys, share, seen.manifest.epoch if seed is None else seed)
    found = verify_view(context, view, where=chosen, seen=seen)
    counted = f"SELECT count(*) AS n FROM {seen.rows} WHERE {chosen}"
    rows = int(context.spark().sql(counted).toArrow().to_pylist()[0]["n"])
    return _told(seen, SAMPLE, found, rows, share, tuple(c.name for c in keys))


def _told(
    seen: Seen,
    how: str,
    found: Verification,
    rows: int | None = None,
    share: float = 1.0,
    by: tuple[str, ...] = (),
) -> Audit:
    settings = f"; the session's settings changed: {found.settings}" if found.settings else ""
    difference = "" if found.equal else f"{found.missing:,} rows missing, {found.unexpected:,} unexpected{settings}"
    compared = found.rows if rows is None else rows
    return Audit(found.view, how, seen.manifest.epoch, found.equal, compared, share, by, difference, found.rows)


def _keys(context: Context, view: str, state: UnitState) -> list[Column]:
    """The columns whose hash chooses groups: the view's key, else all; none of which two equal values hash apart."""
    columns = _columns(context, view)
    usable = [c for c in columns if not has_float(c.type) and not has_map(c.type) and "variant" not in c.type]
    found = [c for c in usable if c.name in state.key] or usable
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
    part = f"pmod({row_hash(keys)}, {_PARTS})"
    return f"({part} + {first}) % {_PARTS} < {wanted}"


def _by_checksum(context: Context, view: str, seen: Seen, rescan: bool) -> Audit:
    """What is kept may confirm the recompute; where it doesn't, or may not, the table is read and tells."""
    manifest, state, columns = seen.manifest, seen.state, _columns(context, view)
    kept = "it was asked for" if rescan else brought_forward(context, view, state)
    recomputed = checksum_of(context, columns, f"({recompute_sql(context, view, manifest)}) AS `__ivm_recomputed`")
    name = context.views[view].name
    if isinstance(kept, Forward):
        if kept.checksum == recomputed:
            keep(context, view, state, recomputed, kept.audits + 1)
            return Audit(name, CHECKSUM, manifest.epoch, True, recomputed.rows, rows_read=kept.rows_read)
        kept = "what is kept and the output trace give another checksum"
    published = checksum_of(context, columns, seen.rows)
    equal, difference = published == recomputed, ""
    if equal and not why_scan(context, view, state):
        keep(context, view, state, recomputed, 0)
    if not equal:
        difference = f"{published.rows:,} rows are published, {recomputed.rows:,} are recomputed" + (
            "; their checksums differ" if published.rows == recomputed.rows else ""
        )
        if any(has_float(c.type) for c in columns):
            difference += "; floats at the edge of rounding may be the reason, which an audit in full tells"
    return Audit(
        name,
        CHECKSUM,
        manifest.epoch,
        equal,
        published.rows,
        difference=difference,
        rows_read=published.rows,
        scanned=kept,
    )


def _columns(context: Context, view: str) -> tuple[Column, ...]:
    return context.compiled[view].program.columns
