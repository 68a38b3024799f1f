"""What dbt wrote of a project: `target/manifest.json`, as far as views can be made of it.

    model    what dbt builds: a query as dbt compiled it, or Python
    table    what a model may read and dbt doesn't build from a query: a source, a seed, a snapshot
    test     a query of the rows that must not be there

Invariant: a Project is of a version and an adapter that are understood. SQL that may be cut down to what a run adds is
known as such: `partial` holds the incremental models whose compiled form isn't proven to be the whole one. Proven is
one whose text leaves nothing to Jinja but names and values; of any other the proof is `run_results.json` beside the
manifest: the same invocation ran with --full-refresh. Nothing proves it of a model that asks which tables are there
(`asking`): once it was built its own is. Where the results say that the invocation left rows out of each model
(--empty, --sample), there is no Project. Of microbatch models (`batched`) the compiled SQL is never what dbt builds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ivm.errors import ConfigError
from ivm.files import read_text
from ivm.parameters import shown
from ivm.sql.text import one_statement

#: The one schema that is read; dbt 1.8 to 1.11 write it.
SCHEMA = "https://schemas.getdbt.com/dbt/manifest/v12.json"
#: Adapters whose compiled SQL is Spark's.
ADAPTERS = ("spark", "databricks")
COMPILE = "dbt compile --full-refresh"
#: Far more than the largest project's.
_MAX_BYTES = 2_000_000_000
#: Macros that tell whether a model is refreshed in full. One of them asks for the model's table itself.
_TOLD = frozenset({"macro.dbt.is_incremental", "macro.dbt.should_full_refresh"})
#: Macros by which a model asks the warehouse while it is compiled, and names that stand for the run.
_ASKING = {"macro.dbt.run_query", "macro.dbt.statement"}
_OF_THE_RUN = re.compile(r"\b(run_started_at|invocation_id|modules\.datetime)\b")
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
#: Jinja that only puts a name or a value into a text, whatever the run is; config() puts nothing there.
_VALUE = r"""\s*(?:\w+\s*=\s*)?(?:'[^']*'|"[^"]*"|\d+)\s*"""
_PLAIN = re.compile(
    rf"\{{\{{-?\s*(?:config\s*\([^(){{}}]*\)|(?:ref|source|var)\s*\({_VALUE}(?:,{_VALUE})*\))\s*-?\}}\}}"
)
#: What is told of the command itself, whatever the model's own full_refresh says.
_COMMAND = re.compile(r"\b(flags|invocation_args_dict)\b")
#: Macros, and calls in their texts, that tell which tables are there. Of a model's own text it may be any call of the
#: adapter's; in macros most tell of columns, or choose among macros.
_FINDING = {"macro.dbt.load_relation", "macro.dbt.load_cached_relation"}
_FINDS = re.compile(
    r"\b(load_relation|load_cached_relation|get_or_create_relation|adapter\.(get|list)_relations?\w*)\b"
)
_OWN_FINDS = re.compile(r"\badapter\.(?!(dispatch|quote)\b)\w+")


@dataclass(frozen=True)
class Model:
    """A model. `relation` is its table as compiled SQL calls it, "" where it is ephemeral; `sql` "" if not compiled."""

    id: str
    name: str
    relation: str
    sql: str
    materialized: str
    language: str
    reads: tuple[str, ...]
    #: It has pre- or post-hooks.
    hooks: bool = False
    #: What the compiled SQL holds of the moment of its compilation, in words; "" for nothing.
    momentary: str = ""
    #: It has SQL that dbt runs before its query.
    header: bool = False
    #: Its text as it is written, before dbt compiles it.
    raw: str = ""

    @property
    def ephemeral(self) -> bool:
        return self.materialized == "ephemeral"


@dataclass(frozen=True)
class Given:
    """A table that dbt doesn't build from a query, by the name that a project calls it: `raw.orders`, `regions`."""

    id: str
    kind: str
    name: str
    relation: str


@dataclass(frozen=True)
class Test:
    """A test: `kind` is the generic test's name, "" where it is a query of its own.

    dbt's own have their name alone; those of a package or of the project itself have its name before (`dbt_utils.x`).
    """

    __test__ = False  # pytest takes it for one

    name: str
    kind: str
    of: str
    column: str
    arguments: Mapping[str, Any]
    settings: Mapping[str, Any]
    sql: str
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Project:
    """A dbt project; models, tables by their ids."""

    name: str
    models: Mapping[str, Model]
    tables: Mapping[str, Given]
    tests: tuple[Test, ...] = ()
    disabled: tuple[str, ...] = ()
    #: Incremental models whose compiled SQL may be what a run adds to a table.
    partial: frozenset[str] = field(default_factory=frozenset)
    #: Incremental models whose compiled SQL may go by whether their tables are there.
    asking: frozenset[str] = field(default_factory=frozenset)
    #: Models that dbt builds batch by batch, from a time on.
    batched: frozenset[str] = field(default_factory=frozenset)


