"""A pipeline folder as plain data: pipeline.yml, views/*.sql, checks.yml.

    pipeline.yml    name, root, lane, engine, arrange, mode, schedule, airflow, retention, checks, audit, sources, views
                    (settings of views, by name)
    views/NAME.sql  one SELECT; a leading comment block may hold `mode: auto` and `freshness: 1h`
    checks.yml      expectations by view: {view: {delta: [...], state: [...]}}

Paths may hold ${NAME} or ${NAME:-default} (where NAME isn't set, or is empty), taken from the environment, and are
relative to the folder.

Invariant: a PipelineConfig has a meaning (names are names, references lead somewhere, expectations exist), as far as
that can be told without opening a table; anything else is a ConfigError. Airflow's DAG processor reads folders often:
nothing heavy is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from ivm import parameters, scheduling
from ivm.auditing import Audits, audits_of
from ivm.checking import Checking, checking_of
from ivm.durations import duration
from ivm.errors import ConfigError
from ivm.files import os_reason, read_text, read_yaml
from ivm.housekeeping import BOUNDS, Retention
from ivm.names import check_name, is_path, table_ref
from ivm.parameters import ARRANGE, ENGINES, LANES, MODES, check_references, is_url, shown
from ivm.quality.catalog import check_rules
from ivm.scheduling import AirflowSettings, OnAssets, OnCommits, Schedule
from ivm.storage.location import Location

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^${}]*))?\}")
_SETTING = re.compile(r"\s*--\s*(\w+)\s*:\s*(.*?)\s*\Z")
_PIPELINE_KEYS = {
    "name", "root", "lane", "engine", "arrange", "mode", "schedule", "airflow", "retention", "sources", "views",
    "checks", "audit",
}  # fmt: skip
_SOURCE_KEYS = {"path", "table", "primary_key", "foreign_keys", "effective_date"}
_VIEW_KEYS = {"mode", "freshness"}
_CHECK_KEYS = {"delta", "state"}
#: The shortest freshness that can be asked for: a run of Airflow alone takes seconds.
LEAST_FRESHNESS = timedelta(minutes=1)
#: What checks are called where they come from no file.
CHECKS = "checks"


@dataclass(frozen=True)
class SourceConfig:
    name: str
    location: str
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[tuple[tuple[str, ...], str], ...] = ()
    effective_date: str = ""


@dataclass(frozen=True)
class ViewConfig:
    """`sql` is the file's one statement, without the semicolon that ends it and what comes after."""

    name: str
    sql: str
    mode: str = "auto"
    file: str = ""
    #: How far it may be behind its sources; None for no target.
    freshness: timedelta | None = None


@dataclass(frozen=True)
class PipelineConfig:
    """`schedule` is a cron expression, an event, or None (Airflow runs it when told to).

    `mode` is that of views which say none of their own; each view's is in `views`.
    """

    name: str
    root: str
    folder: Path
    lane: str = "auto"
    schedule: Schedule = None
    sources: tuple[SourceConfig, ...] = ()
    views: tuple[ViewConfig, ...] = ()
    checks: Mapping[str, Any] = field(default_factory=dict)
    retention: Retention = field(default_factory=Retention)
    airflow: AirflowSettings = field(default_factory=AirflowSettings)
    mode: str = "auto"
    checking: Checking = field(default_factory=Checking)
    audit: Audits | None = None
    #: "" where the environment tells (see `ivm.parameters.engine`).
    engine: str = ""
    arrange: str = parameters.AUTO


def load_folder(folder: Path) -> PipelineConfig:
    """Read a pipeline folder. Raises ConfigError naming the file, the key and what is allowed there."""
    folder = Path(parameters.location(folder, "the pipeline's folder"))
    file = folder / "pipeline.yml"
    if not _there(file):
        raise ConfigError(f"{folder} is not a pipeline folder: it has no pipeline.yml.", "Make one with `ivm init`.")
    data = _mapping(_or_empty(read_yaml(file)), file, "the file")
    _known(data, _PIPELINE_KEYS, file, "the top level")
    for key in ("name", "root", "sources"):
        if key not in data:
            raise ConfigError(f"{file} has no {key!r}.", "It needs name, root and sources.")
    with _in(file):
        name = check_name(data["name"], "pipeline")
        root = Location.of(_expanded(data["root"], folder, "root")).url
        lane = _one_of(data.get("lane", "auto"), LANES, "lane")
        engine = _one_of(data["engine"], ENGINES, "engine") if "engine" in data else ""
        arrange = _one_of(data.get("arrange", parameters.AUTO), ARRANGE, "arrange")
        mode = _one_of(data.get("mode", "auto"), MODES, "mode")
        schedule = scheduling.schedule(data.get("schedule"), "schedule")
        airflow = scheduling.airflow_settings(data.get("airflow"), "airflow")
        sources = tuple(_source(n, s, folder, file) for n, s in _mapping(data["sources"], file, "sources").items())
        check_references({s.name: (s.primary_key, s.foreign_keys) for s in sources})
        _check_watched(schedule, sources)
        settings = _settings(data.get("views"), file)
        checking = checking_of(data.get("checks"))
        retention = Retention(
            **_known(_mapping(_or_empty(data.get("retention")), file, "retention"), set(BOUNDS), file, "retention")
        )
    views = tuple(_view(path, {"mode": mode}, settings.get(path.stem, {})) for path in _view_files(folder / "views"))
    strangers = sorted(set(settings) - {v.name for v in views})
    if strangers:
        listed, first = ", ".join(map(shown, strangers[:10])), shown(strangers[0])[1:-1]
        raise ConfigError(
            f"{file} has settings for {listed}, but there is no views/{first}.sql.",
            "Remove them or add the file.",
        )
    _distinct([s.name for s in sources], [v.name for v in views], file)
    with _in(file):
        audits = audits_of(data.get("audit"), [v.name for v in views])
    return PipelineConfig(
        name,
        root,
        folder,
        lane,
        schedule,
        sources,
        views,
        _checks(folder / "checks.yml", {v.name for v in views}),
        retention,
        airflow,
        mode,
        checking,
        audits,
        engine,
        arrange,
    )


