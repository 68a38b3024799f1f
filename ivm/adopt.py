"""From queries that somebody has to a pipeline folder: their tables, whether these have a change feed, and their keys.

    adopt = look (nothing is written) -> switch feeds on, where that is asked for -> write the folder

A key is proposed only where counting says so: each of the table's rows has another value, and none is NULL; a foreign
key where each value is in the other table's key. Both hold for the table as it is now, and only steer how rows are
found. Tables are looked at without Spark; one that only a catalog knows is written down as it is called there.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlglot
import yaml
from deltalake import DeltaTable
from sqlglot import exp

from ivm import parameters
from ivm.errors import ConfigError, SourceError
from ivm.feed.history import FEED, feed_is_on
from ivm.files import read_text, write_new
from ivm.lake import native
from ivm.lake.types import columns_of
from ivm.names import check_name, ident, is_path, native_ident
from ivm.plan.anchors import keyable
from ivm.plan.nodes import Column
from ivm.sql.dialect import IvmSpark
from ivm.sql.substitution import check_written_out
from ivm.sql.text import one_statement, relation_tables
from ivm.storage.location import Location
from ivm.table.protocol import Verb
from ivm.table.rust import RustTable

_KEY_NAME = re.compile(r"(^|_)(id|key|sk|uuid|number|no|code)$|key$|[a-z]Id$")
#: Columns of which keys are tried; of two columns as many pairs as they make.
_TRIED = 4
#: Where a new pipeline keeps its state and its outputs, seen from its folder.
ROOT = "./lake"


@dataclass(frozen=True)
class Table:
    """A table that the queries read. `written` is what they call it; `feed` is None where it wasn't looked at.

    `primary_key` and `foreign_keys` (column -> source) are as counted.
    """

    name: str
    written: str
    location: str
    feed: bool | None = None
    rows: int | None = None
    primary_key: tuple[str, ...] = ()
    foreign_keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Adoption:
    """What would be written: sources, and views with their tables called by the sources' names.

    `settings` and `checks` are by view, as in pipeline.yml and checks.yml, which `heading` stands at the head of as a
    comment; `left` says what nothing was made of.
    """

    tables: tuple[Table, ...]
    views: Mapping[str, str]
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    checks: Mapping[str, Any] = field(default_factory=dict)
    heading: str = ""
    left: tuple[str, ...] = ()

    @property
    def without_feed(self) -> tuple[Table, ...]:
        return tuple(t for t in self.tables if t.feed is False)


def queries(given: str, name: str = "adopted") -> dict[str, str]:
    """Views by name: the `*.sql` files of a folder, one such file, or the text itself, which is called `name`.

    Raises ConfigError where there is none.
    """
    try:
        place = Path(given)
        found = _files(place) if place.is_dir() else [place] if place.is_file() else None
    except (OSError, ValueError):  # too long for a path, or no path at all
        found = None
    if found is None:
        return {check_name(name, "view"): one_statement(given)}
    if not found:
        raise ConfigError(f"There is no .sql file in {given}.", "Name a folder of queries, or give a SELECT.")
    return {check_name(f.stem, "view"): one_statement(read_text(f)) for f in found}


def _files(folder: Path) -> list[Path]:
    """The queries of a folder: what a pipeline would take for view files there."""
    return sorted(f for f in folder.iterdir() if f.name.lower().endswith(".sql") and not f.name.startswith("."))


def look(
    views: Mapping[str, str],
    folder: str = "",
    places: Mapping[str, str] | None = None,
    kept: Mapping[str, str] | None = None,
) -> Adoption:
    """Find the tables of queries and look at them.

    A table lies where `places` says (by what the queries call it: a path or catalog identifier), else below `folder`
    under its name, else at the path that the query names, else in the catalog. `kept` are the places of sources that
    are there already, by name: the table at such a place is called so, and no other one. Raises ViewError for what is
    no query or holds `${`, SourceError for a path that is no Delta table, ConfigError for a place of what no query
    reads.
    """
    for view, sql in views.items():
        check_written_out(sql, f"The SQL of {view}")
    known, places = {v.lower() for v in views}, {k.lower(): v for k, v in (places or {}).items()}
    read = {t.lower(): t for sql in views.values() for t, *_ in relation_tables(sql) if t.lower() not in known}
    written = list(read.values())
    if strangers := sorted(set(places) - set(read)):
        raise ConfigError(f"No query reads {', '.join(strangers)}.", f"They read: {', '.join(written) or 'no table'}.")
    at = {w.lower(): _absolute(places.get(w.lower()) or _place(w, folder), w) for w in written}
    _check_distinct([w for w in written if w.lower() not in places and not is_path(w)], at)
    own = {w: [n for n, place in (kept or {}).items() if same_place(place, at[w])] for w in at}
    names = _names(written, known, own, kept or ())
    while bound := {name for sql in views.values() for name in captured(sql, names)}:  # others may be, by the new names
        known |= bound
        names = _names(written, known, own, kept or ())
    tables = [_table(names[w.lower()], w, at[w.lower()]) for w in written]
    called = {v: renamed(sql, names) for v, sql in views.items()}
    return Adoption(tuple(_with_references(tables, called.values())), called)


def _names(
    written: Sequence[str], taken: set[str], own: Mapping[str, Sequence[str]], kept: Collection[str]
) -> dict[str, str]:
    """By what a table is called (in lower case) its source's name: its last part, or as many as tell them apart.

    One that has names already (`own`, of those that are `kept`) is called by the first that isn't taken.

    >>> _names(["sales.orders", "web.orders", "delta./lake/2024/lines"], set(), {}, ())
    {'sales.orders': 'orders', 'web.orders': 'web_orders', 'delta./lake/2024/lines': 'lines'}
    >>> _names(["sales.orders", "web.orders"], set(), {"web.orders": ["orders"]}, ["orders"])
    {'sales.orders': 'sales_orders', 'web.orders': 'orders'}
    """
    found: dict[str, str] = {}
    for text in written:
        parts = [re.sub(r"\W", "_", p) for p in re.split(r"[./]", text) if p]
        options = ["_".join(parts[-n:]) for n in range(1, len(parts) + 1)]
        options = [f"t_{o}" if o[0].isdigit() else o for o in options]
        used = {*(n.lower() for n in found.values()), *taken}
        free = [o for o in own.get(text.lower(), ()) if o.lower() not in used]
        used |= {n.lower() for n in kept}
        numbered = (f"{options[-1]}_{n}" for n in itertools.count(1))
        free += [o for o in options if o.lower() not in used]
        found[text.lower()] = check_name(
            free[0] if free else next(o for o in numbered if o.lower() not in used), "source"
        )
    return found


def same_place(one: str, other: str) -> bool:
    """Whether two paths, or two catalog identifiers, are those of one table, links followed.

    >>> same_place("/lake//orders/", "file:///lake/orders"), same_place("sales.Orders", "sales.orders")
    (True, True)
    """
    if not (is_path(one) and is_path(other)):
        return one.lower() == other.lower()
    one, other = (parameters.location(place, "a place") for place in (one, other))
    return one == other or (
        not (parameters.is_url(one) or parameters.is_url(other)) and os.path.realpath(one) == os.path.realpath(other)
    )


def _place(written: str, folder: str) -> str:
    """Where a table lies: the path that it names, below a folder of tables, or as the catalog calls it."""
    if written.lower().startswith("delta.") and is_path(written):
        return written[len("delta.") :]
    if folder:
        below = Location.of(folder) / written.rsplit(".", 1)[-1]
        if (below / "_delta_log").exists():
            return below.url
    return written


def _absolute(place: str, written: str) -> str:
    """A place as a pipeline takes it, which looks for a relative path in its own folder and not in the current one."""
    if not is_path(place):
        return place
    found = parameters.location(place, f"the place of {written}")
    return found if parameters.is_url(found) else os.path.abspath(found)


def _check_distinct(written: Iterable[str], at: Mapping[str, str]) -> None:
    """Raises ConfigError for tables that would lie in one folder only because they end in its name.

    `orders` and `sales.orders` may be one table, which lies in the current database; `web.orders` is another one.
    """
    seen: dict[str, str] = {}
    for text in sorted(written, key=lambda t: -t.count(".")):
        longest = seen.setdefault(at[text.lower()], text)
        if not f".{longest}".lower().endswith(f".{text}".lower()):
            raise ConfigError(
                f"{longest} and {text} would both be the table at {at[text.lower()]}.",
                f"Say with --table which one lies where: --table {longest}=PLACE --table {text}=PLACE.",
            )


def _table(name: str, written: str, location: str) -> Table:
    if not is_path(location):
        return Table(name, written, location)
    table = RustTable(location)
    try:
        found = table.snapshot()
    except Exception as error:
        raise SourceError(
            f"{written} is not a Delta table at {location}: {str(error).splitlines()[0]}.",
            f"Say where it lies: --table {written}=PATH.",
        ) from error
    feed = feed_is_on(found.properties)
    if table.refusal(Verb.READ):
        return Table(name, written, location, feed)
    rows, key = counted_key(table, found.columns)
    return Table(name, written, location, feed, rows, key)


def counted_key(table: RustTable, columns: Sequence[Column]) -> tuple[int, tuple[str, ...]]:
    """The rows of a table and its key, one column or two, that counting confirms; () where there is none."""
    named = [c.name for c in columns if keyable(c.type)]
    tried = [n for n in named if _KEY_NAME.search(n)][:_TRIED] or named[:1]
    (row,) = table.query(functools.partial(_counts, tried)).to_pylist()
    rows = int(row["n"])
    single = next((c for i, c in enumerate(tried) if row[f"c{i}"] == rows), None)
    if not rows or single is not None:
        return rows, (single,) if rows and single is not None else ()
    for pair in itertools.combinations(tried, 2):
        if table.query(functools.partial(_pairs, pair))["n"][0].as_py() == rows:
            return rows, pair
    return rows, ()


def _counts(columns: Sequence[str], table: str, q: Callable[[str], str]) -> str:
    counts = [f"count(DISTINCT {q(c)}) AS c{i}" for i, c in enumerate(columns)]
    return f"SELECT {', '.join(['count(*) AS n', *counts])} FROM {table}"


def _pairs(pair: Sequence[str], table: str, q: Callable[[str], str]) -> str:
    there = " AND ".join(f"{q(c)} IS NOT NULL" for c in pair)
    return f"SELECT count(*) AS n FROM (SELECT DISTINCT {', '.join(map(q, pair))} FROM {table} WHERE {there}) AS d"


def _with_references(tables: Sequence[Table], sqls: Iterable[str]) -> list[Table]:
    """The tables with their foreign keys: columns that a query equals with another's key, and hold nothing else."""
    looked = {t.name: native.table(t.location) for t in tables if t.rows is not None}
    columns = {n: {c.name.lower(): c.name for c in columns_of(d.schema().to_json())} for n, d in looked.items()}
    equal = {frozenset(pair) for sql in sqls for pair in _equalities(sql)}
    made = []
    for table in tables:
        found: dict[str, str] = {}
        for other in tables:
            if table.name == other.name or not {table.name, other.name} <= set(looked) or len(other.primary_key) != 1:
                continue
            key = other.primary_key[0]
            for lower, column in columns[table.name].items():
                joined = frozenset((lower, key.lower())) in equal
                if joined and (column,) != table.primary_key and _refers(looked, table.name, column, other.name, key):
                    found.setdefault(column, other.name)
        made.append(Table(**{**vars(table), "foreign_keys": found}))
    return made


