"""Refresh against full recompute, alternating, on one Spark session: medians, ratios, and a proof of equality.

The full recompute is what a user without ivm runs each night: each view's own SQL over the newest sources,
overwritten into a plain Delta table, by the same session with its own default settings.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ivm.demo import tpch
from ivm.demo.main import recompute_seconds, repository
from ivm.errors import ConfigError
from ivm.names import table_ref

BENCHES = ("tpch",)
WARM_UP_ROUNDS = 2


def run_bench(name: str, scale: float, fraction: float, rounds: int, folder: Path, as_json: bool, out: Console) -> int:
    """Run a benchmark by name; exit code 1 where a view differs from its recompute.

    Raises ConfigError for an unknown name.
    """
    if name not in BENCHES:
        raise ConfigError(f"There is no benchmark {name!r}.", f"Choose one of: {', '.join(BENCHES)}.")
    os.environ.setdefault("IVM_DRIVER_MEMORY", "8g")
    result = _tpch(scale, fraction, rounds, folder.absolute() / f"sf{scale}", Console(stderr=True))
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        _show(result, out)
    return 0 if result["equal"] else 1


def _tpch(scale: float, fraction: float, rounds: int, folder: Path, log: Console) -> dict[str, Any]:
    from ivm.pipeline import Pipeline
    from ivm.session import get_session

    repo = repository()
    sources = folder / "sources"
    os.environ |= {"IVM_TPCH_ROOT": str(folder / "root"), "IVM_TPCH_SOURCES": str(sources)}
    spark = get_session()
    tpch.generate(folder / "data", scale)
    loaded = folder / "loaded"
    if not loaded.exists():
        log.print("loading the sources")
        tpch.load(spark, folder / "data", sources)
        loaded.touch()
    pipe = Pipeline.load(repo / "pipelines" / "tpch", spark=spark)
    log.print("building the views")
    pipe.refresh()
    views = [n for n, c in pipe.context.compiled.items() if c.incremental]
    first = _first_batch(folder)
    measured: list[dict[str, Any]] = []
    for number in range(WARM_UP_ROUNDS + rounds):
        log.print(f"round {number + 1} of {WARM_UP_ROUNDS + rounds}{' (warm-up)' if number < WARM_UP_ROUNDS else ''}")
        tpch.change(spark, sources, first + number, fraction)
        started = time.perf_counter()
        report = pipe.refresh()
        refresh = time.perf_counter() - started
        started = time.perf_counter()
        pipe.refresh()
        noop = time.perf_counter() - started
        full = {v: recompute_seconds(pipe, v)[0] for v in views}
        log.print(f"  refresh {refresh:.2f} s, full recompute {sum(full.values()):.2f} s, no-op {noop:.2f} s")
        if number >= WARM_UP_ROUNDS:
            seconds = {v.view: v.seconds for v in report.views.values()}
            measured.append(
                {
                    "refresh": refresh,
                    "noop": noop,
                    "full": sum(full.values()),
                    "full_by_view": full,
                    "by_view": seconds,
                    "strategies": {v.view: v.strategy for v in report.views.values()},
                }
            )
    one_row = _one_row(pipe, sources, rounds)
    equal = {v: bool(pipe.verify(v)) for v in views}

    def median(key: str) -> float:
        return round(float(statistics.median(m[key] for m in measured)), 3)

    return {
        "scale": scale,
        "fraction": fraction,
        "rounds": rounds,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "refresh_s": median("refresh"),
        "full_s": median("full"),
        "ratio": round(median("full") / median("refresh"), 2),
        "noop_s": median("noop"),
        "one_row_s": round(statistics.median(one_row), 3),
        "views": {
            v: {
                "strategy": measured[-1]["strategies"][v],
                "seconds": round(statistics.median(m["by_view"][v] for m in measured), 3),
                "full_s": round(statistics.median(m["full_by_view"][v] for m in measured), 3),
            }
            for v in views
        },
        "equal": all(equal.values()),
        "differing": [v for v, same in equal.items() if not same],
    }


def _first_batch(folder: Path) -> int:
    """Batches are numbered on over runs, since a batch's rows are chosen by its number."""
    file = folder / "batches"
    first = int(file.read_text()) if file.exists() else 1
    file.write_text(str(first + 100))
    return first


def _one_row(pipe: Any, sources: Path, rounds: int) -> list[float]:
    """Seconds from one changed row in one source to one published view of three joins (q03), warm."""
    seconds = []
    for number in range(rounds + 1):
        (order,) = pipe.spark.sql(f"SELECT max(l_orderkey) FROM {table_ref(pipe.root + '/q03')}").first()
        orders = table_ref(str(sources / "orders"))
        pipe.spark.sql(
            f"UPDATE {orders} SET o_shippriority = o_shippriority + 1 WHERE o_orderkey = {int(order)}"
        ).collect()
        started = time.perf_counter()
        pipe.refresh(["q03"])
        if number:
            seconds.append(time.perf_counter() - started)
    pipe.refresh()
    return seconds


def _show(result: dict[str, Any], out: Console) -> None:
    table = Table(
        title=(
            f"TPC-H SF{result['scale']}, {result['fraction']:.2%} of the rows changed, "
            f"medians of {result['rounds']} rounds, {result['cores']} cores"
        ),
        title_justify="left",
    )
    for column in ("view", "strategy", "in apply s", "full recompute s"):
        table.add_column(column, justify="left" if column in ("view", "strategy") else "right")
    for view, figures in result["views"].items():
        table.add_row(view, figures["strategy"], f"{figures['seconds']:.2f}", f"{figures['full_s']:.2f}")
    table.add_section()
    table.add_row("all (wall clock)", "", f"{result['refresh_s']:.2f}", f"{result['full_s']:.2f}")
    out.print(table)
    out.print(
        f"refresh of all views {result['refresh_s']:.2f} s, full recompute {result['full_s']:.2f} s: "
        f"{result['ratio']:.1f} times faster"
    )
    out.print(
        f"no-op refresh {result['noop_s']:.2f} s; one changed row to published q03 {result['one_row_s']:.2f} s; "
        f"load average {result['load_average']}"
    )
    out.print(
        "every view equals its recompute"
        if result["equal"]
        else f"DIFFERENT FROM ITS RECOMPUTE: {', '.join(result['differing'])}"
    )