# -- pipeline.yml -----------------------------------------------------------------------------------


def _settings(data: Any, file: Path) -> dict[str, dict[str, Any]]:
    """Settings by view."""
    found = {}
    for view, setting in _mapping(_or_empty(data), file, "views").items():
        where = f"views.{view}"
        known = _known(_mapping(_or_empty(setting), file, where), _VIEW_KEYS, file, where)
        found[view] = {key: view_setting(key, value, f"{where}.{key}") for key, value in known.items()}
    return found


def view_setting(key: str, value: Any, where: str) -> Any:
    """A setting of a view; one of `_VIEW_KEYS`."""
    return duration(value, where, LEAST_FRESHNESS) if key == "freshness" else _one_of(value, MODES, where)


def _check_watched(schedule: Schedule, sources: Iterable[SourceConfig]) -> None:
    """Raises ConfigError where a source is waited for whose place only Spark finds."""
    unseen = next((s for s in sources if not is_path(s.location)), None)
    if unseen is None:
        return
    catalog = f"source {unseen.name!r} is the catalog table {unseen.location}"
    if isinstance(schedule, OnCommits):
        raise ConfigError(
            f"schedule is on commits, but {catalog}, whose log is only found by Spark.",
            "Give the source by path, or the schedule as a cron expression.",
        )
    if isinstance(schedule, OnAssets) and not schedule.of:
        raise ConfigError(
            f"schedule is on the sources' Assets, but {catalog}, which has no URI.",
            "Name the Assets (`of`), or give the source by path.",
        )


def _source(name: str, data: Any, folder: Path, file: Path) -> SourceConfig:
    check_name(name, "source")
    where = f"sources.{name}"
    data = {"path": data} if isinstance(data, str) else _mapping(data, file, where)
    _known(data, _SOURCE_KEYS, file, where)
    if ("path" in data) == ("table" in data):
        raise ConfigError(f"{file}: source {name!r} needs either a path or a table.", "Give exactly one of the two.")
    location = (
        _expanded(data["path"], folder, f"{where}.path") if "path" in data else _table(data["table"], f"{where}.table")
    )
    primary, foreign, effective = (data.get(key) for key in ("primary_key", "foreign_keys", "effective_date"))
    return SourceConfig(
        name,
        location,
        parameters.columns(primary, f"{where}.primary_key") if primary is not None else (),
        parameters.references(foreign, f"{where}.foreign_keys") if foreign is not None else (),
        parameters.text(effective, f"{where}.effective_date", "Name one column.") if effective is not None else "",
    )


def _table(value: Any, where: str) -> str:
    name = parameters.text(value, where, "Give a catalog identifier such as sales.orders.")
    if is_path(name):
        raise ConfigError(
            f"{where} is {shown(name)}, which is a path.",
            "Write it as `path:`; a table is a catalog identifier such as sales.orders.",
        )
    table_ref(name)
    return name


