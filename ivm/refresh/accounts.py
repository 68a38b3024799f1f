"""What speaks for arrangements that nobody asked for, as of an epoch that is committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ivm import parameters
from ivm.planner.arranging import Account, settle
from ivm.refresh.context import Context
from ivm.refresh.records import Manifest, Outcome
from ivm.table.own import own
from ivm.table.rust import RustTable

_log = logging.getLogger(__name__)


def settled(context: Context, before: Manifest, outcomes: Mapping[str, Outcome]) -> tuple[Account, ...]:
    """The accounts after an epoch with these outcomes; none where only hints ask for arrangements."""
    if context.arrange != parameters.AUTO:
        return ()
    reads = [read for unit in sorted(outcomes) for read in outcomes[unit].reads]
    if not reads and not before.accounts:
        return ()
    return settle(
        before.accounts,
        reads,
        context.limits.history_share,
        context.has_session(),
        lambda account: _fits(context, before, account),
    )


def _fits(context: Context, before: Manifest, account: Account) -> bool:
    """Whether what lies arranged with these has at most the share of the sources' bytes that the limits allow."""
    try:
        sources = {name: RustTable(found.path).snapshot() for name, found in context.snapshots().items()}
        if account.relation in sources:
            table = sources[account.relation]
        else:
            table = own(context.layout.table(account.relation, before.units[account.relation].public)).snapshot()
        arranged = sum(own(folder.url).snapshot().bytes for folder in context.layout.arrangements.list())
    except Exception as error:  # noqa: BLE001 - a table that can't be looked at now; nothing is made, and asked again
        _log.info("whether an arrangement of %s fits isn't known: %s", account.relation, error)
        return False
    more = len(account.keys) * table.bytes * account.columns / len(table.columns)
    return arranged + more <= context.limits.arranged_share * sum(s.bytes for s in sources.values())