def read(file: Path) -> Project:
    """Read a project. Raises ConfigError for what isn't a manifest of this version, compiled for Spark."""
    data = _json(file)
    try:
        meta = data["metadata"]
        version, adapter = meta["dbt_schema_version"], meta["adapter_type"]
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"{file} is no manifest of dbt's.", f"Name target/manifest.json after `{COMPILE}`."
        ) from error
    if version != SCHEMA:
        raise ConfigError(
            f"{file} is written in the schema {shown(version)}; version 12 is read.",
            f"Run `{COMPILE}` with a dbt from 1.8 to 1.11.",
        )
    if adapter not in ADAPTERS:
        raise ConfigError(
            f"{file} was written for the adapter {shown(adapter)}, whose SQL Spark doesn't read.",
            f"Run `{COMPILE}` with a profile of dbt-spark or dbt-databricks.",
        )
    try:
        args = _arguments(file, meta)
        if cut := [f"--{name}" for name in ("empty", "sample") if args.get(name)]:
            raise ConfigError(
                f"{file} was compiled with {cut[0]}, which leaves rows out of what models read.",
                f"Run `{COMPILE}` without it.",
            )
        return _project(data, bool(args.get("full_refresh")))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{file} is not as dbt writes it: {type(error).__name__} at {error}.", f"Make it anew with `{COMPILE}`."
        ) from error