def _expanded(value: Any, folder: Path, what: str) -> str:
    """A location with its ${NAME}s replaced, relative to the folder."""

    def variable(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if match[2] is not None:
            found = found or match[2]  # in place of an empty value, too, as in a shell
        if found is None:
            raise ConfigError(
                f"{what} uses ${{{match[1]}}}, which is not set in the environment.",
                f"Set {match[1]}, or give a default: ${{{match[1]}:-value}}.",
            )
        return found

    text = parameters.text(value, what, "Give a folder's path or a URL.")
    if "${" in _VARIABLE.sub("", text):
        raise ConfigError(
            f"{what} is {shown(text)}, with a ${{...}} that is not ended, has no name, or holds another one.",
            "Write ${NAME} or ${NAME:-default}; a default holds no $, { or }.",
        )
    expanded = parameters.location(_VARIABLE.sub(variable, text), what)
    if is_url(expanded) or Path(expanded).is_absolute():
        return expanded
    return parameters.location(os.path.realpath(folder / expanded), what)


def _one_of(value: Any, allowed: tuple[str, ...], what: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{what} is {shown(value)}.", f"Choose one of: {', '.join(allowed)}.")
    return value


def _distinct(sources: list[str], views: list[str], file: Path) -> None:
    seen: dict[str, str] = {}
    for name in [*sources, *views]:
        if name.lower() in seen:
            raise ConfigError(
                f"{file}: the name {name!r} is taken by {seen[name.lower()]!r}.",
                "Sources and views share one set of names, without regard to case.",
            )
        seen[name.lower()] = name


# -- views/*.sql ------------------------------------------------------------------------------------


def _view_files(folder: Path) -> list[Path]:
    """The view files in order; a folder that can't be listed is an error, one that isn't there holds none."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(
                Path(e.path) for e in entries if e.name.lower().endswith(".sql") and not e.name.startswith(".")
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            f"{folder} can't be listed: {os_reason(error)}.", "It is the folder of the view files."
        ) from error
    return found


def _view(path: Path, defaults: dict[str, Any], settings: dict[str, Any]) -> ViewConfig:
    """A view file: settings may stand in its leading `--` comments as `-- mode: full`.

    What stands there goes before the pipeline's `defaults`, and the view's `settings` in pipeline.yml before both.
    """
    with _in(path):
        name = check_name(path.stem, "view")
        sql = read_text(path)
        found: dict[str, Any] = {}
        for line in sql.split("\n"):
            if line.strip() and not line.strip().startswith("--"):
                break
            match = _SETTING.match(line)
            if match and match[1] in _VIEW_KEYS:
                found[match[1]] = view_setting(match[1], match[2], f"the comment's {match[1]}")
        sql = _statement(sql)
        if not sql.strip():
            raise ConfigError("it is empty.", "A view file holds one SELECT.")
    return ViewConfig(name, sql, file=str(path), **{**defaults, **found, **settings})


def _statement(sql: str) -> str:
    """A view file's one statement (see `ivm.sql.text.one_statement`); few files hold a semicolon before their end."""
    ended = sql.strip().rstrip(";")
    if ";" not in ended:
        return ended
    from ivm.sql.text import one_statement  # which takes a parser

    return one_statement(sql)


# -- checks.yml -------------------------------------------------------------------------------------


def _checks(file: Path, views: set[str]) -> dict[str, Any]:
    if not _there(file):
        return {}
    data = _mapping(_or_empty(read_yaml(file)), file, "the file")
    with _in(file):
        check_checks(data, views)
    return data


def check_checks(checks: Mapping[str, Any], views: Iterable[str]) -> None:
    """Raises ConfigError for checks of what is no view, and for what is no expectation."""
    listed = sorted(views)
    for view, by_kind in checks.items():
        if view not in listed:
            raise ConfigError(
                f"There are checks for {shown(view)}, which is no view.", f"There are: {', '.join(listed) or 'none'}."
            )
        for kind, rules in _known(_mapping(_or_empty(by_kind), CHECKS, view), _CHECK_KEYS, CHECKS, view).items():
            if rules is not None:
                check_rules(view, rules, f"{view}.{kind}")


# -- parts ------------------------------------------------------------------------------------------


@contextmanager
def _in(file: Path) -> Iterator[None]:
    """Name the file in front of an error that doesn't."""
    try:
        yield
    except ConfigError as error:
        if str(file) in error.message:
            raise
        raise ConfigError(f"{file}: {error.message}", error.hint) from error


def _there(file: Path) -> bool:
    """Whether something has this name, be it a broken link, or in a folder that may not be entered."""
    try:
        os.lstat(file)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(
            f"{file} can't be read: {os_reason(error)}.", "Check the path and its permissions."
        ) from error
    return True


def _or_empty(value: Any) -> Any:
    """A key with nothing behind it (or a file with nothing in it) stands for an empty mapping."""
    return {} if value is None else value


def _mapping(value: Any, file: Path | str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(
            f"{file}: {where} must be a mapping of names, found {type(value).__name__}.", "See docs/pipelines.md."
        )
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(
                f"{file}: {where} has the key {shown(key)}, which YAML reads as {type(key).__name__}.",
                "Write it in quotes.",
            )
    return value


def _known(data: dict[str, Any], allowed: set[str], file: Path | str, where: str) -> dict[str, Any]:
    unknown = sorted(k for k in data if k not in allowed)
    if unknown:
        raise ConfigError(
            f"{file}: unknown key {', '.join(shown(k) for k in unknown[:5])} in {where}.",
            f"Allowed there: {', '.join(sorted(allowed))}.",
        )
    return data
