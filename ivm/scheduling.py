"""When Airflow refreshes a pipeline, and how its tasks are cut and run: the keys `schedule` and `airflow` (pure).

    schedule: "0 5 * * *"                       at these times
    schedule: {on: assets, of: [other.view]}    when another DAG has updated one of these Assets
    schedule: {on: commits, poll: 60s}          when a source has a commit that the views have not read
    schedule: null                              when told to

Invariant: settings that went through here have a meaning together (a connection where one is needed, and only there).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ivm import parameters
from ivm.cron import check_schedule
from ivm.durations import duration, written
from ivm.errors import ConfigError
from ivm.parameters import shown

SHAPES = ("steps", "views")
EXECUTIONS = ("process", "connect", "submit")
#: What triggers a schedule that is not by time, and the key that goes with it.
_EVENTS = {"assets": "of", "commits": "poll"}
_SETTINGS = ("shape", "pool", "execution", "connection")
#: Names of pools and connections, as Airflow takes them.
_NAME = re.compile(r"[\w.-]{1,200}\Z", re.ASCII)
#: Of an Asset's name or URI, in Airflow's database.
_LONGEST_ASSET = 1500
LEAST_POLL, USUAL_POLL = timedelta(seconds=1), timedelta(seconds=60)


@dataclass(frozen=True)
class OnCommits:
    """A refresh follows new commits of the sources, which are looked for every `poll`."""

    poll: timedelta = USUAL_POLL


@dataclass(frozen=True)
class OnAssets:
    """A refresh follows an update of any of these Assets: names, or URIs. None named: those at the sources' places."""

    of: tuple[str, ...] = ()


#: A cron expression, an event, or None for neither.
Schedule = str | OnCommits | OnAssets | None


@dataclass(frozen=True)
class AirflowSettings:
    """`shape`: a task a step, or a task a view besides. `pool`: which of Airflow's pools the tasks take a slot of.

    `execution`: in the task's process, by the Connect server of the `connection`, or by spark-submit with it.
    """

    shape: str = "steps"
    pool: str | None = None
    execution: str = "process"
    connection: str | None = None


def schedule(value: Any, what: str) -> Schedule:
    """The schedule of a pipeline.

    >>> schedule({"on": "commits", "poll": "30s"}, "schedule")
    OnCommits(poll=datetime.timedelta(seconds=30))

    Raises ConfigError for what is none.
    """
    if not isinstance(value, Mapping):
        return check_schedule(value, what)
    value = {"on" if key is True else key: v for key, v in value.items()}  # YAML reads a bare `on` as true
    event = _one_of(value.get("on"), tuple(_EVENTS), f"{what}.on")
    _known(value, ("on", _EVENTS[event]), what)
    if event == "commits":
        return OnCommits(
            duration(value.get("poll", written(USUAL_POLL)), f"{what}.poll", LEAST_POLL, timedelta(days=1))
        )
    return OnAssets(tuple(_asset(name, f"{what}.of") for name in parameters.names(value.get("of", ()), f"{what}.of")))


def airflow_settings(value: Any, what: str) -> AirflowSettings:
    """The settings under `airflow`.

    Raises ConfigError for unknown ones, and for a connection that is missing or serves nothing.
    """
    if value is None:
        return AirflowSettings()
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{what} must be a mapping, found {shown(value)}.", f"There are the settings {', '.join(_SETTINGS)}."
        )
    _known(value, _SETTINGS, what)
    found = AirflowSettings(
        _one_of(value.get("shape", "steps"), SHAPES, f"{what}.shape"),
        _name(value.get("pool"), f"{what}.pool"),
        _one_of(value.get("execution", "process"), EXECUTIONS, f"{what}.execution"),
        _name(value.get("connection"), f"{what}.connection"),
    )
    if (found.connection is None) != (found.execution == "process"):
        raise ConfigError(
            f"{what} has the execution {found.execution!r} {'without' if found.connection is None else 'with'} "
            "a connection.",
            "Name Airflow's connection for connect and submit; process takes none.",
        )
    return found


def _asset(name: str, what: str) -> str:
    if len(name) > _LONGEST_ASSET or not (name.isascii() and name.isprintable()):
        raise ConfigError(
            f"{what} has {shown(name)}, which is no Asset's name or URI.",
            f"It takes at most {_LONGEST_ASSET:,} printable ASCII characters.",
        )
    return name


def _known(value: Mapping[Any, Any], allowed: tuple[str, ...], what: str) -> None:
    unknown = [k for k in value if k not in allowed]
    if unknown:
        raise ConfigError(
            f"Unknown key {', '.join(shown(k) for k in unknown[:5])} in {what}.",
            f"Allowed there: {', '.join(allowed)}.",
        )


def _one_of(value: Any, allowed: tuple[str, ...], what: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{what} is {shown(value)}.", f"Choose one of: {', '.join(allowed)}.")
    return value


def _name(value: Any, what: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _NAME.match(value):
        raise ConfigError(
            f"{what} is {shown(value)}, which is no name of Airflow's.",
            "It takes letters, digits, dots, dashes and underscores.",
        )
    return value
