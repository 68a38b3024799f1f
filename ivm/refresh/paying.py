"""Arrangements that nobody asked for are made once they pay: after the epoch is published, before the next one."""

from __future__ import annotations

import functools
import logging

from ivm.refresh.arrangements import arrangements, followed, rebuilt
from ivm.refresh.context import Context
from ivm.refresh.inputs import needed_columns
from ivm.refresh.records import Manifest
from ivm.session import error_text
from ivm.table.own import own

_log = logging.getLogger(__name__)


def make_paying(context: Context, manifest: Manifest) -> None:
    """Make those that pay and aren't there, of a pipeline that has no open epoch; one that fails is left out."""
    missing = [
        a
        for a in arrangements(context, manifest)
        if not a.views and not own(context.layout.arrangement(a.relation, a.keys)).exists()
    ]
    if not missing or context.log.open_epoch() is not None:
        return
    needed = needed_columns(u for c in context.compiled.values() for u in c.program.units)
    follow = functools.partial(
        followed, context, snapshots=context.survey()[0], sources=manifest.sources, units=manifest.units
    )
    for done, asked in enumerate(missing):
        try:
            rebuilt(context, asked, follow(asked.relation), sorted(needed[asked.relation]))
        except Exception as error:  # noqa: BLE001 - views are refreshed without it, and it is tried again
            _log.warning("%s can't be made: %s", asked, error_text(error) or type(error).__name__)
        context.progress("arrange", done + 1, len(missing))
