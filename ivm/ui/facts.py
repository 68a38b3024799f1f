"""What the pages show, as plain data; also what the `.json` addresses answer.

Read from logs and files only. No Spark is started: what would need it (a view that was never compiled, a source in a
catalog) is said to be unknown, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ivm.errors import ConfigError, IvmError, StateError, ViewError
from ivm.explain import explain_view
from ivm.pipeline import Pipeline
from ivm.quality.large import is_large
from ivm.quality.quarantine import Quarantine
from ivm.quality.results import load
from ivm.refresh.history import Passed
from ivm.sql.lineage import program_lineage
from ivm.sql.text import relation_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Epochs on the time line and in tables.
SHOWN = 30


def folders(place: Path) -> dict[str, Path]:
    """By name the pipeline folders at a place: it itself, or those right below it.

    Raises ConfigError where there is none, or where two have one name.
    """
    from ivm.config import load_folder

    if (place / "pipeline.yml").exists():
        return {load_folder(place).name: place}
    found: dict[str, Path] = {}
    for folder in sorted(f.parent for f in place.glob("*/pipeline.yml")) if place.is_dir() else []:
        try:
            name = load_folder(folder).name
        except IvmError:
            name = folder.name  # what is wrong with it stands in its line, and the others are shown
        if name in found:
            raise ConfigError(f"{found[name]} and {folder} are both called {name!r}.", "Show one of them with -p.")
        found[name] = folder
    if not found:
        raise ConfigError(f"There is no pipeline.yml in {place} or in a folder below it.", "Name a folder with -p.")
    return found


class _Shown(Pipeline):
    """A pipeline that starts no Spark: what needs it raises StateError."""

    @property
    def spark(self) -> SparkSession:
        raise StateError("This needs Spark, which the page doesn't start.", "Refresh the pipeline once.")


def opened(folder: Path) -> Pipeline:
    """A pipeline to be shown, for which no Spark is started."""
    return _Shown.load(folder)


@dataclass(frozen=True)
class Facts:
    """A pipeline as its page shows it."""

    name: str
    status: Mapping[str, Any]
    epochs: list[Passed]
    #: (what is read, view), of sources and views by their kept names.
    reads: list[tuple[str, str]]
    #: Failed checks of the epochs whose results are kept: epoch, view, scope, expectation, arguments, message.
    failed_checks: list[dict[str, Any]]
    #: Views of which something is held back that can be looked at.
    held: list[str]

    def json(self) -> dict[str, Any]:
        epochs = [asdict(e) | {"views": [asdict(v) | {"saved": v.saved} for v in e.views]} for e in self.epochs]
        return {
            "name": self.name,
            "status": dict(self.status),
            "epochs": epochs,
            "reads": [list(pair) for pair in self.reads],
            "failed_checks": self.failed_checks,
            "held": self.held,
        }


def pipeline_facts(pipe: Pipeline) -> Facts:
    """Raises IvmError where the log can't be read."""
    views, sources = pipe.context.views, pipe.context.sources
    reads = [
        (table.lower(), name)
        for name, view in views.items()
        for table in _tables(view.sql)
        if table.lower() in views or table.lower() in sources
    ]
    failed = [
        {k: v for k, v in asdict(r).items() if k not in ("success", "document")}
        for r in load(pipe.context.layout, SHOWN)
        if not r.success
    ]
    held = [views[name].name for name in pipe.context.log.manifest().held if name in views]
    return Facts(pipe.name, pipe.status(), pipe.history(limit=SHOWN), list(dict.fromkeys(reads)), failed, held)


def _tables(sql: str) -> list[str]:
    try:
        return list(dict.fromkeys(t for t, *_ in relation_tables(sql)))
    except ViewError:
        return []  # the view's line says so


@dataclass(frozen=True)
class ViewFacts:
    """A view as its page shows it.

    `operators` of its units with what they read, `origins` of its columns, `rows` of each unit's last refresh, `above`
    the views that it reads by their shown names; `unknown` says why there is no program to show.
    """

    view: str
    sql: str
    status: Mapping[str, Any]
    epochs: list[Passed]
    strategy: str = ""
    explained: str = ""
    operators: list[dict[str, Any]] | None = None
    units: Mapping[str, list[str]] | None = None
    rows: Mapping[str, Mapping[str, Any]] | None = None
    origins: Mapping[str, list[str]] | None = None
    unknown: str = ""
    held: bool = False
    above: Mapping[str, str] | None = None

    def json(self) -> dict[str, Any]:
        epochs = [asdict(e) | {"views": [asdict(v) | {"saved": v.saved} for v in e.views]} for e in self.epochs]
        return vars(self) | {"epochs": epochs, "status": dict(self.status)}


def view_facts(pipe: Pipeline, view: str) -> ViewFacts:
    """Raises ConfigError for an unknown view."""
    name = pipe.known(view)
    declared = pipe.context.views[name]
    status, epochs = pipe.status()["views"][declared.name], pipe.history(name, SHOWN)
    held = name in pipe.context.log.manifest().held
    try:
        pipe.context.compile(*pipe.context.survey())
        program = pipe.context.compiled_or_raise(name).program
        explanation = explain_view(pipe.context, name)
    except IvmError as error:
        return ViewFacts(declared.name, declared.sql, status, epochs, unknown=str(error), held=held)
    return ViewFacts(
        declared.name,
        declared.sql,
        status,
        epochs,
        explanation.strategy,
        str(explanation),
        [vars(o) for o in explanation.operators],
        {u.name: list(u.reads) for u in program.units},
        _last_rows(pipe, [u.name for u in program.units]),
        {c: sorted(f"{r}.{column}" for r, column in found) for c, found in program_lineage(program).items()},
        held=held,
        above={r: pipe.context.views[r].name for u in program.units for r in u.reads if r in pipe.context.views},
    )


def _last_rows(pipe: Pipeline, units: list[str]) -> dict[str, dict[str, Any]]:
    """By unit what its last refresh read and made, as far as the log has it."""
    found: dict[str, dict[str, Any]] = {}
    log = pipe.context.log
    for epoch in sorted({e.epoch for e in log.events() if e.status == "applied"}, reverse=True):
        for unit, outcome in log.outcomes(epoch).items():
            if unit in units and unit not in found and not outcome.error:
                told = ("strategy", "rows_in", "rows_read", "rows_out", "seconds")
                found[unit] = {"epoch": epoch} | {k: getattr(outcome, k) for k in told}
        if len(found) == len(units):
            break
    return found


@dataclass(frozen=True)
class HeldFacts:
    """What is held back of a view, with failing rows; None where nothing is. `shown` says whether values are."""

    view: str
    held: Quarantine | None
    shown: bool


def held_facts(pipe: Pipeline, view: str) -> HeldFacts:
    """Raises ConfigError for an unknown view, StateError for a batch that is too large to be read here."""
    name = pipe.known(view)
    context = pipe.context
    declared, held = context.views[name].name, context.log.manifest().held.get(name)
    if held is None:
        return HeldFacts(declared, None, context.checking.show)
    outcome = context.log.outcomes(held.epoch).get(name)
    if outcome is not None and outcome.state is not None and is_large(context, outcome):
        raise StateError(
            f"What is held back of {declared!r} is too large to be looked at here.", f"Use `ivm quarantine {declared}`."
        )
    return HeldFacts(declared, pipe.quarantine(name), context.checking.show)