def _json(file: Path) -> Any:
    try:
        return json.loads(read_text(file, _MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid JSON.", f"Make it anew with `{COMPILE}`.") from error


def _arguments(file: Path, meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the invocation that wrote a manifest was given, as its own results say; {} where they aren't there."""
    beside = file.with_name("run_results.json")
    if not beside.exists():
        return {}
    run = _json(beside)
    same = run["metadata"]["invocation_id"] == meta["invocation_id"]
    return dict(run["args"]) if same else {}


def _project(data: Mapping[str, Any], full: bool) -> Project:
    nodes = [data["nodes"][i] for i in sorted(data["nodes"])]  # their order is another in each run of dbt
    calls = {m: tuple(d["depends_on"]["macros"]) for m, d in data["macros"].items()}
    texts = {m: d.get("macro_sql", "") for m, d in data["macros"].items()}
    written = _written(nodes, calls, texts)
    momentary = {i: _momentary(w) for i, w in written.items()}
    models = {n["unique_id"]: _model(n, momentary[n["unique_id"]]) for n in nodes if n["resource_type"] == "model"}
    given = [_given(n, n["name"]) for n in nodes if n["resource_type"] in ("seed", "snapshot")]
    given += [_given(s, f"{s['source_name']}.{s['name']}") for s in data["sources"].values()]
    incremental = {
        n["unique_id"]: n["config"].get("full_refresh")
        for n in nodes
        if n["resource_type"] == "model" and n["config"].get("materialized") == "incremental"
    }
    partial = {i for i, said in incremental.items() if written[i].decides and not _whole(written[i], said, full)}
    batched = {
        n["unique_id"]
        for n in nodes
        if n["config"].get("materialized") == "incremental" and n["config"].get("incremental_strategy") == "microbatch"
    }
    return Project(
        data["metadata"]["project_name"],
        models,
        {g.id: g for g in given},
        tuple(_test(n) for n in nodes if n["resource_type"] == "test"),
        tuple(sorted(i for i in data.get("disabled") or {} if i.startswith("model."))),
        frozenset(partial),
        frozenset(i for i in incremental if written[i].finds),
        frozenset(batched),
    )


@dataclass(frozen=True)
class _Written:
    """What makes the compiled SQL of a model: Jinja and macros.

    `own` is the Jinja of its text, and of the ephemeral models in its WITH; `called` are the texts of the macros.
    What is_incremental() and should_full_refresh() themselves do is left out: by them a model may ask for its table.
    """

    own: tuple[str, ...]
    macros: frozenset[str]
    called: tuple[str, ...]

    @property
    def decides(self) -> bool:
        """Whether Jinja does more than putting names and values in."""
        return bool(self.macros) or not all(map(_PLAIN.fullmatch, self.own))

    @property
    def finds(self) -> bool:
        """Whether it goes by which tables are there."""
        texts = [*self.own, *self.called]
        return bool(_FINDING & self.macros) or any(map(_FINDS.search, texts)) or any(map(_OWN_FINDS.search, self.own))


def _written(
    nodes: Iterable[Mapping[str, Any]], calls: Mapping[str, tuple[str, ...]], texts: Mapping[str, str]
) -> dict[str, _Written]:
    """What models are written of, by id."""
    models = {n["unique_id"]: n for n in nodes if n["resource_type"] == "model"}
    inlined = {
        i: [r for r in n["depends_on"]["nodes"] if r in models and models[r]["config"]["materialized"] == "ephemeral"]
        for i, n in models.items()
    }
    within = {**calls, **dict.fromkeys(_TOLD, ())}
    found = {}
    for id_ in models:
        parts = [models[i] for i in sorted(reached([id_], inlined))]
        macros = frozenset(m for part in parts for m in reached(part["depends_on"]["macros"], within))
        own = tuple(jinja for part in parts for jinja in _JINJA.findall(_COMMENT.sub("", part["raw_code"])))
        found[id_] = _Written(own, macros, tuple(_COMMENT.sub("", texts.get(m, "")) for m in sorted(macros - _TOLD)))
    return found


def _whole(written: _Written, said: bool | None, full: bool) -> bool:
    """Whether a model is compiled for a full refresh: what it says itself goes before the command.

    But not where it asks for the command.
    """
    asks = any(map(_COMMAND.search, (*written.own, *written.called)))
    return said is not False and (full or (said is True and not asks))


def _momentary(written: _Written) -> str:
    """What compiled SQL holds of the moment of its compilation, in words; "" for nothing."""
    words = {word for text in (*written.own, *written.called) for word in _OF_THE_RUN.findall(text)}
    warehouse = written.finds or bool(_ASKING & written.macros)
    return ", ".join([*sorted(words), *(["an answer of the warehouse"] if warehouse else [])])


def _model(node: Mapping[str, Any], momentary: str) -> Model:
    config = node["config"]
    return Model(
        node["unique_id"],
        node["name"] if node.get("version") is None else f"{node['name']}_v{node['version']}",
        plain(node.get("relation_name") or ""),
        one_statement(node.get("compiled_code") or ""),
        config["materialized"],
        node.get("language", "sql"),
        tuple(node["depends_on"]["nodes"]),
        bool(config.get("pre-hook") or config.get("post-hook")),
        momentary,
        bool(config.get("sql_header")),
        node["raw_code"],
    )


def _given(node: Mapping[str, Any], name: str) -> Given:
    return Given(node["unique_id"], node["resource_type"], name, plain(node.get("relation_name") or ""))


def _test(node: Mapping[str, Any]) -> Test:
    meta, config = node.get("test_metadata") or {}, node["config"]
    arguments = {k: v for k, v in (meta.get("kwargs") or {}).items() if k not in ("model", "column_name")}
    reads = node["depends_on"]["nodes"]
    return Test(
        node["alias"],
        _kind(meta, node["depends_on"]["macros"]),
        node.get("attached_node") or (reads[0] if len(reads) == 1 else ""),
        (node.get("column_name") or "").strip("`"),
        arguments,
        {k: config.get(k) for k in ("severity", "where", "limit", "fail_calc", "warn_if", "error_if")},
        one_statement(node.get("compiled_code") or ""),
        tuple(reads),
    )


def _kind(meta: Mapping[str, Any], macros: Iterable[str]) -> str:
    """The name of a generic test, of whose macro dbt names no package where it is dbt's own or the project's.

    >>> _kind({"name": "unique", "namespace": None}, ["macro.dbt.test_unique"])
    'unique'
    >>> _kind({"name": "unique", "namespace": None}, ["macro.shop.test_unique", "macro.dbt.get_where_subquery"])
    'shop.unique'
    """
    name, package = meta.get("name") or "", meta.get("namespace") or ""
    found = [m.split(".")[1] for m in macros if m.rpartition(".")[2] == f"test_{name}"]
    if name and not package and "dbt" not in found:
        package = found[0] if found else "another"
    return f"{package}.{name}" if package else name


def reached(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """What edges lead to, the start included.

    >>> sorted(reached(["a"], {"a": ["b"], "b": ["a", "c"]}))
    ['a', 'b', 'c']
    """
    found: set[str] = set()
    ahead = list(start)
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead.extend(edges.get(one, ()))
    return found


def plain(relation: str) -> str:
    """A relation as `ivm.sql.text.relation_tables` calls it: without quotes.

    >>> plain("`main`.`sales`.`orders`")
    'main.sales.orders'
    """
    return relation.replace("`", "")
