"""Which models become views, and their SQL.

    view's SQL = compiled SQL, with the tables of other views called by these views' names

Compiled SQL is what dbt runs: refs, variables and macros are resolved, ephemeral models are in its WITH. What no view
is made of stays with dbt, and each of these is named, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ivm.adopt import captured, renamed
from ivm.dbt.manifest import COMPILE, Model, Project, reached
from ivm.errors import ConfigError, ViewError
from ivm.names import check_name
from ivm.sql.substitution import check_written_out
from ivm.sql.text import relation_tables

#: A model that says so wants to be a view of ivm's.
DECLARED = "ivm"
#: Models without a table that a source could be.
NO_TABLES = {"ephemeral", "view", DECLARED}


@dataclass(frozen=True)
class Left:
    """What isn't taken over, and why."""

    what: str
    why: str


def chosen(project: Project, names: Sequence[str] = ()) -> tuple[Model, ...]:
    """The models that become views: those named, else those materialized as 'ivm', else all.

    With them come the models that they read and that have no table of their own. Raises ConfigError for a name that is
    no model, or one of a model in Python.
    """
    made = [m for m in project.models.values() if m.language == "sql" and not m.ephemeral]
    if strangers := sorted(set(names) - {m.name for m in made}):
        raise ConfigError(
            f"{strangers[0]} is no model in SQL of the project {project.name}.",
            f"There are: {', '.join(m.name for m in made) or 'none'}.",
        )
    start = [m.id for m in made if m.name in names] or [m.id for m in made if m.materialized == DECLARED]
    taken = within(project, start or [m.id for m in made])
    return tuple(m for m in made if m.id in taken)


def within(project: Project, start: Iterable[str]) -> set[str]:
    """Models by their ids, and those that they read and that have no table of their own."""
    edges = {
        m.id: [r for r in m.reads if r in project.models and project.models[r].materialized in NO_TABLES]
        for m in project.models.values()
    }
    return reached(start, edges)


def views(project: Project, models: Sequence[Model]) -> dict[str, str]:
    """SQL by view. Raises ConfigError or ViewError, naming the model, for what no view can be made of."""
    if raw := [m for m in models if not m.sql]:
        raise ConfigError(f"{_listed(raw)} not compiled in this manifest.", f"Run `{COMPILE}`.")
    if asking := [m for m in models if m.id in project.asking]:
        raise ConfigError(
            f"{_listed(asking)} incremental and asks by Jinja which tables there are: with --full-refresh, too, the "
            "compiled SQL goes by whether the model was built before.",
            "Ask by is_incremental(), or leave the model to dbt (--model names others).",
        )
    if partial := [m for m in models if m.id in project.partial]:
        raise ConfigError(
            f"{_listed(partial)} incremental, and nothing proves that the compiled SQL is the whole query, without "
            "what is_incremental() or other Jinja makes of it in a run.",
            f"Run `{COMPILE}` (a model with full_refresh: false needs that taken out for it), and leave "
            "run_results.json beside the manifest.",
        )
    if batched := [m for m in models if m.id in project.batched]:
        raise ConfigError(
            f"{_listed(batched)} incremental by microbatch: what dbt builds begins at the model's `begin`, which the "
            "compiled SQL doesn't say.",
            "Write that into the query (WHERE event_time >= ...) and name another incremental_strategy, or leave the "
            "model to dbt (--model names others).",
        )
    twice = [name for name, times in Counter(m.name.lower() for m in models).items() if times > 1]
    if twice:
        raise ConfigError(f"Several models are called {twice[0]}.", "Rename one, or name other models with --model.")
    return {check_name(m.name, "view"): called(f"Model {m.name}", m.sql, models, m.relation) for m in models}


def called(what: str, sql: str, models: Sequence[Model], own: str = "") -> str:
    """A query with the tables of models called by their views' names; `own` is the table that it would fill.

    Raises ViewError for what is no query or holds `${`, ConfigError for one that reads its own table, whose WITH hides
    a view, or that reads a table without a schema by a view's name.
    """
    names = {m.relation.lower(): m.name for m in models}
    views = {v.lower() for v in names.values()}
    try:
        check_written_out(sql, "Its SQL")
        read = {t.lower() for t, *_ in relation_tables(sql)}
        hidden = captured(sql, names)
    except ViewError as error:
        raise ViewError(f"{what}: {error.message}", error.hint) from error
    if own.lower() in read:
        raise ConfigError(
            f"{what} reads its own table {own}.",
            "A view is a query of other tables: leave that part out, or leave the model to dbt (--model names others).",
        )
    if bare := sorted(read & views - set(names)):
        raise ConfigError(
            f"{what} reads {bare[0]}, a table without a schema that is called as a model's view.",
            f"Write ref('{bare[0]}') where the model is meant, and the table's schema where it isn't; or leave it to "
            "dbt (--model names others).",
        )
    if hidden:
        name = min(hidden)
        raise ConfigError(
            f"{what} has an entry {name} in its WITH and reads the model {name} where that entry hides it.",
            "Rename the entry.",
        )
    return renamed(sql, names)


def left(project: Project, models: Sequence[Model]) -> list[Left]:
    """What of the models and tables stays with dbt, and what of the views dbt would have done otherwise."""
    found = []
    for m in project.models.values():
        if m in models:
            if m.hooks:
                found.append(Left(m.name, "its hooks are not run"))
            if m.header:
                found.append(Left(m.name, "its sql_header is not run: what it sets or defines has to be there for ivm"))
            if m.momentary:
                found.append(Left(m.name, f"its SQL holds {m.momentary} as of the compilation"))
        elif m.language != "sql":
            found.append(Left(m.name, "it is written in Python: dbt goes on building it, views read its table"))
        elif not m.ephemeral:
            found.append(Left(m.name, "it was not asked for: dbt goes on building it, views read its table"))
    found += [
        Left(t.name, f"a {t.kind}: dbt goes on loading it, views read its table")
        for t in project.tables.values()
        if t.kind != "source"
    ]
    return found + [Left(i.rpartition(".")[2], "it is disabled") for i in project.disabled]


def _listed(models: Sequence[Model]) -> str:
    names = ", ".join(m.name for m in models)
    return f"Model {names} is" if len(models) == 1 else f"Models {names} are"
