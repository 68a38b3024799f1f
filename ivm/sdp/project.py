"""A project as a pipeline: its materialized views become views, its policies settings and checks.

    temporary view       stands as a derived table in each view that reads it
    streaming table      stays with Spark; where a view reads it, it is a source, with the key it declares
    all else             is left out, each with one sentence

Invariant: a view means what it meant. Where a query or what it reads can't be had as SQL, the view is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ivm import adopt
from ivm.errors import ConfigError, ViewError
from ivm.files import read_text
from ivm.names import is_path
from ivm.sdp import policies, statements
from ivm.sdp.datasets import Dataset, Kind
from ivm.sdp.names import Names
from ivm.sdp.spec import Spec, read_spec
from ivm.sql.substitution import check_written_out, written_out

_WHY = {
    Kind.STREAMING: "a streaming table; a view that reads it has it as a source",
    Kind.FLOW: "a flow; streams stay with Spark",
    Kind.SINK: "a sink; ivm writes Delta tables only",
    Kind.SETTING: "a setting; give it to the Spark that runs ivm",
    Kind.UNKNOWN: "a statement that defines nothing",
    Kind.PERSISTED: "a view of the catalog and is not made; a view that reads it has its query in it",
}


@dataclass(frozen=True)
class Project:
    """Views by name, their settings and checks, the keys that streaming tables declare, and what is left out."""

    spec: Spec
    views: Mapping[str, str]
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    checks: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def read(file: Path) -> Project:
    """Read a spec and its definitions. Raises ConfigError where they can't be, or where no view is left."""
    spec = read_spec(file)
    found = _written_out([d for path in spec.files for d in _definitions(path, spec)], spec)
    said = [(d, policies.declared(d)) for d in found]
    names, left = Names(spec, found), []
    for dataset in found:
        if why := _refusal(dataset, names):
            left.append(f"{dataset.name} ({dataset.where}) {why}")
    left += [f"{key} ({file.name}) is {_WHY[Kind.SETTING]}" for key in spec.configuration]
    left += [f"{_shown(p, spec.folder)} is neither .sql nor .py" for p in spec.files if p.suffix not in (".sql", ".py")]
    if not names.views:
        raise ConfigError(f"{file} has no materialized view that can be taken over.", "; ".join(left) or "Add one.")
    kept = [(d.view, p) for d, p in said if d in names.views.values()]
    settings = {view: {k: v for k, v in p.items() if k in policies.SETTINGS} for view, p in kept}
    return Project(
        spec,
        {d.view: names.text(d) for d in names.views.values()},
        {view: s for view, s in settings.items() if s},
        {view: policies.key_checks(p[policies.KEY]) for view, p in kept if policies.KEY in p},
        {spec.full(d.name): p[policies.KEY] for d, p in said if d.kind is Kind.STREAMING and p},
        tuple(left),
    )


def _written_out(found: Sequence[Dataset], spec: Spec) -> list[Dataset]:
    """Definitions with each `${name}` replaced by the value that the spec's configuration gives to the name.

    Where the name is another one, or has a value of the definition's own or of a SET, the definition has that reason.
    """
    told = (re.match(r"SET\s+([^\s=]+)", d.name, re.IGNORECASE) for d in found if d.kind is Kind.SETTING)
    set_again = {m[1].strip("`") for m in told if m}
    known = {k: v for k, v in spec.configuration.items() if k not in set_again}

    def settled(dataset: Dataset) -> Dataset:
        settings = {} if "spark_conf" in dataset.clauses else known
        try:
            sql = written_out(dataset.sql, settings)
            check_written_out(sql, "its SQL")
            properties = {k: written_out(v, settings) for k, v in dataset.properties.items()}
        except ViewError as error:
            return replace(dataset, reason=dataset.reason or error.message)
        return replace(dataset, sql=sql, properties=properties)

    return [settled(d) for d in found]


def _refusal(dataset: Dataset, names: Names) -> str:
    """Why a definition is left out, or what of it is; "" where nothing is. A view that is left out is a table."""
    if dataset.kind in _WHY:
        return f"is {_WHY[dataset.kind]}"
    try:
        names.text(dataset)
    except ViewError as error:
        if dataset.kind is not Kind.MATERIALIZED:
            return ""  # those that read it are left out, with this reason
        names.leave(dataset)
        return f"is left out: {error.message.rstrip('.')}"
    lost = [*dataset.clauses, *(k for k in dataset.properties if not k.startswith(policies.PREFIX))]
    lost += ["its columns' types"] if dataset.columns and dataset.kind is Kind.MATERIALIZED else []
    return f"is taken over without {', '.join(lost)}" if lost else ""


def look(project: Project, folder: str, places: Mapping[str, str]) -> adopt.Adoption:
    """What `ivm.adopt.look` finds of the views' tables, which the catalog knows by the project's names."""
    found = adopt.look(project.views, folder, places)
    return replace(
        found,
        tables=tuple(_placed(t, project) for t in found.tables),
        settings=project.settings,
        checks=project.checks,
        left=project.left,
    )


def _placed(table: adopt.Table, project: Project) -> adopt.Table:
    key = project.keys.get(project.spec.full(table.written), table.primary_key)
    location = table.location
    if location == table.written and not is_path(location):
        location = project.spec.qualified(location)
    return replace(table, location=location, primary_key=key)


def _definitions(path: Path, spec: Spec) -> list[Dataset]:
    if path.suffix == ".sql":
        return statements.read(read_text(path), _shown(path, spec.folder))
    if path.suffix != ".py":
        return []
    try:
        from ivm.sdp import functions
    except ImportError as error:
        raise ConfigError(
            f"{_shown(path, spec.folder)} can't be run: {error}.", "Install the extra spark: pip install 'ivm[spark]'."
        ) from error
    return functions.read(path, spec.folder, spec.configuration)


def _shown(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder))