def _equalities(sql: str) -> list[tuple[str, str]]:
    """The names of the columns that a query sets equal; those of USING are equal to themselves."""
    tree = sqlglot.parse_one(sql, read=IvmSpark)
    found = [
        (e.this.name.lower(), e.expression.name.lower())
        for e in tree.find_all(exp.EQ)
        if isinstance(e.this, exp.Column) and isinstance(e.expression, exp.Column)
    ]
    return found + [
        (u.name.lower(), u.name.lower()) for j in tree.find_all(exp.Join) for u in j.args.get("using") or ()
    ]


def _refers(looked: Mapping[str, DeltaTable], table: str, column: str, other: str, key: str) -> bool:
    mine, its = native_ident(column), native_ident(key)
    try:
        lost = native.query(
            f"SELECT count(*) AS n FROM a LEFT ANTI JOIN b ON a.{mine} = b.{its} WHERE a.{mine} IS NOT NULL",
            {"a": looked[table], "b": looked[other]},
        )
    except Exception:  # noqa: BLE001 - columns of types that can't be compared are no reference
        return False
    return bool(lost["n"][0].as_py() == 0)


def captured(sql: str, names: Mapping[str, str]) -> set[str]:
    """The new names (in lower case) that would no longer stand for tables in a query, but for an entry of its WITH.

    >>> captured("WITH a AS (SELECT 1 AS x) SELECT x FROM a, web.a", {"web.a": "a"})
    {'a'}
    """
    meant = Counter(names.get(t.lower(), t).lower() for t, *_ in relation_tables(sql))
    return set(meant - Counter(t.lower() for t, *_ in relation_tables(renamed(sql, names))))


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """A query with its tables called by the sources' names; one that is called otherwise keeps its name as an alias.

    >>> renamed("SELECT orders.id FROM web.orders", {"web.orders": "web_orders"})
    'SELECT orders.id FROM web_orders AS `orders`'
    """
    for written, start, end, aliased in reversed(relation_tables(sql)):
        name, last = names.get(written.lower()), written.rsplit(".", 1)[-1]
        if name is not None and name != written:
            plain = aliased or is_path(written) or last.lower() == name.lower()
            sql = sql[:start] + name + ("" if plain else f" AS {ident(last)}") + sql[end:]
    return sql


