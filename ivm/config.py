"""A pipeline folder as plain data: pipeline.yml, views/*.sql, checks.yml.

    pipeline.yml    name, root, lane, schedule, sources, views (settings of views, by name)
    views/NAME.sql  one SELECT; a leading comment block may hold `mode: auto`
    checks.yml      expectations by view: {view: {delta: [...], state: [...]}}

Paths may hold ${NAME} or ${NAME:-default}, taken from the environment, and are relative to the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ivm.errors import ConfigError

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_PIPELINE_KEYS = {"name", "root", "lane", "schedule", "sources", "views"}
_SOURCE_KEYS = {"path", "table", "primary_key", "foreign_keys", "effective_date"}
_VIEW_KEYS = {"mode"}
_CHECK_KEYS = {"delta", "state"}


@dataclass(frozen=True)
class SourceConfig:
    name: str
    location: str
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[tuple[tuple[str, ...], str], ...] = ()
    effective_date: str = ""


@dataclass(frozen=True)
class ViewConfig:
    name: str
    sql: str
    mode: str = "auto"
    file: str = ""


@dataclass(frozen=True)
class PipelineConfig:
    """`schedule` is a cron expression or None (Airflow runs it when told to)."""

    name: str
    root: str
    folder: Path
    lane: str = "auto"
    schedule: str | None = None
    sources: tuple[SourceConfig, ...] = ()
    views: tuple[ViewConfig, ...] = ()
    checks: Mapping[str, Any] = field(default_factory=dict)


def load_folder(folder: Path) -> PipelineConfig:
    """Read a pipeline folder. Raises ConfigError naming the file, the key and what is allowed there."""
    file = folder / "pipeline.yml"
    if not file.exists():
        raise ConfigError(f"{folder} is not a pipeline folder: it has no pipeline.yml.", "Make one with `ivm init`.")
    data = _mapping(_yaml(file), file, "the file")
    _known(data, _PIPELINE_KEYS, file, "the top level")
    for key in ("name", "root", "sources"):
        if key not in data:
            raise ConfigError(f"{file} has no {key!r}.", "It needs name, root and sources.")
    settings = _mapping(data.get("views") or {}, file, "views")
    for name, setting in settings.items():
        _known(_mapping(setting or {}, file, f"views.{name}"), _VIEW_KEYS, file, f"views.{name}")
    views = tuple(_view(path, _mapping(settings.get(path.stem) or {}, file, f"views.{path.stem}")) for path in sorted((folder / "views").glob("*.sql")))
    strangers = sorted(set(settings) - {v.name for v in views})
    if strangers:
        raise ConfigError(f"{file} has settings for {', '.join(strangers)}, but there is no views/{strangers[0]}.sql.", "Remove them or add the file.")
    return PipelineConfig(
        str(data["name"]),
        _location(str(data["root"]), folder, file),
        folder,
        str(data.get("lane", "auto")),
        data.get("schedule"),
        tuple(_source(n, s, folder, file) for n, s in _mapping(data["sources"], file, "sources").items()),
        views,
        _checks(folder),
    )


def _yaml(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text()) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {str(error).splitlines()[0]}", str(getattr(error, "problem_mark", "") or "").strip()) from error


def _mapping(value: Any, file: Path, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {where} must be a mapping of names, found {type(value).__name__}.", "See docs/pipelines.md.")
    return value


def _known(data: Mapping[str, Any], allowed: set[str], file: Path, where: str) -> None:
    unknown = sorted(str(k) for k in data if k not in allowed)
    if unknown:
        raise ConfigError(f"{file}: unknown key {', '.join(repr(k) for k in unknown)} in {where}.", f"Allowed there: {', '.join(sorted(allowed))}.")


def _source(name: str, data: Any, folder: Path, file: Path) -> SourceConfig:
    data = {"path": data} if isinstance(data, str) else _mapping(data, file, f"sources.{name}")
    _known(data, _SOURCE_KEYS, file, f"sources.{name}")
    if ("path" in data) == ("table" in data):
        raise ConfigError(f"{file}: source {name!r} needs either a path or a table.", "Give exactly one of the two.")
    location = _location(str(data["path"]), folder, file) if "path" in data else str(data["table"])
    primary = data.get("primary_key") or []
    foreign = _mapping(data.get("foreign_keys") or {}, file, f"sources.{name}.foreign_keys")
    keys = tuple((tuple(c.strip() for c in columns.split(",")), str(to)) for columns, to in foreign.items())
    return SourceConfig(name, location, (primary,) if isinstance(primary, str) else tuple(primary), keys, str(data.get("effective_date") or ""))


def _location(text: str, folder: Path, file: Path) -> str:
    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], match[2])
        if found is None:
            raise ConfigError(
                f"{file} uses ${{{match[1]}}}, which is not set in the environment.", f"Set {match[1]}, or give a default: ${{{match[1]}:-value}}."
            )
        return found

    expanded = _VARIABLE.sub(value, text)
    if "://" in expanded or Path(expanded).is_absolute():
        return expanded
    return str((folder / expanded).resolve())


def _view(path: Path, settings: dict[str, Any]) -> ViewConfig:
    """A view file: settings may stand in its leading `--` comments as `-- mode: full`."""
    sql = path.read_text()
    found: dict[str, Any] = {}
    for line in sql.splitlines():
        if not line.strip().startswith("--"):
            break
        match = re.match(r"--\s*(\w+)\s*:\s*(\S+)\s*$", line.strip())
        if match and match[1] in _VIEW_KEYS:
            found[match[1]] = match[2]
    return ViewConfig(path.stem, sql, **{"mode": "auto", **found, **settings}, file=str(path))


def _checks(folder: Path) -> dict[str, Any]:
    file = folder / "checks.yml"
    if not file.exists():
        return {}
    data = _mapping(_yaml(file), file, "the file")
    for view, checks in data.items():
        _known(_mapping(checks or {}, file, view), _CHECK_KEYS, file, view)
    return data
