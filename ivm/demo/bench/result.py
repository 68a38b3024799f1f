"""A benchmark's figures as JSON: what was asked, the machine, the versions, each round, what was verified.

Invariant: figures of the shape `SHAPE` have all that tables, plots and the page read; others are as good as absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ivm.demo.bench.asked import FRACTION, Asked
from ivm.demo.bench.machine import machine, versions
from ivm.demo.bench.record import median
from ivm.demo.main import repository

SHAPE = 2
#: What contestants are called where people read.
LABELS = {
    "spark": "ivm, Spark",
    "auto": "ivm, embedded",
    "rebuild": "Spark, full rebuild",
    "duckdb": "DuckDB, full rebuild",
}
#: The figures of a contest, in the order of its table; `{change}` is the share of rows, as people read it.
FIGURES = {
    "change_s": "{change} of the rows changed, all views, warm",
    "no_op_s": "nothing changed, warm",
    "one_row_s": "one changed row to published q03, warm",
    "shell_change_s": "{change} of the rows changed, from the shell",
    "shell_no_op_s": "nothing changed, from the shell",
    "shell_one_row_s": "one changed row to published q03, from the shell",
    "first_build_s": "first build of all views",
}


def named(asked: Asked) -> str:
    """What a run's figures are called: by benchmark, scale, and the share of rows where it isn't the usual one."""
    share = "" if asked.fraction == FRACTION or len(asked.fractions) > 1 else f"_{asked.fraction:g}"
    return f"{asked.name}_sf{asked.scale:g}{share}"


def told(asked: Asked, load_before: list[float], found: Mapping[str, Any]) -> dict[str, Any]:
    """A run's figures with all that they depend on."""
    at = {k: v for k, v in machine().items() if k != "load_average"}
    return {
        "benchmark": named(asked),
        "command": asked.command,
        "shape": SHAPE,
        "kind": asked.name,
        "machine": {**at, "load_before": load_before, "load_after": found["load_after"]},
        "versions": versions(),
        "scale": asked.scale,
        "fractions": list(asked.fractions),
        "changes": asked.changes,
        "rounds": asked.rounds,
        "warm_up": asked.warm_up,
        "again": asked.again,
        **{k: v for k, v in found.items() if k != "load_after"},
    }


def keep(found: Mapping[str, Any]) -> Path:
    """Write benchmarks/results/NAME.json of the clone. Raises IvmError where there is no clone."""
    path = repository() / "benchmarks" / "results" / f"{found['benchmark']}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


def equal(found: Mapping[str, Any]) -> bool:
    """Whether every view that ivm keeps equals its recompute."""
    return not any(v["differing"] for name, v in found["verified"].items() if name != "duckdb")


def seconds(value: float | None) -> str:
    """As people read it: three digits, at most milliseconds; a dash for what wasn't measured."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(fraction: float) -> str:
    """A share of rows, as people read it."""
    return f"{100 * fraction:g}%"


def contest_table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the figures; those that nobody has are left out."""
    names = list(found["contestants"])
    medians = [found["contestants"][n]["median"] for n in names]
    change = percent(found["fractions"][0])
    rows = [
        [what.format(change=change), *(seconds(m.get(key)) for m in medians)]
        for key, what in FIGURES.items()
        if any(key in m for m in medians)
    ]
    return ["seconds", *(LABELS[n] for n in names)], rows


def view_table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the seconds by view; what a contestant can't run is said in its place."""
    names = list(found["contestants"])
    views = sorted({v for n in names for v in found["contestants"][n]["median"]["by_view_s"]})
    rows = [[view, *(_of_view(found["contestants"][n], view) for n in names)] for view in views]
    return ["view", *(LABELS[n] for n in names)], rows


def _of_view(contestant: Mapping[str, Any], view: str) -> str:
    if view in contestant.get("failed", {}):
        return "can't"
    told = seconds(contestant["median"]["by_view_s"].get(view))
    strategy = contestant.get("strategies", {}).get(view, "")
    return f"{told} ({strategy})" if strategy not in ("", "incremental") else told


def alone_table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the queries alone, with each engine's speed-up, and all together in the last rows."""
    engines = found["engines"]
    columns = ["view", LABELS["rebuild"], *(c for e in engines for c in (LABELS[e], "times faster"))]
    rows = []
    for view, of in found["views"].items():
        own = [t for e in engines for t in (seconds(median(of[e])), f"{engines[e]['speed_up'][view]:.2f}")]
        rows.append([view, seconds(median(of["rebuild"])), *own])
    mean = [t for of in engines.values() for t in ("", f"{of['geometric_mean']:.2f}")]
    worst = [t for of in engines.values() for t in (of["worst_view"], f"{of['worst']:.2f}")]
    return columns, [*rows, ["geometric mean", "", *mean], ["worst", "", *worst]]


def crossing_table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of what each share of changed rows took, by engine."""
    rows = []
    for engine, of in found["engines"].items():
        for share, at in of.items():
            behind = "-" if at["behind"] is None else f"{at['behind']:.2f}"
            ways = [seconds(at["median"][w]) for w in ("planner", "incremental", "full")]
            rows.append([LABELS[engine], percent(float(share)), *ways, behind, _chosen(at["chosen"])])
    return ["engine", "changed", "planner", "incremental", "full", "against the better", "chosen"], rows


def means_table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of what the same change takes without each mean, by engine."""
    engines, without = found["engines"], found["without"]
    columns = ["without", "that is", *(c for e in engines for c in (LABELS[e], "times as long", "chosen"))]
    names = list(dict.fromkeys(name for of in engines.values() for name in of))
    rows = [[name, without[name], *(c for of in engines.values() for c in _without(of.get(name)))] for name in names]
    return columns, rows


def _without(at: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if at is None:
        return "-", "-", "-"
    times = "-" if at["times"] is None else f"{at['times']:.2f}"
    return seconds(at["median"]), times, _chosen(at["chosen"])


def _chosen(chosen: Mapping[str, int]) -> str:
    """How many views were refreshed by which strategy."""
    return ", ".join(f"{n} {strategy}" for strategy, n in chosen.items())


#: The tables of each kind of benchmark.
TABLES = {
    "tpch": (contest_table, view_table),
    "change": (crossing_table,),
    "alone": (alone_table,),
    "means": (means_table,),
}


def remarks(found: Mapping[str, Any]) -> list[str]:
    """What has to be said beside the tables: what was verified, what differs, what somebody can't run."""
    at = found["machine"]
    lines = [
        f"{at['cores']} cores ({at['processor']}), {at['memory_gib']} GiB, {at['at']}; load averages before and "
        f"after: {at['load_before']}, {at['load_after']}; medians of {found['rounds']} rounds "
        f"after {found['warm_up']} others; changes: {found['changes']}"
        + ("; over the lake of an earlier run" if found.get("again") else ""),
        ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
    ]
    for name, of in found["verified"].items():
        count, differing = len(of["rows"]), of["differing"]
        who = LABELS.get(name, name)
        lines.append(f"{who}: {count - len(differing)} of {count} views compared equal ({of['what']})")
        lines += [f"{who} DIFFERS in {view}: {how}" for view, how in differing.items()]
    for name, of in found.get("contestants", {}).items():
        lines += [f"{LABELS[name]} can't run {view}: {error}" for view, error in of.get("failed", {}).items()]
        for what in ("engines", "shell_engines"):
            by_spark = sorted(v for v, engine in of.get(what, {}).items() if engine != "embedded")
            place = "" if what == "engines" else ", from the shell"
            lines += [f"{LABELS[name]}{place}: Spark ran {', '.join(by_spark)}"] if by_spark else []
    return lines