def switch_on(tables: Sequence[Table]) -> None:
    """Switch the change feeds of tables on: a property of theirs; from then on their writers keep change files."""
    for table in tables:
        native.writable(table.location).alter.set_table_properties({FEED: "true"})


def write(adoption: Adoption, folder: Path, name: str, root: str = ROOT) -> list[str]:
    """Write the pipeline folder; returns its files. Raises ConfigError where one of them is there already."""
    check_name(name, "pipeline")
    files = {"pipeline.yml": _yaml(adoption, name, root), **made_files(adoption)}
    return write_new(folder, files, "Choose another folder with --to (or --again, where it came from dbt).")


def made_files(adoption: Adoption) -> dict[str, str]:
    """The views and checks of a pipeline folder, by path."""
    files = {f"views/{v}.sql": f"{s}\n" for v, s in adoption.views.items()}
    if adoption.checks:
        files["checks.yml"] = f"{adoption.heading}{yaml.safe_dump(dict(adoption.checks), sort_keys=False)}"
    return files


def _yaml(adoption: Adoption, name: str, root: str) -> str:
    sources = {}
    for t in adoption.tables:
        key = t.primary_key[0] if len(t.primary_key) == 1 else list(t.primary_key)
        place = {"path" if is_path(t.location) else "table": t.location}
        references = {"foreign_keys": dict(t.foreign_keys)} if t.foreign_keys else {}
        sources[t.name] = place | ({"primary_key": key} if t.primary_key else {}) | references
    settings = {"views": {v: dict(s) for v, s in adoption.settings.items()}} if adoption.settings else {}
    made = {"name": name, "root": root, "schedule": None, "sources": sources, **settings}
    return yaml.safe_dump(made, sort_keys=False)
