"""Which views read which, and which read dated sources, from their SQL alone.

The compiler is imported only where a view's text names another one.
"""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

from ivm.config import PipelineConfig, ViewConfig
from ivm.errors import ConfigError, ViewError

_WORD = re.compile(r"\w+")


def reads(config: PipelineConfig) -> dict[str, tuple[str, ...]]:
    """By view, the views that it reads, those first that read none of the others.

    Of a view whose SQL can't be parsed nothing is known: its own refresh says why. Raises ConfigError for a cycle.
    """
    names = {v.name.lower(): v.name for v in config.views}
    found = {v.name: _reads(v, names) for v in config.views}
    try:
        order = list(TopologicalSorter(found).static_order())
    except CycleError as error:
        raise ConfigError(
            f"Views read each other in a cycle: {' -> '.join(error.args[1])}.",
            "Break it: a view can only read sources and views that don't lead back to it.",
        ) from error
    return {name: found[name] for name in order}


def dated(config: PipelineConfig) -> list[str]:
    """The views whose text names a source with an effective date, directly or through others; no SQL is parsed."""
    named = {s.name.lower() for s in config.sources if s.effective_date}
    words = {v.name: {w.lower() for w in _WORD.findall(v.sql)} for v in config.views} if named else {}
    found: list[str] = []
    while more := [v for v, mentioned in words.items() if v not in found and mentioned & named]:
        found += more
        named |= {v.lower() for v in more}
    return found


def _reads(view: ViewConfig, names: dict[str, str]) -> tuple[str, ...]:
    mentioned = {w.lower() for w in _WORD.findall(view.sql)} & set(names) - {view.name.lower()}
    if not mentioned:
        return ()
    from ivm.sql.text import relation_tables

    try:
        tables = {table.lower() for table, *_ in relation_tables(view.sql)}
    except ViewError:
        return ()
    return tuple(sorted(names[m] for m in mentioned & tables))
